"""The demo's study: its design, with queries and ranked lists from the drawn catalogue."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, Final

from sqlalchemy.orm import Session

from hsfiq.actors import Action, command_line
from hsfiq.answer_rules import Answer
from hsfiq.audit import record
from hsfiq.collect.asked_questions import Step, shown_sets
from hsfiq.collect.studies import study_called
from hsfiq.db.engine import Database
from hsfiq.db.sqlite import sqlite_url
from hsfiq.db.tables import Question, RetrievedSet
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
from hsfiq.drawn.garments import CATEGORIES, PER_CATEGORY
from hsfiq.drawn.triplets import Split
from hsfiq.ids import REVERSED
from hsfiq.importing import QueryFinder, dataset_named, import_runs, import_source
from hsfiq.records import RankedList, Source
from hsfiq.rehearsal import START, Judge, Track, answer_all, enrolled
from hsfiq.study.config import Design, Presentation, Queries, StudyConfig
from hsfiq.study.design import draw_study

# The demo's folder: its database, its images and their features.

DATABASE_FILE, IMAGE_FOLDER, FEATURE_FOLDER = "hsfiq.db", "images", "features"


def database_url(folder: Path) -> str:
    """Return the URL of the demo's own database; HSFIQ_DATABASE_URL is ignored."""
    return sqlite_url((folder / DATABASE_FILE).resolve())


# Where the demo's ranked lists come from.
#
# The study that `hsfiq demo` serves compares the five retrieval systems: `system_lists.json` holds
# their sets for its queries, with each system's recipe and checkpoint, as `python -m
# benchmarks.demo_lists` writes them. Other seeds, splits and sizes have other queries; there, four
# rules of known quality (`hsfiq.drawn.utility`) rank, or trained systems (`--systems`).

FILE = "system_lists.json"


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A triplet of the catalogue, with its captions in one of the two orders."""

    triplet: DrawnTriplet
    is_reversed: bool

    @property
    def query_id(self) -> str:
        return self.triplet.external_id + (REVERSED if self.is_reversed else "")


Rank = Callable[[Sequence[Garment], Sequence[DrawnQuery]], list[RankedList]]
"""Gives every system's list for each query, from the garments of its category."""


def shipped_or_ruled(seed: int) -> Rank:
    """The five systems' sets if the queries are those of the file, else the rules' lists."""

    def rank(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> list[RankedList]:
        shipped = read_shipped()
        if shipped["queries_sha256"] == queries_sha256(garments, queries):
            return shipped_lists(shipped)
        return ruled_lists(garments, queries, seed)

    return rank


def read_shipped() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_bytes())
    return content


def shipped_lists(shipped: dict[str, Any]) -> list[RankedList]:
    names = [system["recipe"]["system"] for system in shipped["systems"]]
    return [
        RankedList(query_id, name, tuple(images))
        for query_id, sets in shipped["sets"].items()
        for name, images in zip(names, sets, strict=True)
    ]


