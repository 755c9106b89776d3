"""Which queries a study asks about: what its file wants, of what the database holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Dataset, Query, RankedList, System, Triplet
from hsfiq.errors import Mistake
from hsfiq.study.config import Queries, StudyConfig


def chosen_queries(session: Session, config: StudyConfig) -> list[int]:
    """The keys of the queries that the config asks for, drawn if it asks for a sample.

    Raises:
        Mistake: an unknown dataset, category, split or system; too few systems; no query, or
            fewer than are to be drawn, has a list of every system.
    """
    wanted = config.queries
    have = systems_of_queries(session, wanted)
    systems = chosen_systems(session, wanted, set().union(*have.values()))
    found = [query_id for query_id, those in have.items() if those >= systems]
    if not found:
        raise Mistake(
            "queries", "no query has the ranked lists of every system", "import their runs first"
        )
    if wanted.sample > len(found):
        raise Mistake(
            "queries.sample", f"{wanted.sample:,} are asked for, {len(found):,} are there"
        )
    if wanted.sample:
        rng = Random(f"sample:{config.design.seed}")  # noqa: S311 (a seeded draw)
        found = sorted(rng.sample(found, wanted.sample))
    return found


def systems_of_queries(session: Session, wanted: Queries) -> dict[int, set[int]]:
    """The systems that have a list, by query, of all queries that fit by dataset and kind."""
    dataset = session.scalars(select(Dataset).where(Dataset.name == wanted.dataset)).one_or_none()
    if dataset is None:
        known = session.scalars(select(Dataset.name).order_by(Dataset.name)).all()
        raise Mistake("queries.dataset", f"no dataset is called {wanted.dataset!r}", named(known))
    of_dataset = Triplet.dataset_id == dataset.id
    rows = (
        select(Query.id, RankedList.system_id)
        .join(RankedList, RankedList.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .where(of_dataset)
        .order_by(Query.id)
    )
    if wanted.categories:
        categories = session.scalars(select(Triplet.category).where(of_dataset).distinct())
        require_known("queries.categories", wanted.categories, set(categories))
        rows = rows.where(Triplet.category.in_(wanted.categories))
    if wanted.splits:
        splits = session.scalars(select(Triplet.split).where(of_dataset).distinct())
        require_known("queries.splits", wanted.splits, {split for split in splits if split})
        rows = rows.where(Triplet.split.in_(wanted.splits))
    have: dict[int, set[int]] = defaultdict(set)
    for query_id, system_id in session.execute(rows):
        have[query_id].add(system_id)
    return have


def require_known(key: str, wanted: Sequence[str], known: set[str]) -> None:
    """Raise `Mistake` for a value that no triplet has: it would silently ask about less."""
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise Mistake(key, f"no triplet of the dataset has {unknown[0]!r}", named(sorted(known)))


def chosen_systems(session: Session, wanted: Queries, there: set[int]) -> set[int]:
    """The keys of the systems asked for; if none is named, of all that have lists there."""
    known = dict(session.execute(select(System.name, System.id)).all())
    unknown = [name for name in wanted.systems if name not in known]
    if unknown:
        raise Mistake(
            "queries.systems", f"no system is called {unknown[0]!r}", named(sorted(known))
        )
    keys = {known[name] for name in wanted.systems} or there
    if len(keys) < 2:
        raise Mistake(
            "queries.systems", "a pair needs the ranked lists of two systems", "import their runs"
        )
    return keys


def named(known: Sequence[str]) -> str:
    """What there is instead."""
    return f"there are {', '.join(known)}" if known else "import it first"
