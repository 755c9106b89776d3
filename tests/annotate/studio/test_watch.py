"""The pages Watch and History."""

from __future__ import annotations

from fastapi.testclient import TestClient

from tests.annotate.owner.conftest import owner, reused_watched, watched  # noqa: F401


def test_it_opens(owner: TestClient) -> None:
    for path in (
        "watch",
        "watch?person=p1",
        "watch?person=p2&all=1",
        "watch?person=p1&answer=p1.form_1.0",
        "history",
        "people.csv",
        "hours.csv",
        "comments.csv",
    ):
        response = owner.get(f"/owner/study/1/{path}")
        assert response.status_code == 200, (path, response.text)
