"""Studies that are extended while others write: in short transactions, all of it or nothing."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from hsfiq.actors import OWNER
from hsfiq.collect.leases import end_lease
from hsfiq.collect.owner import extend, extend_while_running
from hsfiq.collect.studies import find_study
from hsfiq.db import engine as engine_module
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Extension, Participant, Study, StudyCreation
from hsfiq.errors import Conflict
from hsfiq.study import design
from hsfiq.study.creation import LONGEST_PAUSE
from hsfiq.study.extension import Added, MoreAnnotators, NewQueries
from tests.hsfiq.study.parts import between_parts, questions_of, row_counts
from tests.processes import Fork
from tests.studies import NOW, SMALL, Seat, draw, make_queries

DESIGN = replace(SMALL, image_order="shuffled")
MORE: tuple[MoreAnnotators | NewQueries, ...] = (MoreAnnotators(3), NewQueries(sample=6))


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 8, "dress": 8}, separate=True)


def named(session: Session, name: str) -> Study:
    study = find_study(session, name)
    assert study is not None
    return study


def extend_small(
    database: Database, wanted: MoreAnnotators | NewQueries, name: str = "small"
) -> Added:
    return extend_while_running(database, OWNER, lambda session: named(session, name), wanted, NOW)


@pytest.mark.parametrize("wanted", MORE, ids=["annotators", "queries"])
def test_the_forms_are_those_that_one_transaction_draws(
    database: Database,
    queries: list[int],
    monkeypatch: pytest.MonkeyPatch,
    wanted: MoreAnnotators | NewQueries,
) -> None:
    draw(database, queries[:4], DESIGN)
    draw(database, queries[:4], DESIGN, "same")
    between_parts(monkeypatch, lambda: None)
    added = extend_small(database, wanted)
    with database.writing() as session:
        assert extend(session, named(session, "same"), wanted, NOW) == added
    assert questions_of(database, "small") == questions_of(database, "same")
    with database.reading() as session:
        one, two = session.scalars(select(Extension).order_by(Extension.id))
        assert (one.number, one.added, one.request) == (two.number, two.added, two.request)
        assert session.scalars(select(StudyCreation)).all() == []
        assert len(session.scalars(select(Study)).all()) == 2


def test_answers_are_stored_and_questions_reassigned_meanwhile(
    database: Database, other: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = draw(database, queries[:4], DESIGN)
    seat = Seat.taken(other, study_id)
    seen: list[int] = []

    def work() -> None:
        seen.append(len({row[0] for row in questions_of(other, "small")}))
        if len(seen) == 1:
            seat.answer_until(2)
            with other.writing() as session:
                end_lease(session.get_one(Participant, seat.participant_id))
            Seat.taken(other, study_id, NOW + timedelta(minutes=1))

    between_parts(monkeypatch, work)
    before = len({row[0] for row in questions_of(database, "small")})
    added = extend_small(database, MoreAnnotators(4))
    reassigned = seen[-1] - before
    assert reassigned > 0
    assert set(seen[1:]) == {before + reassigned}
    numbers = sorted({int(str(row[0])) for row in questions_of(database, "small")})
    assert numbers == list(range(before + reassigned + added.forms))
    assert added.first_form == before + reassigned
    assert row_counts(database)["responses"] == 1
    Seat.taken(database, study_id, NOW + timedelta(minutes=2)).answer_all()


def test_two_extensions_at_once(
    database: Database, other: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(database, queries[:4], DESIGN)
    theirs: list[dict[str, int]] = []

    def extend_theirs() -> None:
        if not theirs:
            theirs.append({})
            with other.writing() as session:
                extend(session, named(session, "small"), NewQueries(sample=2), NOW)
            theirs[0] = row_counts(other)

    between_parts(monkeypatch, extend_theirs)
    with pytest.raises(Conflict, match="was extended by another command meanwhile"):
        extend_small(database, NewQueries(sample=6))
    hidden = {"study_creations": 1, "studies": 1}
    after = row_counts(database)
    assert {name: after[name] for name in hidden} == {"study_creations": 0, "studies": 1}
    assert questions_of(database, "small")
    assert after["pairs"] == 6


def extend_and_be_killed() -> None:
    """Kill this process, which extends a study, at a pause."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    engine_module.PART_SECONDS = 0.0
    vars(engine_module)["sleep"] = pause
    vars(design)["PAIRS_AT_ONCE"] = 3
    extend_small(open_database(sys.argv[1]), NewQueries(sample=6))


def test_a_killed_extension_is_invisible_and_the_next_one_works(
    database: Database, database_url: str, queries: list[int], tmp_path: Path
) -> None:
    draw(database, queries[:4], DESIGN)
    draw(database, queries[:4], DESIGN, "same")
    before = questions_of(database, "small")
    for moment in Random(0).sample(range(1, 5), 2):
        killed = Fork(extend_and_be_killed, [database_url, str(moment)], tmp_path / "log")
        assert killed.wait(60) == -signal.SIGKILL, (tmp_path / "log").read_text(encoding="utf-8")
        assert questions_of(database, "small") == before
    with database.writing() as session:
        long_ago = NOW - LONGEST_PAUSE - timedelta(seconds=1)
        assert len(session.scalars(select(StudyCreation)).all()) == 2
        session.execute(update(StudyCreation).values(continued_at=long_ago))
    extend_small(database, NewQueries(sample=6))
    with database.writing() as session:
        extend(session, named(session, "same"), NewQueries(sample=6), NOW)
    assert questions_of(database, "small") == questions_of(database, "same")
    after = row_counts(database)
    assert (after["study_creations"], after["studies"], after["pairs"]) == (0, 2, 20)
    assert after["retrieved_sets"] == 40
