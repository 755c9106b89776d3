"""Backups made while a served study takes answers, and the server is killed."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func, select

from hsfiq.backup import back_up, restore
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Response
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import Server, newcomer


class Reviser(threading.Thread):
    """A participant who revises one answer until the server ends."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server, self.acknowledged = server, 0

    def run(self) -> None:
        address = self.server.url
        with (
            httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
            suppress(httpx.TransportError),
        ):
            client.get(f"/start/{newcomer(self.server.place)}")
            shown = view(client)
            while True:
                body = answer_body(shown, f"{self.acknowledged:016}")
                assert client.post("/submit", json=body).status_code == 200
                self.acknowledged += 1
                shown = view(client, 1)


def revisions_at(url: str) -> int:
    database = open_database(url)
    with database.reading() as session:
        count = session.scalar(select(func.count(Response.id))) or 0
    database.close()
    return count


@pytest.mark.slow
def test_a_backup_has_every_answer_acknowledged_before_it_began(
    server_of_kind: Server, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = server_of_kind
    reviser = Reviser(server)
    reviser.start()
    before = 0
    for number in range(3):
        while reviser.acknowledged < before + 5:
            reviser.join(0.01)
            assert reviser.is_alive()
        before, file = reviser.acknowledged, tmp_path / f"{number}.backup"
        assert back_up(server.place.url, file).contents.answers == 1
    server.stop(signal.SIGKILL)
    reviser.join()
    if kind == "sqlite":
        new = f"sqlite:///{tmp_path / 'new.db'}"
    else:
        new = request.getfixturevalue("postgres_server").make()
    restore(file, new)
    assert before <= revisions_at(new) <= reviser.acknowledged + 1
    after = back_up(server.place.url, tmp_path / "after.backup")
    assert after.contents.rows["responses"] >= reviser.acknowledged
