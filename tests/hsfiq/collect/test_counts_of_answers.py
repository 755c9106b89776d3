"""The counts in the rows of participants and forms are those of the answers, whatever happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from hsfiq.answer_rules import Answer
from hsfiq.collect import owner
from hsfiq.collect.answers import Skip
from hsfiq.collect.leases import end_lease
from hsfiq.collect.participant_row import ANSWER_COUNTS
from hsfiq.collect.question_history import totals_now
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.schema import upgrade
from hsfiq.db.tables import Form, Participant, Study
from hsfiq.errors import NotOpen, Refused
from hsfiq.releases.export import export_releases
from hsfiq.releases.import_release import open_valid, restore
from hsfiq.study.config import Checks
from hsfiq.study.filters import Filters
from tests.hsfiq.collect.slow_progress import assert_counts, slow_totals
from tests.hsfiq.collect.study_participants import LATER, at_once, enrolled
from tests.hsfiq.db.revisions import downgrade
from tests.studies import (
    GOOD,
    NOW,
    OTHER,
    SHOWN,
    SKIP,
    SMALL,
    Seat,
    draw,
    images_shown,
    make_queries,
    responses,
)

ANSWERS: tuple[Answer | Skip, ...] = (
    GOOD,
    replace(GOOD, images=SHOWN),
    replace(OTHER, images=images_shown(SMALL.k, "loaded")),
    SKIP,
)
STATUSES = ("active", "active", "active", "paused", "excluded", "returned")


class Events:
    """What happens to a study at random: each call is one transaction of its page or its owner."""

    def __init__(self, database: Database, study: int, rng: Random) -> None:
        self.database, self.study, self.rng = database, study, rng
        self.now = NOW
        self.seats: list[Seat] = []

    def happen(self) -> None:
        usual = [self.answer] * 6
        self.rng.choice([*usual, self.enrol, self.set_status, self.leave, self.forget])()

    def enrol(self) -> None:
        self.now += timedelta(minutes=1)
        try:
            self.seats.append(Seat.taken(self.database, self.study, self.now))
        except NotOpen:
            return

    def answer(self) -> None:
        if not self.seats:
            return
        seat = self.rng.choice(self.seats)
        standing = seat.standing()
        reached = [step for step in standing.steps if step.done and step.check_id is None]
        if standing.current is not None and self.rng.random() < 0.8:
            if standing.current.check_id is not None:
                if seat.participant().status == "active":
                    seat.pass_check(standing.current.check_id)
                return
            reached = [standing.current]
        if not reached:
            return
        question = self.rng.choice(reached).question_id
        revision = len(responses(self.database, question))
        try:
            seat.submit(question, self.rng.choice(ANSWERS), revision=revision)
        except Refused:
            assert seat.participant().status != "active"

    def set_status(self) -> None:
        if self.seats:
            self.rng.choice(self.seats).set_status(self.rng.choice(STATUSES))

    def leave(self) -> None:
        if self.seats:
            with self.database.writing() as session:
                key = self.rng.choice(self.seats).participant_id
                end_lease(session.get_one(Participant, key))

    def forget(self) -> None:
        if self.seats and self.rng.random() < 0.3:
            seat = self.seats.pop(self.rng.randrange(len(self.seats)))
            with self.database.writing() as session:
                owner.forget(session, session.get_one(Participant, seat.participant_id))


def counted_study(database: Database) -> int:
    """Room for three people, with gold questions, repeated ones and sums."""
    checks = Checks(arithmetic=True, gold=1, repeated=1)
    return draw(database, make_queries(database, {"shirt": 12}), SMALL, checks=checks)


def counts(database: Database) -> list[tuple[int, ...]]:
    columns = [getattr(Participant, name) for name in (*ANSWER_COUNTS, "n_revisions")]
    with database.reading() as session:
        people = session.execute(select(*columns).order_by(Participant.id)).all()
        forms = session.execute(select(Form.n_questions).order_by(Form.id)).all()
        return [tuple(row) for row in (*people, *forms)]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens(database: Database, seed: int) -> None:
    events = Events(database, counted_study(database), Random(seed))
    events.enrol()
    for _ in range(60):
        events.happen()
        with database.reading() as session:
            study = session.get_one(Study, events.study)
            assert_counts(session, study)
            assert totals_now(session, study) == slow_totals(session, study)
    before = counts(database)
    assert any(map(any, before))
    downgrade(database.engine, "0033")
    upgrade(database.engine)
    assert counts(database) == before


def test_an_excluded_persons_questions_count_once_when_they_are_back(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 4}), SMALL)
    first = Seat.taken(database, study)
    first.answer_until(4)
    first.set_status("excluded")
    second = enrolled(database, study, now=LATER)
    assert second is not None
    first.set_status("active")
    with database.reading() as session:
        progress = assert_counts(session, session.get_one(Study, study))
    assert (progress.questions, progress.answered) == (4, 0)
    Seat(database, second).answer_all()
    with database.reading() as session:
        assert assert_counts(session, session.get_one(Study, study)).answered == 4


def test_two_tabs_of_one_person(database: Database) -> None:
    study = counted_study(database)
    seat = Seat.taken(database, study)
    question = seat.question_ids[0]

    def answer(index: int) -> object:
        try:
            return seat.submit(question, key=f"tab-{index}")
        except Refused:
            return None

    assert sorted(map(str, at_once(4, answer))) == ["1", "None", "None", "None"]
    with database.reading() as session:
        assert assert_counts(session, session.get_one(Study, study)).answered <= 1


def test_a_repeated_submit_is_counted_once(database: Database) -> None:
    study = draw(database, make_queries(database), SMALL)
    seat = Seat.taken(database, study)
    for _ in range(3):
        seat.submit(seat.question_ids[0], key="press")
    with database.reading() as session:
        assert assert_counts(session, session.get_one(Study, study)).answered == 1


def test_an_imported_release(database: Database, tmp_path: Path) -> None:
    seat = Seat.taken(database, counted_study(database))
    seat.answer_until(5)
    with database.writing() as session:
        (study,) = list_studies(session)
        study.status = "closed"
    with database.reading() as session:
        export_releases(session, study, ["hs"], Filters(), parent=tmp_path)
    (folder,) = tmp_path.iterdir()
    with database.writing() as session:
        restored = restore(session, open_valid(folder), "again")
    with database.reading() as session:
        again = next(each for each in list_studies(session) if each.name == restored.study)
        assert assert_counts(session, again).answered > 0
