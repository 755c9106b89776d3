"""A small study for tests: a few queries, three systems, two images per set."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import Answer, ImageState, ImageStates, pair_values
from hsfiq.collect import participants
from hsfiq.collect.answers import Skip, Submitted, submit
from hsfiq.collect.asked_questions import Steps, lock_question, steps_of
from hsfiq.collect.checks import answer_check
from hsfiq.collect.participant_row import ParticipantRow, participant_row
from hsfiq.db.engine import Database
from hsfiq.db.rows import execute
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Check, Participant, Response, Study
from hsfiq.db.types import digest_of, new_token
from hsfiq.study.config import Checks, Design, Presentation, Queries, StudyConfig
from hsfiq.study.design import draw_study
from hsfiq.study.recruiting import Recruitment

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

SYSTEMS = ("alpha", "beta", "gamma")
CAPTIONS = ["is red", "has no sleeves"]

# Rows, because objects take twice as long to store, and most tests need them.
NEW_IMAGES = insert(Image).returning(Image.id, sort_by_parameter_order=True)
NEW_TRIPLETS = insert(Triplet).returning(Triplet.id, sort_by_parameter_order=True)
NEW_QUERIES = insert(Query).returning(Query.id, sort_by_parameter_order=True)
NEW_LISTS = insert(RankedList)

SMALL = Design(k=2, questions_per_form=2, forms_per_participant=2, seed=1)
"""Four questions for each participant."""


def pair_answer(
    score_1: int,
    score_2: int,
    preferred: int,
    irrelevant: bool | None = False,
    reason: str | None = None,
    **besides: Any,
) -> Answer:
    """An answer to a question about a pair; `besides` are the other fields of `Answer`."""
    return Answer(pair_values(score_1, score_2, preferred), irrelevant, reason, **besides)


def changed(answer: Answer, **values: object) -> Answer:
    """The answer with other values in its judgement."""
    return replace(answer, values={**answer.values, **values})


GOOD = pair_answer(4, 2, 1)
OTHER = pair_answer(1, 5, 2, irrelevant=True, reason="the second is red")


def images_shown(k: int, reference: ImageState = "shown") -> ImageStates:
    """The states of k images a set, all of which were seen; the reference may differ."""
    return ImageStates(reference, (("shown",) * k, ("shown",) * k))


SHOWN = images_shown(SMALL.k)
SKIP = Skip(images_shown(SMALL.k, "missing"))


def make_queries(
    database: Database,
    triplets: Mapping[str, int] | None = None,
    *,
    systems: Sequence[str] = SYSTEMS,
    both_orders: bool = False,
    length: int = 3,
    dataset: str = "small",
    separate: bool = False,
) -> list[int]:
    """So many triplets of each category with every system's list for them; the queries' keys.

    With `both_orders` each triplet gives two queries, its captions in either order. With
    `separate` each category has eight images of its own, named after it.
    """
    query_ids: list[int] = []
    with database.writing() as session:
        source = Dataset(name=dataset)
        named = [System(name=name) for name in systems]
        session.add_all([source, *named])
        session.flush()
        images: Sequence[int] = []
        for category, count in (triplets or {"shirt": 8}).items():
            if separate or not images:
                name = category if separate else "image"
                rows = [{"dataset_id": source.id, "name": f"{name}-{n}"} for n in range(8)]
                images = execute(session, NEW_IMAGES, rows).scalars().all()
            of_category = [
                {
                    "dataset_id": source.id,
                    "external_id": f"{category}.val.{number}",
                    "category": category,
                    "split": "val",
                    "reference_id": images[number % 8],
                    "target_id": images[(number + 1) % 8],
                    "captions": CAPTIONS,
                }
                for number in range(count)
            ]
            triplet_ids = execute(session, NEW_TRIPLETS, of_category).scalars().all()
            suffixes = ("", "~") if both_orders else ("",)
            numbered = [(number, suffix) for number in range(count) for suffix in suffixes]
            queries = [
                {"triplet_id": triplet_ids[number], "suffix": suffix, "text": "is red" + suffix}
                for number, suffix in numbered
            ]
            keys = execute(session, NEW_QUERIES, queries).scalars().all()
            lists = [
                {
                    "system_id": system.id,
                    "query_id": key,
                    "image_ids": [images[(number + place + rank) % 8] for rank in range(length)],
                }
                for key, (number, _) in zip(keys, numbered, strict=True)
                for place, system in enumerate(named)
            ]
            if lists:
                execute(session, NEW_LISTS, lists)
            query_ids += keys
    return query_ids


def config(
    design: Design = SMALL,
    name: str = "small",
    checks: Checks | None = None,
    recruitment: Recruitment | None = None,
    queries: Queries | None = None,
) -> StudyConfig:
    """What an owner wants, without gold or repeated pairs unless `checks` asks for them."""
    return StudyConfig(
        study=Presentation(name=name, title="Which set fits?", guidelines="Look twice."),
        design=design,
        checks=checks or Checks(),
        queries=queries or Queries(dataset="small"),
        recruitment=recruitment or Recruitment(),
    )


def draw(
    database: Database,
    query_ids: Sequence[int],
    design: Design = SMALL,
    name: str = "small",
    checks: Checks | None = None,
    recruitment: Recruitment | None = None,
) -> int:
    """Draw a study over these queries; its key."""
    with database.writing() as session:
        study_config = config(design, name, checks, recruitment)
        return draw_study(session, study_config, query_ids).id


def small_study(database: Database, **design: object) -> int:
    """An open study of eight queries: room for two participants of four questions."""
    return draw(database, make_queries(database), replace(SMALL, **design))  # type: ignore[arg-type]


def set_status(database: Database, study_id: int, status: str) -> None:
    with database.writing() as session:
        session.get_one(Study, study_id).status = status


def row_of(session: Session, participant: int, *, lock: bool = False) -> ParticipantRow:
    """The participant with this key."""
    own = select(Participant.token_hash).where(Participant.id == participant)
    row = participant_row(session, session.scalars(own).one(), lock=lock)
    assert row is not None
    return row


@dataclass(frozen=True)
class Seat:
    """A participant of a study: each call is one transaction, as in the app."""

    database: Database
    participant_id: int

    @classmethod
    def taken(cls, database: Database, study_id: int, now: datetime = NOW) -> Seat:
        with database.writing() as session:
            participant = participants.enrol(session, study_id, now=now)
            participants.consent(participant, now=now)
            return cls(database, participant.id)

    def participant(self) -> Participant:
        with self.database.reading() as session:
            return session.get_one(Participant, self.participant_id)

    def known_token(self) -> str:
        """Give the participant a new token, of which the database has the digest only."""
        token = new_token()
        with self.database.writing() as session:
            session.get_one(Participant, self.participant_id).token_hash = digest_of(token)
        return token

    def set_status(self, status: str) -> None:
        with self.database.writing() as session:
            participants.set_status(session.get_one(Participant, self.participant_id), status)

    def standing(self) -> Steps:
        with self.database.reading() as session:
            return steps_of(session, self.participant_id)

    @property
    def question_ids(self) -> list[int]:
        return [step.question_id for step in self.standing().steps if step.check_id is None]

    def submit(
        self,
        question_id: int,
        answer: Answer | Skip = GOOD,
        *,
        revision: int = 0,
        key: str | None = None,
    ) -> int:
        """Submit on a page that shows `revision`; the revision that was stored."""
        return self.submitted(question_id, answer, revision=revision, key=key).revision

    def submitted(
        self,
        question_id: int,
        answer: Answer | Skip = GOOD,
        *,
        revision: int = 0,
        key: str | None = None,
    ) -> Submitted:
        with self.database.writing() as session:
            participant = row_of(session, self.participant_id, lock=True)
            lock_question(session, question_id)
            submitted = submit(
                session,
                participant,
                question_id,
                answer,
                expected_revision=revision,
                submit_key=key or secrets.token_hex(8),
            )
            participant.store(session)
            return submitted

    def try_check(self, check_id: int, attempt: str) -> bool:
        with self.database.writing() as session:
            participant = row_of(session, self.participant_id)
            passed = answer_check(session, participant, check_id, attempt, now=NOW)
            participant.store(session)
            return passed

    def pass_check(self, check_id: int) -> None:
        with self.database.reading() as session:
            expected = session.get_one(Check, check_id).expected
        assert self.try_check(check_id, expected)

    def answer_until(self, number: int) -> None:
        """Answer everything before question `number` (from 1)."""
        while (step := self.standing().current) and (step.number < number or step.check_id):
            if step.check_id is not None:
                self.pass_check(step.check_id)
            else:
                self.submit(step.question_id)

    def answer_all(self) -> None:
        self.answer_until(10**6)


def responses(database: Database, question_id: int) -> list[Response]:
    """Every revision of the answer to a question, oldest first."""
    with database.reading() as session:
        return list(
            session.scalars(
                select(Response)
                .where(Response.question_id == question_id)
                .order_by(Response.revision, Response.id)
            )
        )


def values(response: Response) -> Answer:
    """The row as an answer without times."""
    assert response.score_1 is not None
    assert response.score_2 is not None
    assert response.preferred is not None
    return pair_answer(
        response.score_1,
        response.score_2,
        response.preferred,
        irrelevant=response.irrelevant,
        reason=response.reason,
    )


def own_environment(**variables: str) -> dict[str, str]:
    """The environment for a Python process that imports this checkout from any folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}
