"""The demo: a study on the drawn catalogue, ready to be answered or answered by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from random import Random
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.collect.checks import answer_check
from hsfiq.collect.responses import submit
from hsfiq.collect.steps import load_question, mark_served, shown_sets, steps_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Participant, RetrievedSet, Study
from hsfiq.drawn import (
    SYSTEMS,
    DrawnTriplet,
    Garment,
    SimulatedAnnotator,
    catalogue,
    corpus,
    draw_annotators,
    draw_split,
    garment_of,
    generator,
    set_utility,
)
from hsfiq.drawn.draw import write_images
from hsfiq.drawn.garments import CATEGORIES, PER_CATEGORY
from hsfiq.drawn.triplets import Split
from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.importing import dataset_named, import_runs, import_source
from hsfiq.importing.queries import QueryFinder
from hsfiq.readers.sources import Source
from hsfiq.records import Answer, Times
from hsfiq.study.config import Design, Presentation, Queries, StudyConfig
from hsfiq.study.design import draw_study

NAME = "drawn"
DATABASE_FILE = "hsfiq.db"
IMAGE_FOLDER = "images"
SPLIT: Final[Split] = "val"

GARMENTS_PER_CATEGORY = 160
"""Enough for varied sets; more are drawn where a study needs more triplets."""

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When simulated annotators begin: a fixed moment, so that a seed gives the same study."""

SIMULATED_TITLE = "Drawn catalogue, answered by simulated annotators"

SERVED_PARTICIPANTS = 12
"""The study that `hsfiq demo` serves has room for a dozen visitors."""

Track = Callable[[Sequence[SimulatedAnnotator]], Iterable[SimulatedAnnotator]]


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A triplet of the catalogue with the order in which its captions are shown."""

    triplet: DrawnTriplet
    is_reversed: bool

    @property
    def query_id(self) -> str:
        """The outside id."""
        return self.triplet.external_id + (REVERSED if self.is_reversed else "")


def database_url(folder: Path) -> str:
    """The demo's own database, whatever HSFIQ_DATABASE_URL says."""
    return sqlite_url((folder / DATABASE_FILE).resolve())


def sqlite_url(file: Path) -> str:
    """The URL that names this file.

    In a URL a `?` ends the path and a `%` stands for another character; all else is taken as it
    stands, and stays readable.
    """
    return "sqlite:///" + str(file).replace("%", "%25").replace("?", "%3F")


def demo_study(session: Session) -> Study | None:
    """The study that the demo made before, if any."""
    return session.scalars(select(Study).where(Study.name == NAME)).one_or_none()


def served_design(seed: int) -> Design:
    """The papers' design with shorter forms: a visitor gets to the end in some minutes."""
    return Design(questions_per_form=10, seed=seed)


