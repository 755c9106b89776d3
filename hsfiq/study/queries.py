"""Select a study's queries from the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import Dataset, Query, RankedList, System, Triplet
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS
from hsfiq.study.config import Queries, StudyConfig, n_sets_of
from hsfiq.study.practice import practice_query


def chosen_queries(session: Session, config: StudyConfig) -> list[int]:
    """The keys of the queries that the config selects, or a seeded sample of them.

    Those of the triplet that participants practise with are not among them.
    """
    wanted = config.queries
    needs_lists = KINDS[config.design.kind].needs_lists
    systems_by_query = systems_of_queries(session, wanted, needs_lists=needs_lists)
    queries = list(systems_by_query)
    if needs_lists:
        with_lists = set().union(*systems_by_query.values())
        systems = chosen_systems(session, wanted, with_lists, n_sets_of(config.design))
        queries = [query for query, own in systems_by_query.items() if own >= systems]
    practice = practice_query(session, config)
    if practice is not None:
        of_triplet = select(Query.id).where(Query.triplet_id == practice.triplet_id)
        queries = sorted(set(queries) - set(session.scalars(of_triplet)))
    if not queries:
        remedy = "import their runs first" if needs_lists else "import queries first"
        lacks = "the ranked lists of every system" if needs_lists else "what [queries] asks for"
        raise ConfigError("queries", f"no query has {lacks}", remedy)
    if not wanted.sample:
        return queries
    if wanted.sample > len(queries):
        raise ConfigError(
            "queries.sample",
            f"asks for {wanted.sample:,} queries of {len(queries):,}",
            f"ask for {len(queries):,} or fewer, or for all with 0",
        )
    rng = Random(f"sample:{config.design.seed}")  # noqa: S311 (a seeded draw)
    return sorted(rng.sample(queries, wanted.sample))


def systems_of_queries(
    session: Session, wanted: Queries, *, needs_lists: bool = True
) -> dict[int, set[int]]:
    """The keys of the systems with a list, for each query of the wanted categories and splits.

    Queries without any list are left out, unless none is needed.
    """
    dataset = session.scalars(select(Dataset).where(Dataset.name == wanted.dataset)).one_or_none()
    if dataset is None:
        known = session.scalars(select(Dataset.name).order_by(Dataset.name)).all()
        what = f"no dataset is called {wanted.dataset!r}"
        raise ConfigError("queries.dataset", what, alternatives(known))
    of_dataset = Triplet.dataset_id == dataset.id
    rows = (
        select(Query.id, RankedList.system_id)
        .join(RankedList, RankedList.query_id == Query.id, isouter=not needs_lists)
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
    systems: dict[int, set[int]] = defaultdict(set)
    for query_id, system_id in session.execute(rows):
        systems[query_id].add(system_id)
    return systems


def require_known(key: str, wanted: Sequence[str], known: set[str]) -> None:
    unknown = [name for name in wanted if name not in known]
    if unknown:
        what = f"no triplet of the dataset has {unknown[0]!r}"
        raise ConfigError(key, what, alternatives(sorted(known)))


def chosen_systems(
    session: Session, wanted: Queries, with_lists: set[int], n_sets: int
) -> set[int]:
    """The keys of the systems that the config names; if it names none, all that have lists."""
    known = dict(session.execute(select(System.name, System.id)).all())
    unknown = [name for name in wanted.systems if name not in known]
    if unknown:
        what = f"no system is called {unknown[0]!r}"
        raise ConfigError("queries.systems", what, alternatives(sorted(known)))
    keys = {known[name] for name in wanted.systems} or with_lists
    if len(keys) < n_sets:
        what = f"a question needs the ranked lists of {n_sets} system{'s' * (n_sets > 1)}"
        raise ConfigError("queries.systems", what, "import their runs")
    return keys


def alternatives(known: Sequence[str]) -> str:
    return f"there are {', '.join(known)}" if known else "import it first"
