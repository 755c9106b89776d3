"""What the page does, without a browser: asking for views and answering them over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Response

KEY = "0123456789abcdef"


def expected_sum(prompt: str) -> str:
    left, _, right = prompt.split()
    return str(int(left) + int(right))


def view(client: TestClient, number: int | None = None) -> dict[str, Any]:
    answer = client.get("/question" if number is None else f"/question/{number}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def answer_body(shown: dict[str, Any], key: str = KEY, **changes: object) -> dict[str, Any]:
    answer = {
        "score_1": 4,
        "score_2": 2,
        "preferred": 1,
        "irrelevant": False,
        "reason": None,
        "active_seconds": 0.0,
        "seconds_since_first_interaction": None,
    }
    return {
        "assignment": shown["assignment"],
        "submit_key": key,
        "answer": answer | changes,
    }


def check_body(shown: dict[str, Any], given: str | None = None) -> dict[str, Any]:
    right = expected_sum(shown["prompt"])
    return {"assignment": shown["assignment"], "given": right if given is None else given}


def answer_until(client: TestClient, step: str) -> dict[str, Any]:
    """Answer questions, and checks rightly, until a step of this kind is shown."""
    shown = view(client)
    while shown["step"] != step:
        if shown["step"] == "check":
            shown = client.post("/check", json=check_body(shown)).json()["view"]
        else:
            shown = client.post("/submit", json=answer_body(shown)).json()["view"]
    return shown


def stored(database: Database) -> list[Response]:
    """Every revision of every answer, oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(Response).order_by(Response.id)))
