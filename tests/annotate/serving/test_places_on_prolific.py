"""`hsfiq serve` with a token of Prolific: places go back soon after people have left there."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from hsfiq.audit import Selection, entries
from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from tests.annotate.served_studies import Place, Server, make_study
from tests.prolific_server import STUDY, TOKEN, FakeProlific, prolific_server


@pytest.fixture
def prolific(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProlific]:
    with prolific_server() as fake:
        fake.add_study()
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", fake.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        yield fake


def statuses(database: Database) -> list[str]:
    with database.reading() as session:
        return list(session.scalars(select(Participant.status).order_by(Participant.id)))


@pytest.mark.slow
def test_a_place_goes_back_within_a_minute_of_the_return(
    place: Place, prolific: FakeProlific
) -> None:
    """Two processes serve, and one of them asks; Prolific fails once before."""
    database = make_study(place, recruitment={"mode": "prolific", "completion_code": "D0NE"})
    now = datetime.now(UTC)
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        study.platform_study_id = STUDY
        for person in ("stays", "leaves"):
            participants.enrol(session, study.id, now=now, source="prolific", external_id=person)
            prolific.add(person, "ACTIVE")
    prolific.forced.append(("GET", "lost"))
    server = Server(place, "serve", "--database", place.url, "--workers", "2")
    server.start()
    try:
        while not prolific.requests:
            time.sleep(0.1)
        prolific.submissions["s-leaves"]["status"] = "RETURNED"
        returned = time.monotonic()
        while statuses(database) != ["active", "returned"]:
            assert time.monotonic() - returned < 60
            time.sleep(0.1)
        assert len(prolific.requests) == 2
    finally:
        assert server.stop(signal.SIGTERM) == 0
    log = server.log.read_text()
    assert log.count("study telltale-study: its submissions were not read: Prolific: did not") == 1
    assert "study telltale-study: p2 left on Prolific; their places are free" in log
    assert TOKEN not in log
    assert "leaves" not in log
    with database.reading() as session:
        (entry,) = entries(session, Selection())
    assert (entry.actor, entry.action, entry.about) == (
        "server: Prolific", "participant.return", "p2",
    )  # fmt: skip
    database.close()


def test_a_token_that_others_can_read_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(place).close()
    file = place.folder / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o644)
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN_FILE", str(file))
    server = Server(place)
    with pytest.raises(RuntimeError, match="the server ended with 2"):
        server.start()
    assert "other users can read it; chmod 600" in server.log.read_text()
