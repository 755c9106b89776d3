"""The demo's study: its design, with queries and ranked lists from the drawn catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.audit.actions import Action
from hsfiq.audit.actors import command_line
from hsfiq.audit.log import record
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.demo.folder import IMAGE_FOLDER
from hsfiq.demo.lists import DrawnQuery, Rank, shipped_or_ruled
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_split, generator
from hsfiq.drawn.garments import CATEGORIES, PER_CATEGORY
from hsfiq.drawn.pictures import write_images
from hsfiq.drawn.triplets import Split
from hsfiq.importing.datasets import dataset_named, import_source
from hsfiq.importing.queries import QueryFinder
from hsfiq.importing.runs import import_runs
from hsfiq.readers.sources import Source
from hsfiq.records import RankedList
from hsfiq.study.config import Design, Presentation, Queries, StudyConfig
from hsfiq.study.design import draw_study

NAME = "drawn"
SPLIT: Final[Split] = "val"

GARMENTS_PER_CATEGORY = 160
"""The minimum; studies that need more triplets draw more garments."""

TITLE, SIMULATED_TITLE = (
    "Which shop understood you?",
    "Drawn catalogue, answered by simulated annotators",
)

SERVED_PARTICIPANTS = 12
"""The default number of participants of the study that `hsfiq demo` serves."""


def find_study(session: Session) -> Study | None:
    return session.scalars(select(Study).where(Study.name == NAME)).one_or_none()


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