def queries_sha256(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> str:
    """Identifies the catalogue and the queries with their texts."""
    content = [
        [garment.image_id for garment in garments],
        [
            [
                query.query_id,
                query.triplet.reference.image_id,
                query.triplet.target.image_id,
                *query.triplet.captions,
            ]
            for query in queries
        ],
    ]
    return sha256(json.dumps(content).encode()).hexdigest()


def ruled_lists(
    garments: Sequence[Garment], queries: Sequence[DrawnQuery], seed: int
) -> list[RankedList]:
    """The lists of the four systems that follow rules."""
    categories = {query.triplet.category for query in queries}
    candidates = {category: corpus(garments, category) for category in categories}
    return [
        system.rank(
            query.triplet, candidates[query.triplet.category], seed, query_id=query.query_id
        )
        for query in queries
        for system in SYSTEMS
    ]


NAME = "drawn"
SPLIT: Final[Split] = "val"

GARMENTS_PER_CATEGORY = 160
"""The minimum; studies that need more triplets draw more garments."""

TITLE, SIMULATED_TITLE = (
    "Which results match better?",
    "Drawn catalogue, answered by simulated annotators",
)

SERVED_PARTICIPANTS = 12
"""The default number of participants of the study that `hsfiq demo` serves."""


def served_design(seed: int) -> Design:
    """Return the papers' design, but with short forms, which take some minutes."""
    return Design(questions_per_form=10, seed=seed)


def draw_catalogue(seed: int, per_category: int) -> tuple[Garment, ...]:
    """Draw enough garments for this many queries of each category."""
    n_garments = min(PER_CATEGORY, max(GARMENTS_PER_CATEGORY, per_category // 2))
    return catalogue(generator(seed, "catalogue"), n_garments)


def queries_per_category(design: Design, n_participants: int) -> int:
    """Return how many queries of each category are needed; each participant has one category."""
    size = design.questions_per_form * design.forms_per_participant
    return ceil(n_participants / len(CATEGORIES)) * size


def make_study(
    database: Database,
    folder: Path,
    design: Design,
    n_participants: int,
    *,
    simulated: bool,
    split: Split = SPLIT,
    rank: Rank | None = None,
) -> dict[int, DrawnTriplet]:
    """Draw the catalogue, its images and a study; return each query's triplet, by database key.

    The queries' triplets are of the `split`; `test` has combinations of attributes not in training.
    `rank` gives the lists, for garments whose images are drawn; None for `shipped_or_ruled`.

    Raises:
        CatalogueTooSmall: the catalogue has too few triplets.
    """
    from hsfiq.drawn.pictures import write_images  # noqa: PLC0415 (Pillow, an extra)

    per_category = queries_per_category(design, n_participants)
    garments = draw_catalogue(design.seed, per_category)
    queries = draw_queries(design.seed, garments, per_category, split)
    write_images(garments, folder / IMAGE_FOLDER)
    lists = (rank or shipped_or_ruled(design.seed))(garments, queries)
    with database.writing() as session:
        keys = store_queries(session, folder, garments, queries, lists)
        config = StudyConfig(
            study=Presentation(name=NAME, title=SIMULATED_TITLE if simulated else TITLE),
            design=design,
            queries=Queries(dataset=NAME),
        )
        draw_study(session, config, keys, origin="simulated" if simulated else "collected")
        record(session, command_line(), Action.STUDY_CREATE, study=NAME)
    return {key: query.triplet for key, query in zip(keys, queries, strict=True)}


def draw_queries(
    seed: int, garments: Sequence[Garment], per_category: int, split: Split = SPLIT
) -> list[DrawnQuery]:
    """Draw triplets of each category, and for each the order of its query's captions."""
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
    lists: Sequence[RankedList],
) -> list[int]:
    """Import the triplets and the systems' lists; return the queries' database keys."""
    dataset = dataset_named(session, NAME, folder / IMAGE_FOLDER)
    for category in CATEGORIES:
        candidates = corpus(garments, category)
        of_category = [query for query in queries if query.triplet.category == category]
        source = Source(
            path=folder,
            corpus=f"{category}.{queries[0].triplet.split}",
            images=tuple(garment.image_id for garment in candidates),
            triplets=tuple(query.triplet.record() for query in of_category),
        )
        import_source(session, dataset, source)
    import_runs(session, dataset, [(str(folder), ranked) for ranked in lists])
    finder = QueryFinder(session, dataset)
    return [finder.by_id(query.query_id, str(folder)) for query in queries]


# A study that simulated annotators have answered.


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
        study = study_called(session, NAME)
        left = n_answers
        for number, annotator in enumerate(track(annotators)):
            now = START + timedelta(hours=number)
            row = enrolled(session, study.id, now)
            rng = generator(seed, "answers", row.name)
            left -= answer_all(session, row, rng, judge_of(annotator, triplets), now, left)
            row.store(session)
        study.status = "closed"


def judge_of(annotator: SimulatedAnnotator, triplets: dict[int, DrawnTriplet]) -> Judge:
    """How an annotator judges pairs of drawn garments."""

    def judge(rng: Random, question: Question, _step: Step) -> Answer:
        triplet = triplets[question.pair.query_id]
        utilities = [utility_of(triplet, retrieved) for retrieved in shown_sets(question)]
        return annotator.answer(rng, utilities[0], utilities[1])

    return judge


def utility_of(triplet: DrawnTriplet, retrieved: RetrievedSet) -> float:
    return set_utility(triplet, [garment_of(member.image.name) for member in retrieved.images])
