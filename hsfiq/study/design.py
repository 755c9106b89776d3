"""Study design: the two systems of each query's pair, and which participants judge it.

Everything is drawn once, from a seeded generator, and stored. A batch is the questions of one
participant (all their forms), with no triplet twice. A query that several participants judge is in
as many batches, so the overlap is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import (
    Pair,
    Query,
    RankedList,
    RetrievedImage,
    RetrievedSet,
    Study,
    System,
    Triplet,
)
from hsfiq.errors import ConfigError
from hsfiq.study.config import CHOSEN_BY, StudyConfig, stored_config
from hsfiq.study.forms import FormWriter, QueryFacts

PUBLISHED_IMAGE_PATH = "/-/image_data/{category}/{name}.jpg"
"""The pattern of image paths in the published HP-FashionIQ file."""

Lists = Mapping[int, Mapping[int, list[int]]]
"""Top-k image keys by query key and system key."""


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
) -> Study:
    """Draw a study of these queries (database keys, with ranked lists) and store it.

    Args:
        session: of a writing transaction.
        config: the study's config; `ConfigError` if it does not suit the database.
        query_ids: each needs ranked lists of two systems or more.
        pairs: (query, system, system) of each question's pair; if None, drawn in equal numbers.
        chosen_by: how the pairs were chosen; the study's releases contain it.
        origin: whose answers it will have.
        status: of the new study.
    """
    require_new_name(session, config)
    require_unbound_platform_study(session, config)
    design = config.design
    rng = Random(f"study:{design.seed}")  # noqa: S311 (a seeded draw, not a secret)
    if not query_ids:
        raise ConfigError("queries", "there is no query", "import runs first")
    lists = ranked_lists(session, query_ids, design.k, config.queries.systems)
    study = Study(
        name=config.study.name,
        title=config.study.title,
        guidelines=config.study.guidelines,
        consent=config.study.consent,
        status=status,
        origin=origin,
        k=design.k,
        ties_allowed=design.preference_ties,
        forms_per_participant=design.forms_per_participant,
        design=stored_config(config) | ({CHOSEN_BY: dict(chosen_by)} if chosen_by else {}),
        image_path=PUBLISHED_IMAGE_PATH,
        source_sha256=None,
        platform_study_id=config.recruitment.platform_study_id or None,
    )
    session.add(study)
    session.flush()
    facts = query_facts(session, query_ids)
    asked = draw_pairs(rng, lists) if pairs is None else pairs
    stored = store_pairs(session, study, asked, lists, facts)
    writer = FormWriter(session, study, config, facts, lists, rng)
    for number, batch in enumerate(batches(stored, config, rng)):
        category = "" if design.categories == "mixed" else batch[0].category
        writer.write(number, category, [(pair.pair_id, pair.triplet_id) for pair in batch])
    return study


def require_new_name(session: Session, config: StudyConfig) -> None:
    if session.scalars(select(Study).where(Study.name == config.study.name)).first() is not None:
        raise ConfigError(
            "study.name", f"a study called {config.study.name!r} already exists", "choose another"
        )


def require_unbound_platform_study(session: Session, config: StudyConfig) -> None:
    wanted = config.recruitment.platform_study_id
    bound = select(Study.name).where(Study.platform_study_id == wanted)
    if wanted and (name := session.scalars(bound).one_or_none()) is not None:
        raise ConfigError(
            "recruitment.platform_study_id", f"{wanted!r} already belongs to study {name}"
        )


def query_facts(session: Session, query_ids: Sequence[int]) -> dict[int, QueryFacts]:
    wanted = set(query_ids)
    rows = session.execute(
        select(
            Query.id, Query.triplet_id, Triplet.category, Triplet.reference_id, Triplet.target_id
        ).join(Query.triplet)
    )
    return {row[0]: QueryFacts(*row) for row in rows if row[0] in wanted}


def ranked_lists(
    session: Session, query_ids: Sequence[int], k: int, systems: Sequence[str] = ()
) -> dict[int, dict[int, list[int]]]:
    """The keys of each system's top-k images, {query: {system: [image]}}; two systems at least."""
    lists: dict[int, dict[int, list[int]]] = {query: {} for query in query_ids}
    rows = select(RankedList.query_id, RankedList.system_id, RankedList.image_ids).order_by(
        RankedList.query_id, RankedList.system_id
    )
    if systems:
        rows = rows.join(System, RankedList.system_id == System.id).where(System.name.in_(systems))
    for query_id, system_id, image_ids in session.execute(rows):
        if query_id in lists and len(image_ids) >= k:
            lists[query_id][system_id] = image_ids[:k]
    n_lacking = sum(len(by_system) < 2 for by_system in lists.values())
    if n_lacking:
        raise ConfigError(
            "queries",
            f"{n_lacking} queries have lists of at least {k} images from fewer than two systems",
            "import the runs of two systems or more with `hsfiq import runs`",
        )
    return lists


