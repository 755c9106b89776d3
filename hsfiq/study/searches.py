"""The searches of a study: their settings, and the systems of each search in an arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from random import Random

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.search_tables import SearchItem, StudyRetriever
from hsfiq.db.source_tables import Dataset, Image, System
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS
from hsfiq.study.config import StudyConfig
from hsfiq.study.forms import QueryFacts, balanced_colours

# Storing what a study of searches searches with.

IMAGES_AT_ONCE = 2000
"""Images that are stored before the transaction may end."""


@dataclass(frozen=True, slots=True)
class Described:
    """A retriever's self-description, and the ids of the images that it searches."""

    version: str
    corpus_name: str
    corpus_size: int
    corpus_sha256: str
    corpus: frozenset[str]


def store_retrievers(
    session: Session,
    study: Study,
    config: StudyConfig,
    facts: Mapping[int, QueryFacts],
    described: Mapping[str, Described],
    next_part: Callable[[], None],
) -> list[int]:
    """Store the study's retrievers and the images that they search; the keys of their systems.

    `next_part` is called where the transaction may end.

    `ConfigError` if a query lacks data for the task, or a retriever lacks an image of the queries.
    """
    require_parts(config, facts)
    keys = {key for query in facts.values() for key in (query.reference_id, query.target_id)}
    # Not by key: a statement of PostgreSQL takes at most 65,535 values.
    images = session.execute(
        select(Image.id, Image.name)
        .join(Dataset, Image.dataset_id == Dataset.id)
        .where(Dataset.name == config.queries.dataset)
    )
    require_images(described, frozenset(name for key, name in images if key in keys))
    if KINDS[config.design.kind].n_live > 1:
        require_one_corpus(described)
    corpora = frozenset[str]().union(*(each.corpus for each in described.values()))
    store_images(session, config, corpora, next_part)
    systems = [system_key(session, name) for name in described]
    session.execute(
        insert(StudyRetriever),
        [
            {
                "study_id": study.id,
                "system_id": system,
                "version": each.version,
                "corpus_name": each.corpus_name,
                "corpus_size": each.corpus_size,
                "corpus_sha256": each.corpus_sha256,
            }
            for system, each in zip(systems, described.values(), strict=True)
        ],
    )
    return systems


def require_parts(config: StudyConfig, facts: Mapping[int, QueryFacts]) -> None:
    n_lacking = sum(query.reference_id is None for query in facts.values())
    if n_lacking:
        what = f"{n_lacking:,} queries have no reference image, which a search needs as its start"
        raise ConfigError("queries", what, "choose others")
    n_lacking = sum(query.target_id is None for query in facts.values())
    if n_lacking and config.searches.task != "own-wish":
        what = f"{n_lacking:,} queries have no labelled target"
        raise ConfigError(
            "searches.task", what, 'choose other queries, or set the task to "own-wish"'
        )


def require_images(corpora: Mapping[str, Described], wanted: frozenset[str]) -> None:
    """`ConfigError` unless each retriever searches all of these images."""
    for number, (name, described) in enumerate(corpora.items(), start=1):
        if lacking := sorted(wanted - described.corpus):
            raise ConfigError(
                f"searches.retrievers.{number}.url",
                f"the corpus of {name} lacks {len(lacking):,} of the {len(wanted):,} images of the "
                f"study's queries, such as {lacking[0]}",
                "serve it with the dataset's images (own data: --corpus paths), or choose other "
                "queries",
            )


def require_one_corpus(corpora: Mapping[str, Described]) -> None:
    """`ConfigError` unless all retrievers search the same images.

    A text may refer to an image of either list, which both systems must know.
    """
    (first, of_first), *others = corpora.items()
    for number, (name, described) in enumerate(others, start=2):
        if n_different := len(of_first.corpus ^ described.corpus):
            raise ConfigError(
                f"searches.retrievers.{number}.url",
                f"{name} and {first} differ in {n_different:,} of the images that they search",
                "serve the systems of an arena with the same images",
            )


def store_images(
    session: Session, config: StudyConfig, names: frozenset[str], next_part: Callable[[], None]
) -> None:
    """Store the images of the corpora that are not in the dataset yet."""
    dataset = session.scalars(select(Dataset).where(Dataset.name == config.queries.dataset)).one()
    known = set(session.scalars(select(Image.name).where(Image.dataset_id == dataset.id)))
    new = [{"dataset_id": dataset.id, "name": name} for name in sorted(names - known)]
    for start in range(0, len(new), IMAGES_AT_ONCE):
        session.execute(insert(Image), new[start : start + IMAGES_AT_ONCE])
        next_part()


def system_key(session: Session, name: str) -> int:
    system = session.scalars(select(System).where(System.name == name)).one_or_none()
    return system.id if system else added(session, System(name=name)).id


def store_search_items(session: Session, systems: Mapping[int, Sequence[int]]) -> None:
    """Store the systems that search for each pair's query, side 1 first."""
    rows = [
        {"pair_id": pair_id, "side": side, "system_id": system}
        for pair_id, of_pair in systems.items()
        for side, system in enumerate(of_pair, start=1)
    ]
    if rows:
        session.execute(insert(SearchItem), rows)


# Drawing which two systems each search of an arena has, and on which side each of them is.

Systems = tuple[int, int]
"""The system of side 1 and that of side 2."""


def draw_sides(
    batches: Sequence[Sequence[int]], systems: Sequence[int], rng: Random
) -> list[list[Systems]]:
    """Two systems for each search; `batches` are the queries of each participant, in their order.

    The numbers of searches of any two pairs of systems differ by at most 1: in all, for each query,
    and for each participant. A participant sees every pair before any pair is repeated. For each
    pair, the numbers of searches with either system on side 1 differ by at most 1, too.
    """
    pairs = ordered_pairs(systems)
    rng.shuffle(pairs)
    places = [(number, query) for number, batch in enumerate(batches) for query in batch]
    met = balanced_colours(places, len(pairs), rng)
    people_and_pairs = [(number, pair) for (number, _), pair in zip(places, met, strict=True)]
    swapped = balanced_colours(people_and_pairs, 2, rng)
    drawn = [
        (pairs[pair][swap], pairs[pair][1 - swap]) for pair, swap in zip(met, swapped, strict=True)
    ]
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + len(batch))
    return [drawn[start:end] for start, end in pairwise(ends)]


def ordered_pairs(systems: Sequence[int]) -> list[Systems]:
    """All pairs of systems; each system is first in about half of its pairs."""
    return [
        (systems[low], systems[high]) if (low + high) % 2 else (systems[high], systems[low])
        for low, high in combinations(range(len(systems)), 2)
    ]
