"""Study design: the systems and the participants of each query's questions.

Everything is drawn once, from a seeded generator, and stored. A batch is the questions of one
participant (all their forms), with no triplet twice. A query with several judges is in the same
number of batches, so the overlap is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from random import Random
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.rows import NEW_FURTHER_SETS, NEW_IMAGES, NEW_PAIRS, NEW_SETS, execute
from hsfiq.db.source_tables import Dataset, Query, RankedList, System, Triplet
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS
from hsfiq.study.config import CHOSEN_BY, Queries, StudyConfig, k_of, n_sets_of, stored_config
from hsfiq.study.forms import FormWriter, Lists, Material, QueryFacts, batches, material_for
from hsfiq.study.practice import practice_query, store_practice
from hsfiq.study.searches import Described, draw_sides, store_retrievers, store_search_items
from hsfiq.study.texts import record_first_version

PUBLISHED_IMAGE_PATH = "/-/image_data/{category}/{name}.jpg"
"""The pattern of image paths in the published HP-FashionIQ file."""

T = TypeVar("T")

PAIRS_AT_ONCE = 200
"""Pairs that are stored, with their sets, before `NextPart` is called."""

NextPart = Callable[[], None]
"""Called after each consistent group of rows, so that a transaction may end there."""


def same_transaction() -> None:
    """`NextPart` of a study that is stored in one transaction."""


@dataclass(frozen=True, slots=True)
class DrawnPair:
    pair_id: int
    query_id: int
    triplet_id: int
    category: str


def draw_study(
    session: Session,
    config: StudyConfig,
    query_ids: Sequence[int],
    *,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    chosen_by: Mapping[str, object] | None = None,
    origin: str = "collected",
    status: str = "open",
    retrievers: Mapping[str, Described] | None = None,
) -> Study:
    """Draw a study of these queries (database keys, with ranked lists) and store it.

    Args:
        session: of a writing transaction.
        config: the study's config; `ConfigError` if it does not suit the database.
        query_ids: each needs ranked lists of as many systems as a question shows sets.
        pairs: (query, system, system) of each question's pair; if None, drawn in equal numbers.
        chosen_by: the selection method of the pairs; the study's releases contain it.
        origin: the source of the answers.
        status: of the new study.
        retrievers: the retrievers of a study of searches, by the system's name.
    """
    require_new_name(session, config)
    require_unbound_platform_study(session, config)
    material = material_for(session, config, query_ids)
    study = added(session, new_study(config, origin=origin, status=status, chosen_by=chosen_by))
    fill_study(session, study, config, query_ids, material, pairs=pairs, retrievers=retrievers)
    return study


def new_study(
    config: StudyConfig,
    *,
    origin: str,
    status: str,
    chosen_by: Mapping[str, object] | None = None,
) -> Study:
    design = config.design
    return Study(
        name=config.study.name,
        title=config.study.title,
        guidelines=config.study.guidelines,
        consent=config.study.consent,
        status=status,
        origin=origin,
        kind=design.kind,
        k=k_of(design),
        ties_allowed=design.preference_ties,
        forms_per_participant=design.forms_per_participant,
        design=stored_config(config) | ({CHOSEN_BY: dict(chosen_by)} if chosen_by else {}),
        image_path=PUBLISHED_IMAGE_PATH,
        source_sha256=None,
        platform_study_id=config.recruitment.platform_study_id or None,
    )


def fill_study(
    session: Session,
    study: Study,
    config: StudyConfig,
    query_ids: Sequence[int],
    material: Material,
    *,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    retrievers: Mapping[str, Described] | None = None,
    next_part: NextPart = same_transaction,
) -> None:
    """Draw and store the parts of a new study; see `draw_study`."""
    rng = Random(f"study:{config.design.seed}")  # noqa: S311 (a seeded draw, not a secret)
    lists, facts = material.lists, material.facts
    require_compared(session, config, lists)
    store_practice(session, study, config)
    record_first_version(session, study, config)
    if KINDS[config.design.kind].is_live:
        systems = store_retrievers(session, study, config, facts, retrievers or {}, next_part)
        divided = draw_searches(session, study, config, query_ids, facts, systems, rng, next_part)
    else:
        stored = store_items(
            session, study, config, query_ids, lists, facts, rng, pairs=pairs, next_part=next_part
        )
        divided = batches(stored, config, rng)
    writer = FormWriter(session, study, config, facts, lists, rng)
    for number, batch in enumerate(divided):
        category = "" if config.design.categories == "mixed" else batch[0].category
        writer.write(number, category, [(pair.pair_id, pair.triplet_id) for pair in batch])
        next_part()


def require_compared(session: Session, config: StudyConfig, lists: Lists) -> None:
    """`ConfigError` if the plan is about a system whose lists the study does not show."""
    if config.analysis.question != "systems" or not config.analysis.pair:
        return
    shown = {retriever.name for retriever in config.searches.retrievers}
    if lists:
        keys = {key for of_query in lists.values() for key in of_query}
        shown = set(session.scalars(select(System.name).where(System.id.in_(keys))))
    if unknown := [name for name in config.analysis.pair if name not in shown]:
        known = f"the study shows lists of {', '.join(sorted(shown))}" if shown else "leave it out"
        raise ConfigError("analysis.pair", f"the study shows no lists of {unknown[0]!r}", known)


def store_items(
    session: Session,
    study: Study,
    config: StudyConfig,
    query_ids: Sequence[int],
    lists: Lists,
    facts: Mapping[int, QueryFacts],
    rng: Random,
    *,
    pairs: Sequence[tuple[int, ...]] | None = None,
    drawn: Mapping[tuple[int, ...], int] | None = None,
    next_part: NextPart = same_transaction,
) -> list[DrawnPair]:
    """Store the items of the questions about these queries; see `draw_study` and `draw_systems`."""
    n_sets = n_sets_of(config.design)
    stored: list[DrawnPair] = []
    if not KINDS[config.design.kind].needs_lists:
        if n_sets:
            require_targets(query_ids, facts)
        for queries in parts_of(query_ids):
            stored += store_queries(session, study, queries, facts, n_sets)
            next_part()
        return stored
    asked = draw_systems(rng, lists, n_sets, drawn) if pairs is None else pairs
    for part in parts_of(asked):
        sets_of = store_sets(session, part, lists)
        stored += store_pairs(session, study, [query for query, *_ in part], sets_of, facts)
        next_part()
    return stored


def parts_of(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        yield rows[start : start + PAIRS_AT_ONCE]


def require_new_name(session: Session, config: StudyConfig, replaced: int | None = None) -> None:
    """`ConfigError` if a study has this name, unless it is the one that will be replaced."""
    of_name = select(Study).where(Study.name == config.study.name, Study.id != (replaced or 0))
    if session.scalars(of_name).first() is not None:
        raise ConfigError(
            "study.name", f"a study called {config.study.name!r} already exists", "choose another"
        )


def require_unbound_platform_study(
    session: Session, config: StudyConfig, replaced: int | None = None
) -> None:
    wanted = config.recruitment.platform_study_id
    bound = select(Study.name).where(Study.platform_study_id == wanted, Study.id != (replaced or 0))
    if wanted and (name := session.scalars(bound).one_or_none()) is not None:
        raise ConfigError(
            "recruitment.platform_study_id", f"{wanted!r} already belongs to study {name}"
        )


def draw_systems(
    rng: Random, lists: Lists, n_sets: int, earlier: Mapping[tuple[int, ...], int] | None = None
) -> list[tuple[int, ...]]:
    """Draw systems for each query, (query, system, ...), each combination equally often.

    For each query, one of the combinations drawn least often so far is chosen at random. `earlier`
    counts the existing combinations of the study.
    """
    drawn: dict[tuple[int, ...], int] = defaultdict(int, earlier or {})
    asked: list[tuple[int, ...]] = []
    for query, systems in lists.items():
        choices = list(combinations(sorted(systems), n_sets))
        fewest = min(drawn[choice] for choice in choices)
        choice = rng.choice([choice for choice in choices if drawn[choice] == fewest])
        drawn[choice] += 1
        asked.append((query, *choice))
    return asked


def store_pairs(
    session: Session,
    study: Study,
    queries: Sequence[int],
    sets_of: Sequence[Sequence[int]],
    facts: Mapping[int, QueryFacts],
) -> list[DrawnPair]:
    """Store the items of the questions: the query and its sets, in order."""
    if not queries:
        return []
    rows = [
        {
            "study_id": study.id,
            "query_id": query,
            "first_id": next(iter(set_ids), None),
            "second_id": next(iter(set_ids[1:]), None),
        }
        for query, set_ids in zip(queries, sets_of, strict=True)
    ]
    pair_ids: Sequence[int] = execute(session, NEW_PAIRS, rows).scalars().all()
    further = [
        {"pair_id": pair_id, "place": place, "query_id": query, "set_id": set_id}
        for pair_id, query, set_ids in zip(pair_ids, queries, sets_of, strict=True)
        for place, set_id in enumerate(set_ids[2:], start=2)
    ]
    if further:
        execute(session, NEW_FURTHER_SETS, further)
    return [
        DrawnPair(pair_id, query, facts[query].triplet_id, facts[query].category)
        for pair_id, query in zip(pair_ids, queries, strict=True)
    ]


def require_targets(queries: Sequence[int], facts: Mapping[int, QueryFacts]) -> None:
    n_lacking = sum(facts[query].target_id is None for query in queries)
    if n_lacking:
        raise ConfigError(
            "design.show_target",
            f"{n_lacking:,} queries have no labelled target",
            "set it to false",
        )


def store_queries(
    session: Session,
    study: Study,
    queries: Sequence[int],
    facts: Mapping[int, QueryFacts],
    n_sets: int,
) -> list[DrawnPair]:
    """Store questions about queries alone, or about their labelled targets, a set of one each."""
    targets = {query: facts[query].target_id for query in queries}
    sets_of: list[list[int]] = [[] for _ in queries]
    if n_sets:
        new_sets = [{"query_id": query, "system_id": None} for query in queries]
        set_ids: Sequence[int] = execute(session, NEW_SETS, new_sets).scalars().all()
        images = [
            {"set_id": set_id, "rank": 0, "image_id": targets[query]}
            for set_id, query in zip(set_ids, queries, strict=True)
        ]
        execute(session, NEW_IMAGES, images)
        sets_of = [[set_id] for set_id in set_ids]
    return store_pairs(session, study, queries, sets_of, facts)


def draw_searches(
    session: Session,
    study: Study,
    config: StudyConfig,
    query_ids: Sequence[int],
    facts: Mapping[int, QueryFacts],
    systems: Sequence[int],
    rng: Random,
    next_part: NextPart,
) -> list[list[DrawnPair]]:
    """Store the searches of each batch: each query with each system, or with two at once."""
    if KINDS[config.design.kind].n_live == 1:
        asked = [(query, system) for system in systems for query in query_ids]
        return batches(store_searches(session, study, asked, facts, next_part), config, rng)
    divided = batches([facts[query] for query in query_ids], config, rng)
    queries = [[query.query_id for query in batch] for batch in divided]
    sides = draw_sides(queries, systems, rng)
    return [
        store_searches(
            session,
            study,
            [(query, *pair) for query, pair in zip(batch, drawn, strict=True)],
            facts,
            next_part,
        )
        for batch, drawn in zip(queries, sides, strict=True)
    ]


def store_searches(
    session: Session,
    study: Study,
    asked: Sequence[tuple[int, ...]],
    facts: Mapping[int, QueryFacts],
    next_part: NextPart,
) -> list[DrawnPair]:
    """Store searches: of each, the query and the systems, that of side 1 first."""
    searches: list[DrawnPair] = []
    for part in parts_of(asked):
        stored = store_queries(session, study, [query for query, *_ in part], facts, n_sets=0)
        store_search_items(
            session,
            {pair.pair_id: systems for pair, (_, *systems) in zip(stored, part, strict=True)},
        )
        searches += stored
        next_part()
    return searches


def store_sets(session: Session, asked: Sequence[tuple[int, ...]], lists: Lists) -> list[list[int]]:
    """Store the retrieved sets; for each question the keys of its sets, in their order."""
    wanted = [(query, system) for query, *systems in asked for system in systems]
    if not wanted:
        return [[] for _ in asked]
    new_sets = [{"query_id": query, "system_id": system} for query, system in wanted]
    set_ids: Sequence[int] = execute(session, NEW_SETS, new_sets).scalars().all()
    images = [
        {"set_id": set_id, "rank": rank, "image_id": image}
        for set_id, (query, system) in zip(set_ids, wanted, strict=True)
        for rank, image in enumerate(lists[query][system])
    ]
    execute(session, NEW_IMAGES, images)
    keys = iter(set_ids)
    return [list(islice(keys, len(systems))) for _, *systems in asked]


# Select a study's queries from the database.


def chosen_queries(session: Session, config: StudyConfig) -> list[int]:
    """The keys of the queries that the config selects, or a seeded sample of them.

    Queries of the practice triplet are excluded.
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
        what = "has the ranked lists of every system" if needs_lists else "matches [queries]"
        raise ConfigError("queries", f"no query {what}", remedy)
    if not wanted.sample:
        return queries
    if wanted.sample > len(queries):
        raise ConfigError(
            "queries.sample",
            f"{wanted.sample:,} queries requested, but only {len(queries):,} exist",
            f"request {len(queries):,} or fewer, or all with 0",
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