def draw_pairs(rng: Random, lists: Lists) -> list[tuple[int, int, int]]:
    """Draw two systems for each query, (query, first, second), each pair of systems equally often.

    Of a query's pairs of systems one of those drawn least often so far is taken at random.
    """
    drawn: dict[tuple[int, int], int] = defaultdict(int)
    pairs = []
    for query, systems in lists.items():
        choices = list(combinations(sorted(systems), 2))
        fewest = min(drawn[choice] for choice in choices)
        choice = rng.choice([choice for choice in choices if drawn[choice] == fewest])
        drawn[choice] += 1
        pairs.append((query, *choice))
    return pairs


def store_pairs(
    session: Session,
    study: Study,
    pairs: Sequence[tuple[int, int, int]],
    lists: Lists,
    facts: Mapping[int, QueryFacts],
) -> list[DrawnPair]:
    if not pairs:
        return []
    sides = [(query, system) for query, *systems in pairs for system in systems]
    set_ids = session.scalars(
        insert(RetrievedSet).returning(RetrievedSet.id, sort_by_parameter_order=True),
        [{"query_id": query, "system_id": system} for query, system in sides],
    ).all()
    session.execute(
        insert(RetrievedImage),
        [
            {"set_id": set_id, "rank": rank, "image_id": image}
            for set_id, (query, system) in zip(set_ids, sides, strict=True)
            for rank, image in enumerate(lists[query][system])
        ],
    )
    pair_ids = session.scalars(
        insert(Pair).returning(Pair.id, sort_by_parameter_order=True),
        [
            {"study_id": study.id, "query_id": query, "first_id": first, "second_id": second}
            for (query, _, _), first, second in zip(pairs, set_ids[::2], set_ids[1::2], strict=True)
        ],
    ).all()
    return [
        DrawnPair(pair_id, query, facts[query].triplet_id, facts[query].category)
        for pair_id, (query, _, _) in zip(pair_ids, pairs, strict=True)
    ]


def batches(pairs: Sequence[DrawnPair], config: StudyConfig, rng: Random) -> list[list[DrawnPair]]:
    """Divide the pairs into batches of one category each (unless mixed), no triplet twice.

    Each pass over the pairs has every pair once, so the copies of a pair are in different batches.
    The last batches may be smaller.
    """
    design = config.design
    size = design.questions_per_form * design.forms_per_participant
    by_category: dict[str, list[DrawnPair]] = defaultdict(list)
    for pair in pairs:
        by_category["" if design.categories == "mixed" else pair.category].append(pair)
    divided: list[list[DrawnPair]] = []
    for category in sorted(by_category):
        members = by_category[category]
        shared = rng.sample(members, round(design.overlap_share * len(members)))
        packer = Packer(size)
        for copy in range(design.annotators_per_query):
            pairs_of_pass = members if copy == 0 else shared
            packer.add(rng.sample(pairs_of_pass, len(pairs_of_pass)))
        divided += packer.batches
    return divided


class Packer:
    """Fills batches of a given size, with no triplet twice in one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches: list[list[DrawnPair]] = []
        self._triplets: list[set[int]] = []
        self._first_open = 0

    def add(self, pairs: Sequence[DrawnPair]) -> None:
        for pair in pairs:
            index = self._place_for(pair.triplet_id)
            self.batches[index].append(pair)
            self._triplets[index].add(pair.triplet_id)
            while self._first_open < len(self.batches) and self._is_full(self._first_open):
                self._first_open += 1

    def _place_for(self, triplet_id: int) -> int:
        for index in range(self._first_open, len(self.batches)):
            if not self._is_full(index) and triplet_id not in self._triplets[index]:
                return index
        self.batches.append([])
        self._triplets.append(set())
        return len(self.batches) - 1

    def _is_full(self, index: int) -> bool:
        return len(self.batches[index]) == self.size
