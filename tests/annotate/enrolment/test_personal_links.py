"""Personal links."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate.cookies import COOKIE
from hsfiq.db.engine import Database
from tests.annotate.enrolment.visits import (
    CODE,
    Visit,
    count,
)
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import (
    Place,
    newcomer,
    set_status,
)


def test_a_personal_link_continues_on_any_device(
    new_browser: TestClient, copied: Place, database: Database
) -> None:
    token = newcomer(copied, is_ready=False)
    for _ in range(2):
        answer = new_browser.get(f"/start/{token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "../study/")
        assert answer.headers["cache-control"] == "no-store"
        assert view(new_browser)["step"] == "consent"
        new_browser.cookies.clear()  # another device
    new_browser.get(f"/start/{token}")
    new_browser.post("/consent", json={"agrees": True})
    new_browser.post("/practice", json={})
    new_browser.post("/submit", json=answer_body(view(new_browser)))
    new_browser.cookies.clear()
    new_browser.get(f"/start/{token}")
    assert view(new_browser)["number"] == 2
    assert count(database) == 1


@pytest.mark.parametrize(
    "token", ["x", "..%2f..%2fstudy.db", "%00", "a" * 65, "<script>", "None", "1"]
)
def test_an_invalid_link(new_browser: TestClient, token: str) -> None:
    answer = new_browser.get(f"/start/{token}")
    assert answer.status_code == 404
    assert COOKIE not in new_browser.cookies
    assert "script>" not in answer.text


def test_an_invited_participant_who_is_too_late(visit: Visit, place: Place) -> None:
    client, database = visit(recruitment={"mode": "invitation", **CODE})
    token = newcomer(place, is_ready=False)
    for status, message in (("paused", "come back later"), ("closed", "C1&lt;2&gt;3")):
        set_status(database, status)
        answer = client.get(f"/start/{token}")
        assert answer.status_code == 410
        assert message in answer.text
        assert COOKIE not in client.cookies
    assert "Begin" not in client.get("/").text
