"""What visitors see of changes that the owner makes while the study is served."""

from __future__ import annotations

from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.tables import participant_page
from hsfiq.annotate.texts import entry_texts, standard_texts
from hsfiq.collect.owner import change_quotas, extend
from hsfiq.collect.studies import list_studies
from hsfiq.db.tables import StatusChange
from hsfiq.errors import NotOpen
from hsfiq.study.config import Checks
from hsfiq.study.extension import MoreAnnotators
from tests.annotate.page_requests import answer_body, answer_until, view
from tests.annotate.served_studies import Place, begin, browser_of, enrol, make_study


def test_an_extended_study_is_offered_again(tmp_path: Path) -> None:
    database = make_study(Place(tmp_path), queries=6, recruitment={"participants": 1})
    app = plain_app(Services.of(database))
    with browser_of(app) as first, browser_of(app) as second, browser_of(app) as third:
        answer_until(enrol(first, database), "done")
        assert "Begin" not in second.get("/").text
        assert second.post("/enrol", data={"study": 1}).status_code == 410
        with database.writing() as session:
            extend(session, list_studies(session)[0], MoreAnnotators(2), datetime.now(UTC))
        assert "Begin" in second.get("/").text
        assert first.get("/question").json()["step"] == "done"
        assert answer_until(enrol(second, database), "done")["total"] == 6
        assert third.post("/enrol", data={"study": 1}).status_code == 410
    database.close()


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("on_failure", ["pause", "exclude"])
def test_failed_checks_stop_a_participant_who_was_told_so(
    tmp_path: Path, on_failure: Literal["pause", "exclude"], language: str
) -> None:
    database = make_study(
        Place(tmp_path),
        presentation={"languages": (language,)},
        recruitment={"max_failed_checks": 0, "failed_checks_code": "FA1L"},
        checks=Checks(repeated=1, on_failure=on_failure),
    )
    told = entry_texts(language)[f"checks_{on_failure}"].format(limit=0)
    with browser_of(plain_app(Services.of(database))) as client:
        assert told in unescape(client.get("/").text)
        begin(client, database)
        assert told in unescape(view(client)["text"])
        client.post("/consent", json={"agrees": True})
        client.post("/practice", json={})
        question = view(client)
        while question["step"] == "question":  # the same side every time fails the repeated pair
            sent = answer_body(question)
            reply = client.post("/submit", json=sent)
            question = reply.json()["view"]
        assert (question["kind"], question["code"]) == (f"checks-{on_failure}d", "FA1L")
        again = client.post("/submit", json=sent)
        assert (again.status_code, again.json()) == (200, reply.json())
        second_tab = client.post("/submit", json=sent | {"submit_key": "another-key-0000"})
        assert second_tab.status_code == NotOpen.status
        assert len(standard_texts(language)["page"]["farewell"][question["kind"]]) == 2
    with database.reading() as session:
        assert len(session.scalars(select(StatusChange)).all()) == 1
        page = participant_page(session, "telltale-study", "p1")
        assert f"active → {on_failure}d (by the rule: failed checks: 1" in page
    database.close()


def test_a_study_whose_quotas_are_reached_is_full(tmp_path: Path) -> None:
    recruitment = {"mode": "prolific", "quotas": {"shirt": 1}, "full_code": "FU11"}
    database = make_study(Place(tmp_path), recruitment=recruitment | {"completion_code": "C0DE"})
    with browser_of(plain_app(Services.of(database))) as client:
        arrival = {"STUDY_ID": "64ab", "SESSION_ID": "77cd"}
        for person, status in (("a", 303), ("b", 410)):
            answer = client.get("/start", params=arrival | {"PROLIFIC_PID": person})
            assert answer.status_code == status
            client.cookies.clear()
        assert "FU11" in answer.text
        with database.writing() as session:
            change_quotas(session, list_studies(session)[0], {"shirt": 2})
        answer = client.get("/start", params=arrival | {"PROLIFIC_PID": "b"})
        assert answer.status_code == 303
    database.close()
