"""Benchmarks of servers, with few clients and for a few seconds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from benchmarks import images, people
from benchmarks.limit import ANSWER, ANSWERS, limit_app
from benchmarks.serving import Place
from benchmarks.soak import soak
from hsfiq.db.engine import open_database
from tests.processes import forkserver_context


@pytest.mark.postgres
@pytest.mark.usefixtures("forked_servers", "postgres_server")
def test_everybody_answers_and_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "ENTERING", 1)
    case = people.measure(people=3, workers=2, seconds=3.0, seed=7, thinking=0.4)
    assert (case["people"], case["workers"], case["refused"]) == (3, 2, 0)
    assert case["submits"] > 0


@pytest.mark.usefixtures("forked_servers")
def test_every_acknowledged_answer_is_stored_once(tmp_path: Path) -> None:
    result = soak(Place(tmp_path), rounds=3, seed=7)
    assert result["acknowledged"] > 0
    assert result["restarts"] == 3
    assert result["lost"] == 0
    assert result["duplicated"] == 0
    assert result["overlap_exceeded"] == 0
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= result["annotators"]


def test_both_sides_send_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = SimpleNamespace(get_context=lambda _method: forkserver_context())
    monkeypatch.setattr(images, "multiprocessing", forked)
    monkeypatch.setattr(images, "QUESTIONS", 2)
    result = images.measure(n_clients=2, requests=40, seed=7)
    assert result["equal"]
    by_database, signed = result["cases"]
    assert (by_database["side"], signed["side"]) == ("database", "signed")
    # What is known of an image is read once; the other side asks at each request.
    assert signed["statements"] < 1 < by_database["statements"]


def test_every_answer_is_a_row(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'limit.db'}")
    client = TestClient(limit_app(database))
    headers = {"Content-Type": "application/json"}
    for _ in range(3):
        assert client.post("/submit", content=ANSWER, headers=headers).status_code == 200
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ANSWERS)) == 3
    database.close()
