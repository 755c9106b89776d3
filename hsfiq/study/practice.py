"""The practice question that an owner marks among the study's queries."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.source_tables import Dataset, Query, RankedList, System, Triplet
from hsfiq.db.tables import FurtherSet, Pair, PracticeQuestion, RetrievedImage, RetrievedSet, Study
from hsfiq.errors import ConfigError
from hsfiq.images.check import find_faults
from hsfiq.images.store import open_images, root_named
from hsfiq.kinds import KINDS
from hsfiq.study.config import StudyConfig, n_sets_of

REMEDY = "copy the file to the image folder, or choose another query"


def practice_query(session: Session, config: StudyConfig) -> Query | None:
    """The query that the config marks for practice, if any; `ConfigError` if there is none."""
    wanted = config.practice.query
    if not wanted:
        return None
    query = session.scalars(
        select(Query)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .where(Dataset.name == config.queries.dataset, Triplet.external_id + Query.suffix == wanted)
    ).one_or_none()
    if query is None:
        what = f"dataset {config.queries.dataset!r} has no query {wanted!r}"
        raise ConfigError("practice.query", what, "name a query that has been imported")
    return query


def store_practice(session: Session, study: Study, config: StudyConfig) -> None:
    """Store the practice question that the config marks, if any.

    `ConfigError` if a necessary list, target or image is missing.
    """
    query = practice_query(session, config)
    if query is None:
        return
    sets = [
        store_set(session, query, system, images)
        for system, images in sets_of_practice(session, config, query)
    ]
    first, second = (*sets, None, None)[:2]
    pair = added(
        session, Pair(study_id=study.id, query_id=query.id, first_id=first, second_id=second)
    )
    for place, further in enumerate(sets[2:], start=2):
        session.add(FurtherSet(pair_id=pair.id, place=place, query_id=query.id, set_id=further))
    session.add(PracticeQuestion(study_id=study.id, pair_id=pair.id))
    session.flush()
    require_images(pair)


def sets_of_practice(
    session: Session, config: StudyConfig, query: Query
) -> list[tuple[int | None, Sequence[int]]]:
    """The system of each set, if any, and the images; all are database keys."""
    design = config.design
    if KINDS[design.kind].needs_lists:
        return [list_of(session, query, name, design.k) for name in config.practice.systems]
    if n_sets_of(design) == 0:
        return []
    if query.triplet.target_id is None:
        raise ConfigError("practice.query", "has no labelled target", "choose another query")
    return [(None, [query.triplet.target_id])]


def list_of(session: Session, query: Query, name: str, k: int) -> tuple[int, list[int]]:
    ranked = session.scalars(
        select(RankedList)
        .join(System, RankedList.system_id == System.id)
        .where(RankedList.query_id == query.id, System.name == name)
    ).one_or_none()
    if ranked is None or len(ranked.image_ids) < k:
        raise ConfigError(
            "practice.systems",
            f"{name!r} has no list of at least {k} images for the practice query",
            "name another system, or import its run",
        )
    return ranked.system_id, ranked.image_ids[:k]


def store_set(session: Session, query: Query, system_id: int | None, images: Sequence[int]) -> int:
    retrieved = added(session, RetrievedSet(query_id=query.id, system_id=system_id))
    session.execute(
        insert(RetrievedImage),
        [
            {"set_id": retrieved.id, "rank": rank, "image_id": image}
            for rank, image in enumerate(images)
        ],
    )
    return retrieved.id


def require_images(pair: Pair) -> None:
    """Raise `ConfigError` unless all images of the practice question exist."""
    triplet = pair.query.triplet
    references = [] if triplet.reference is None else [triplet.reference]
    shown = [member.image for retrieved in sets_of(pair) for member in retrieved.images]
    names = sorted({image.name for image in (*references, *shown)})
    root = triplet.dataset.image_root
    if root is None:
        raise ConfigError("practice.query", "the dataset has no image folder", "import it with one")
    for name, fault in find_faults(names, open_images(root_named(root)), None, iter):
        raise ConfigError("practice.query", f"image {name} is {fault.kind} ({fault.why})", REMEDY)


def practice_pair(session: Session, study_id: int) -> Pair | None:
    """The contents of the study's practice question; None for the drawn garments."""
    practice = session.get(PracticeQuestion, study_id)
    return None if practice is None else practice.pair


def sets_of(pair: Pair) -> list[RetrievedSet]:
    """The pair's sets in their order."""
    sets = [retrieved for retrieved in (pair.first, pair.second) if retrieved is not None]
    return [*sets, *(further.retrieved for further in pair.further)]
