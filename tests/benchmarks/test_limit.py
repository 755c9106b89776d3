"""The limit that answers are compared with stores each of them."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient
from sqlalchemy import func, select

from benchmarks.limit import ANSWER, ANSWERS, limit_app
from hsfiq.db.engine import open_database


def test_every_answer_is_a_row(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'limit.db'}")
    client = TestClient(limit_app(database))
    headers = {"Content-Type": "application/json"}
    for _ in range(3):
        assert client.post("/submit", content=ANSWER, headers=headers).status_code == 200
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ANSWERS)) == 3
    database.close()