def make_study(
    database: Database,
    folder: Path,
    design: Design,
    n_participants: int,
    *,
    simulated: bool,
    split: Split = SPLIT,
) -> dict[int, DrawnTriplet]:
    """Draw the catalogue, its images and a study with room for this many participants.

    Args:
        database: takes the study.
        folder: takes the images.
        design: of the study.
        n_participants: as many as it has room for.
        simulated: whether its answers will come from simulated annotators.
        split: whose triplets are asked; `test` has combinations that training never shows.

    Returns:
        The truth behind each query, by the query's database key.

    Raises:
        CatalogueTooSmall: the catalogue has not so many triplets.
    """
    size = design.questions_per_form * design.forms_per_participant
    per_category = ceil(n_participants / len(CATEGORIES)) * size
    garments = catalogue(
        generator(design.seed, "catalogue"),
        min(PER_CATEGORY, max(GARMENTS_PER_CATEGORY, per_category // 2)),
    )
    queries = draw_queries(design.seed, garments, per_category, split)
    write_images(garments, folder / IMAGE_FOLDER)
    with database.writing() as session:
        keys = store_queries(session, folder, garments, queries, design.seed)
        title = SIMULATED_TITLE if simulated else "Which shop understood you?"
        config = StudyConfig(
            study=Presentation(name=NAME, title=title),
            design=design,
            queries=Queries(dataset=NAME),
        )
        draw_study(session, config, keys, origin="simulated" if simulated else "collected")
    return {key: query.triplet for key, query in zip(keys, queries, strict=True)}


def draw_queries(
    seed: int, garments: Sequence[Garment], per_category: int, split: Split = SPLIT
) -> list[DrawnQuery]:
    """Draw a category's triplets, each asked once, its captions in either order."""
    triplets = [
        triplet
        for category in CATEGORIES
        for triplet in draw_split(
            generator(seed, "triplets", category), garments, category, split, per_category
        )
    ]
    order = generator(seed, "caption order")
    return [DrawnQuery(triplet, order.random() < 0.5) for triplet in triplets]


def store_queries(
    session: Session,
    folder: Path,
    garments: Sequence[Garment],
    queries: Sequence[DrawnQuery],
    seed: int,
) -> list[int]:
    """Import the triplets and the four systems' lists; return the queries' database keys."""
    dataset = dataset_named(session, NAME, folder / IMAGE_FOLDER)
    lists = []
    for category in CATEGORIES:
        candidates = corpus(garments, category)
        asked = [query for query in queries if query.triplet.category == category]
        source = Source(
            path=folder,
            corpus=f"{category}.{queries[0].triplet.split}",
            images=tuple(garment.image_id for garment in candidates),
            triplets=tuple(query.triplet.record() for query in asked),
        )
        import_source(session, dataset, source)
        lists += [
            (str(folder), system.rank(query.triplet, candidates, seed, query_id=query.query_id))
            for query in asked
            for system in SYSTEMS
        ]
    import_runs(session, dataset, lists)
    finder = QueryFinder(session, dataset)
    return [finder.by_id(query.query_id, str(folder)) for query in queries]


# ------------------------------------------------------------------------------- simulated answers


def make_answered_study(
    database: Database,
    folder: Path,
    n_answers: int,
    seed: int,
    track: Track = iter,
    split: Split = SPLIT,
) -> None:
    """Make a finished study of exactly `n_answers` answers by simulated annotators.

    The design is the papers': two forms of 25 questions each. The last annotator stops early
    where the number is no multiple of 50.
    """
    design = Design(seed=seed)
    size = design.questions_per_form * design.forms_per_participant
    n_participants = ceil(n_answers / size)
    triplets = make_study(database, folder, design, n_participants, simulated=True, split=split)
    annotators = draw_annotators(generator(seed, "annotators"), n_participants)
    with database.writing() as session:
        study = demo_study(session)
        if study is None:
            raise UnreadableInput(str(folder), "the demo's study is gone")
        left = n_answers
        for number, annotator in enumerate(track(annotators)):
            now = START + timedelta(hours=number)
            participant = participants.enrol(session, study.id, now=now)
            participants.consent(participant, now=now)
            answering = generator(seed, "answers", participant.name)
            left -= answer_all(session, participant, annotator, answering, triplets, now, left)
        study.status = "closed"


def answer_all(
    session: Session,
    participant: Participant,
    annotator: SimulatedAnnotator,
    rng: Random,
    triplets: dict[int, DrawnTriplet],
    now: datetime,
    most: int,
) -> int:
    """Answer a participant's questions through the store, `most` at the most; how many it were."""
    answered = 0
    for step in steps_of(session, participant).steps:
        if answered == most:
            break
        if step.check_id is not None:
            expected = session.get_one(Check, step.check_id).expected or ""
            answer_check(session, participant, step.check_id, expected, now=now)
            continue
        served_at = mark_served(session, step.question_id, now)
        question = load_question(session, step.question_id)
        triplet = triplets[question.pair.query_id]
        utilities = [utility_of(triplet, shown) for shown in shown_sets(question)]
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
    """The answer with the moments that its seconds imply."""
    seconds = answer.times.active_seconds or 0.0
    return Answer(
        score_1=answer.score_1,
        score_2=answer.score_2,
        preferred=answer.preferred,
        irrelevant=answer.irrelevant,
        reason=answer.reason,
        times=Times(served_at, served_at + timedelta(seconds=seconds / 2), submitted_at, seconds),
    )


def utility_of(triplet: DrawnTriplet, retrieved: RetrievedSet) -> float:
    """What a retrieved set is worth, from its garments' attributes alone."""
    return set_utility(triplet, [garment_of(member.image.name) for member in retrieved.images])
