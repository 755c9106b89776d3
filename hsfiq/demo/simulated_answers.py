"""A study answered by simulated annotators, through the same functions as people's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from random import Random

from sqlalchemy.orm import Session

from hsfiq.answer_rules import Answer, Times
from hsfiq.collect import participants
from hsfiq.collect.answers import submit
from hsfiq.collect.asked_questions import load_first_questions, mark_served, shown_sets, steps_of
from hsfiq.collect.checks import answer_check
from hsfiq.collect.participant_row import ParticipantRow, read_row
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, RetrievedSet
from hsfiq.demo.study import NAME, SPLIT, Rank, make_study
from hsfiq.drawn import (
    DrawnTriplet,
    SimulatedAnnotator,
    draw_annotators,
    garment_of,
    generator,
    set_utility,
)
from hsfiq.drawn.triplets import Split
from hsfiq.errors import UnreadableInput
from hsfiq.study.config import Design

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When the answers begin: a fixed time, so that a seed always gives the same study."""

Track = Callable[[Sequence[SimulatedAnnotator]], Iterable[SimulatedAnnotator]]


def make_answered_study(
    database: Database,
    folder: Path,
    n_answers: int,
    seed: int,
    track: Track = iter,
    split: Split = SPLIT,
    rank: Rank | None = None,
) -> None:
    """Make a closed study with exactly `n_answers` answers by simulated annotators.

    Each has two forms of 25 questions, as in the papers. The last one stops early if the number is
    not a multiple of 50.
    """
    design = Design(seed=seed)
    size = design.questions_per_form * design.forms_per_participant
    n_participants = ceil(n_answers / size)
    triplets = make_study(
        database, folder, design, n_participants, simulated=True, split=split, rank=rank
    )
    annotators = draw_annotators(generator(seed, "annotators"), n_participants)
    with database.writing() as session:
        study = find_study(session, NAME)
        if study is None:
            raise UnreadableInput(str(folder), "the demo's study is missing")
        left = n_answers
        for number, annotator in enumerate(track(annotators)):
            now = START + timedelta(hours=number)
            participant = participants.enrol(session, study.id, now=now)
            participants.consent(participant, now=now)
            row = read_row(session, participant.token_hash)
            rng = generator(seed, "answers", row.name)
            left -= answer_all(session, row, annotator, rng, triplets, now, left)
            row.store(session)
        study.status = "closed"


def answer_all(
    session: Session,
    participant: ParticipantRow,
    annotator: SimulatedAnnotator,
    rng: Random,
    triplets: dict[int, DrawnTriplet],
    now: datetime,
    most: int,
) -> int:
    """Answer up to `most` questions of a participant; return how many were answered."""
    answered = 0
    questions = load_first_questions(session, participant.id, most)
    for step in steps_of(session, participant.id).steps:
        if answered == most:
            break
        if step.check_id is not None:
            expected = session.get_one(Check, step.check_id).expected or ""
            answer_check(session, participant, step.check_id, expected, now=now)
            continue
        served_at = now
        mark_served(session, step.question_id, served_at)
        question = questions[step.question_id]
        triplet = triplets[question.pair.query_id]
        utilities = [utility_of(triplet, retrieved) for retrieved in shown_sets(question)]
        answer = annotator.answer(rng, utilities[0], utilities[1])
        now = served_at + timedelta(seconds=answer.times.active_seconds or 0.0)
        submit(
            session,
            participant,
            step.question_id,
            with_times(answer, served_at, now),
            expected_revision=0,
            submit_key="simulated",
        )
        answered += 1
    return answered


def with_times(answer: Answer, served_at: datetime, submitted_at: datetime) -> Answer:
    """Add the times that follow from the answer's active seconds."""
    seconds = answer.times.active_seconds or 0.0
    first_interaction_at = served_at + timedelta(seconds=seconds / 2)
    return replace(answer, times=Times(served_at, first_interaction_at, submitted_at, seconds))


def utility_of(triplet: DrawnTriplet, retrieved: RetrievedSet) -> float:
    return set_utility(triplet, [garment_of(member.image.name) for member in retrieved.images])
