"""The page's requests without a browser: getting views and answering them over HTTP."""

from __future__ import annotations

import re
from typing import Any

import httpx
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Response

KEY = "0123456789abcdef"


def expected_sum(prompt: str) -> str:
    left, _, right = prompt.split()
    return str(int(left) + int(right))


def begin_form(client: TestClient | httpx.Client, study: int = 1, **fields: str) -> dict[str, Any]:
    """The welcome page's form for a study, without a proof if the page has no form."""
    proof = re.search(r'name="proof" value="([^"]+)"', client.get("/").text)
    return {"study": study, "proof": proof[1] if proof else "", **fields}


def view(client: TestClient, number: int | None = None) -> dict[str, Any]:
    answer = client.get("/question" if number is None else f"/question/{number}")
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def token_of(image: dict[str, Any]) -> str:
    """The token with which the address of an image begins; a signature follows."""
    token, _, _ = str(image["token"]).partition(".")
    return token


def answer_body(question: dict[str, Any], key: str = KEY, **changes: object) -> dict[str, Any]:
    """An answer to a pair; `changes` are of the judgement, or of what comes with it."""
    pair = {"score_1": 4, "score_2": 2, "preferred": 1, "confirmed": False}
    judgement = pair | {name: changes.pop(name) for name in pair if name in changes}
    return judged_body(question, judgement, key, **changes)


def judged_body(
    question: dict[str, Any], judgement: dict[str, Any], key: str = KEY, **changes: object
) -> dict[str, Any]:
    """An answer to a question of any kind."""
    answer = {
        "judgement": judgement,
        "irrelevant": False,
        "reason": None,
        "active_seconds": 0.0,
        "seconds_since_first_interaction": None,
    }
    return asked_body(question, key) | {"answer": answer | changes}


def asked_body(question: dict[str, Any], key: str) -> dict[str, Any]:
    return {
        "assignment": question["assignment"],
        "submit_key": key,
        "images": images_body(question),
    }


def skip_body(question: dict[str, Any], key: str = KEY) -> dict[str, Any]:
    return asked_body(question, key) | {"skip": True}


def images_body(question: dict[str, Any]) -> dict[str, Any]:
    """What a page reports where every image that is there has been seen."""

    def state(image: dict[str, Any]) -> str:
        return "missing" if image["missing"] else "shown"

    reference = question["reference"]
    return {
        "reference": state(reference) if reference else None,
        "sets": [[state(image) for image in images] for images in question["sets"]],
    }


def check_body(check: dict[str, Any], attempt: str | None = None) -> dict[str, Any]:
    right = expected_sum(check["prompt"])
    return {"assignment": check["assignment"], "given": right if attempt is None else attempt}


def answer_until(client: TestClient, step: str) -> dict[str, Any]:
    """Answer questions, and checks correctly, until a step of this kind is shown."""
    current_view = view(client)
    while current_view["step"] != step:
        if current_view["step"] == "check":
            current_view = client.post("/check", json=check_body(current_view)).json()["view"]
        else:
            current_view = client.post("/submit", json=answer_body(current_view)).json()["view"]
    return current_view


def stored(database: Database) -> list[Response]:
    """Every revision of every answer, oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(Response).order_by(Response.id)))
