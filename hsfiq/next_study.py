"""The next study: the most informative pairs, balanced by category and by pair of systems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, count
from pathlib import Path
from random import Random

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload

from hsfiq.actors import Actor
from hsfiq.collect.progress import StudyProgress, progress_of
from hsfiq.collect.studies import list_studies
from hsfiq.db import tables
from hsfiq.db.engine import Database
from hsfiq.db.postgres import lock_table
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.errors import ConfigError, ConfigErrors, UnreadableInput
from hsfiq.images.check import Track
from hsfiq.images.store import Root, root_named
from hsfiq.kinds import KINDS
from hsfiq.releases.folder import read_preferences, read_queries
from hsfiq.releases.splits import split_by, verify_no_leak
from hsfiq.study.capacity import capacity_of, limited_to, require_enough_forms
from hsfiq.study.config import StudyConfig, config_of, stored_recruitment
from hsfiq.study.config_file import located, read_config
from hsfiq.study.creation import create_study
from hsfiq.study.design import chosen_queries, require_new_name
from hsfiq.study.forms import ranked_lists
from hsfiq.study.images import StudyImages

# The pairs that a next study could ask: two systems' sets of a query that no study has shown.
#
# Triplets that a release holds out are excluded, so that a scorer trained on the next answers can
# still be tested on them.

Shown = tuple[int, frozenset[tuple[str, ...]]]
"""A query's database key and the images of its two sets (one, if the sets are equal)."""


@dataclass(frozen=True, slots=True)
class PossibleSet:
    """The k images that a system would show for a query, by id, with reference and text."""

    reference: str | None
    text: str
    images: tuple[str, ...]

    @property
    def scorer_query(self) -> tuple[str, str]:
        """Reference and text; `UnreadableInput` if the query has no reference or no text."""
        if self.reference is None or not self.text:
            raise UnreadableInput(
                "--checkpoint",
                "a query has no reference image or no text, and a scorer needs both",
                "use --strategy random without --checkpoint",
            )
        return self.reference, self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate pair; ids and systems are database keys, the smaller system first.

    `sets` are the indices of its sets in `Candidates.sets`.
    """

    query_id: int
    triplet_id: int
    category: str
    systems: tuple[int, int]
    sets: tuple[int, int]

    def shown(self, sets: Sequence[PossibleSet]) -> Shown:
        """The pair's item; `sets` is the list that its indices refer to."""
        return self.query_id, frozenset(sets[place].images for place in self.sets)

    def with_sets(self, first: int, second: int) -> Candidate:
        return replace(self, sets=(first, second))


@dataclass(frozen=True, slots=True)
class Candidates:
    """All candidate pairs.

    Attributes:
        sets: each set once.
        pairs: of these sets.
        systems: the systems' names by database key.
        n_asked: pairs excluded because a study has shown their two sets.
        n_held_out: triplets excluded because a release holds them out.
    """

    sets: tuple[PossibleSet, ...]
    pairs: tuple[Candidate, ...]
    systems: Mapping[int, str]
    n_asked: int
    n_held_out: int


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The triplets that a release holds out, and its datasets.

    A triplet is identified by `triplet_identity`.
    """

    datasets: frozenset[str]
    triplets: frozenset[tuple[str, ...]]


NOTHING = HeldOut(frozenset(), frozenset())


def candidates(
    session: Session,
    query_ids: Sequence[int],
    *,
    k: int,
    systems: Sequence[str],
    held_out: HeldOut = NOTHING,
) -> Candidates:
    """The pairs that could be asked about these queries (database keys), at k images a set.

    `systems` are names, all if empty. `ConfigError` if a query has too few lists of k images.
    """
    lists = ranked_lists(session, query_ids, k, systems)
    asked = pairs_asked(session)
    rows = select(Query).options(joinedload(Query.triplet).joinedload(Triplet.dataset))
    queries = {query.id: query for query in session.scalars(rows) if query.id in lists}
    names = image_names(session)
    sets: list[PossibleSet] = []
    pairs: list[Candidate] = []
    n_asked, excluded = 0, set[int]()
    for query_id, by_system in lists.items():
        query, triplet = queries[query_id], queries[query_id].triplet
        reference = names.get(triplet.reference_id or 0)
        target = names.get(triplet.target_id or 0)
        identity = triplet_identity(triplet.dataset.name, triplet.external_id, reference, target)
        if identity in held_out.triplets:
            excluded.add(triplet.id)
            continue
        places = {system: len(sets) + i for i, system in enumerate(sorted(by_system))}
        sets += [
            PossibleSet(reference, query.text, tuple(names[image] for image in by_system[system]))
            for system in places
        ]
        for first, second in combinations(places, 2):
            pair = Candidate(
                query_id=query_id,
                triplet_id=triplet.id,
                category=triplet.category,
                systems=(first, second),
                sets=(places[first], places[second]),
            )
            if pair.shown(sets) in asked:
                n_asked += 1
            else:
                pairs.append(pair)
    known = dict(session.execute(select(System.id, System.name)).all())
    return Candidates(tuple(sets), tuple(pairs), known, n_asked, len(excluded))


def pairs_asked(session: Session) -> set[Shown]:
    """The items of the pairs of all studies, whichever systems the sets are from."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = select(tables.RetrievedImage.set_id, Image.name).join(tables.RetrievedImage.image)
    for set_id, name in session.execute(rows.order_by(tables.RetrievedImage.rank)):
        images[set_id].append(name)
    return {
        (query, frozenset((tuple(images[first]), tuple(images[second]))))
        for query, first, second in session.execute(
            select(tables.Pair.query_id, tables.Pair.first_id, tables.Pair.second_id).where(
                tables.Pair.study_id.not_in(select(tables.StudyCreation.study_id))
            )
        )
        if first is not None and second is not None
    }


def image_names(session: Session) -> dict[int, str]:
    return dict(session.execute(select(Image.id, Image.name)).all())


def held_out_of(release: Path) -> HeldOut:
    """The triplets that a release holds out: no question to train on is about them.

    `UnreadableInput` if its split is missing, leaks, or holds out participants instead.
    """
    parts = verify_no_leak(release)
    if split_by(release) == "participant":
        raise UnreadableInput(
            str(release), "holds out participants and no triplets", "leave --release out"
        )
    queries = read_queries(release)
    identities = {
        query_id: triplet_identity(query.dataset, query.triplet_id, query.reference, query.target)
        for query_id, query in queries.items()
    }
    trained_on = {
        identities[answer.query_id]
        for answer in read_preferences(release)
        if parts[answer.question_id] == "train"
    }
    return HeldOut(
        datasets=frozenset(query.dataset for query in queries.values()),
        triplets=frozenset(identities.values()) - trained_on,
    )


def triplet_identity(
    dataset: str, triplet_id: str, reference: str | None, target: str | None
) -> tuple[str, ...]:
    """The identity of a triplet across databases.

    Its images, because a published study's triplets have ids of their own; without both, its id.
    """
    if reference is None or target is None:
        return dataset, triplet_id
    return dataset, reference, target


# Prepare and store a study of chosen pairs, with the design of a file or of an earlier study.


@dataclass(frozen=True, slots=True)
class Wanted:
    """The study to create, its file (if any), and the source of its answers."""

    config: StudyConfig
    origin: str
    path: Path | None = None

    def located(self, error: ConfigError) -> ConfigError | ConfigErrors:
        return error if self.path is None else located(self.path, error)


@dataclass(frozen=True, slots=True)
class Possible:
    """The candidates of the study, and its image folder, if known."""

    candidates: Candidates
    images: Root | None


def from_file(path: Path, name: str | None, origin: str) -> Wanted:
    """The study of a file, under another name if one is given; it must not ask for a sample."""
    config = read_config(path)
    if config.queries.sample:
        raise located(
            path, ConfigError("queries.sample", "cannot be used with --n", "leave it out")
        )
    study = config.study if name is None else replace(config.study, name=name)
    return Wanted(replace(config, study=study), origin, path)


def after(session: Session, old: tables.Study, name: str | None) -> Wanted:
    """A study with an earlier study's design, origin and systems; `autumn-2` follows `autumn`."""
    if old.origin == "imported":
        raise UnreadableInput(
            f"study {old.name}", "was imported and has no design", "name a CONFIG.toml"
        )
    config = config_of(old)
    queries = replace(config.queries, sample=0, systems=systems_of(session, old))
    study = replace(config.study, name=name or free_name(session, old.name))
    recruitment = replace(config.recruitment, platform_study_id="")
    changed = replace(config, study=study, queries=queries, recruitment=recruitment)
    return Wanted(changed, old.origin)


def systems_of(session: Session, study: tables.Study) -> tuple[str, ...]:
    names: set[str] = set()
    for side in (tables.Pair.first_id, tables.Pair.second_id):
        rows = (
            select(System.name)
            .join(tables.RetrievedSet, tables.RetrievedSet.system_id == System.id)
            .join(tables.Pair, side == tables.RetrievedSet.id)
            .where(
                tables.Pair.study_id == study.id,
                tables.Pair.id.not_in(select(tables.PracticeQuestion.pair_id)),
            )
        )
        names.update(session.scalars(rows.distinct()))
    return tuple(sorted(names))


def free_name(session: Session, old: str) -> str:
    """The first free name: `autumn-2` after `autumn`, then `autumn-3`."""
    taken = {study.name for study in list_studies(session)}
    return next(name for number in count(2) if (name := f"{old}-{number}") not in taken)


def possibilities(session: Session, wanted: Wanted, held_out: HeldOut) -> Possible:
    """The pairs that a study could ask; errors of its config are located in its file."""
    config = wanted.config
    if held_out.datasets and config.queries.dataset not in held_out.datasets:
        raise UnreadableInput(
            "--release",
            f"asks about {', '.join(sorted(held_out.datasets))}, not {config.queries.dataset}",
            "leave it out",
        )
    try:
        if not KINDS[config.design.kind].has_preferences:
            what = f"questions of kind {config.design.kind} are not about pairs"
            raise ConfigError("design.kind", what, "use `hsfiq study create`")
        require_new_name(session, config)
        pairs = candidates(
            session,
            chosen_queries(session, config),
            k=config.design.k,
            systems=config.queries.systems,
            held_out=held_out,
        )
    except ConfigError as error:
        raise wanted.located(error) from error
    root = session.scalars(
        select(Dataset.image_root).where(Dataset.name == config.queries.dataset)
    ).one_or_none()
    return Possible(pairs, root_named(root) if root else None)


def store_study(
    database: Database,
    wanted: Wanted,
    chosen: Sequence[Candidate],
    sets: Sequence[PossibleSet],
    chosen_by: Mapping[str, object],
    *,
    actor: Actor,
    status: str,
    track: Track = iter,
) -> tuple[StudyProgress, StudyImages]:
    """Store a study of these pairs; `sets` is the list that their indices refer to.

    Its images are checked; `track` iterates over them, for a progress bar.

    `chosen_by`, how they were chosen, becomes part of the study's releases. `UnreadableInput` if
    another study has shown one of the pairs since it was chosen.
    """
    pairs = [(pair.query_id, *pair.systems) for pair in chosen]
    shown = {pair.shown(sets) for pair in chosen}
    name = wanted.config.study.name

    def require(session: Session, study: tables.Study) -> None:
        if wanted.path is None:
            lower_cap(session, study)
        else:
            require_enough_forms(session, study, wanted.config)

    def require_at_end(session: Session) -> None:
        # Of two studies that are chosen at the same time, the second sees the pairs of the first.
        lock_table(session, tables.Pair, "SHARE ROW EXCLUSIVE")
        if count_pairs(session) != n_pairs:
            require_not_asked(session, name, shown)

    try:
        with database.reading() as session:
            n_pairs = count_pairs(session)
            require_not_asked(session, name, shown)
        images = create_study(
            database,
            wanted.config,
            [query for query, _, _ in pairs],
            actor=actor,
            require=require,
            require_at_end=require_at_end,
            pairs=pairs,
            chosen_by=chosen_by,
            origin=wanted.origin,
            status=status,
            track=track,
        )
    except ConfigError as error:
        raise wanted.located(error) from error
    with database.reading() as session:
        study = session.scalars(select(tables.Study).where(tables.Study.name == name)).one()
        return progress_of(session, study), images


def count_pairs(session: Session) -> int:
    """The pairs of all complete studies; pairs are never removed."""
    unfinished = select(tables.StudyCreation.study_id)
    pairs = select(func.count(tables.Pair.id)).where(tables.Pair.study_id.not_in(unfinished))
    return session.scalar(pairs) or 0


def require_not_asked(session: Session, name: str, shown: Set[Shown]) -> None:
    if not pairs_asked(session).isdisjoint(shown):
        raise UnreadableInput(
            f"study {name}",
            "another study has used one of its pairs in the meantime",
            "choose again",
        )


def lower_cap(session: Session, study: tables.Study) -> None:
    """Lower the earlier study's cap and quotas to what the new study has forms for."""
    lowered = limited_to(config_of(study).recruitment, capacity_of(session, study))
    study.design = study.design | {"recruitment": stored_recruitment(lowered)}
    session.flush()


# Choose a study's pairs with equal numbers for every category and for every two systems.
#
# The caller ranks only pairs of the same category and systems, so a scorer that is uncertain about
# one system's sets does not fill the study with that system.

Pick = Callable[[Sequence[int]], int]
"""Picks one of these indices of candidates; called once for each pair that is chosen."""


def balanced(pairs: Sequence[Candidate], n: int, pick: Pick, rng: Random) -> list[int]:
    """Choose n pairs, no triplet twice; return their indices in the order of choice.

    The next pair is of the category with the fewest chosen pairs, and of the two systems with the
    fewest in that category, then with the fewest overall; equal ones are drawn at random. `pick`
    chooses among the pairs of one category and two systems whose triplets are still unused.
    """
    cells: dict[tuple[str, tuple[int, int]], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        cells[pair.category, pair.systems].append(index)
    of_category, of_systems = Counter[str](), Counter[tuple[int, int]]()
    of_cell = Counter[tuple[str, tuple[int, int]]]()
    triplets: set[int] = set()
    chosen: list[int] = []
    while cells and len(chosen) < n:
        least = min(of_category[category] for category, _ in cells)
        cell = min(
            (key for key in sorted(cells) if of_category[key[0]] == least),
            key=lambda key: (of_cell[key], of_systems[key[1]], rng.random()),
        )
        cells[cell] = [index for index in cells[cell] if pairs[index].triplet_id not in triplets]
        if not cells[cell]:
            del cells[cell]
            continue
        index = pick(cells[cell])
        chosen.append(index)
        triplets.add(pairs[index].triplet_id)
        of_category[cell[0]] += 1
        of_systems[cell[1]] += 1
        of_cell[cell] += 1
    if len(chosen) < n:
        raise UnreadableInput(
            "--n",
            f"{n:,} pairs are requested, but only {len(chosen):,} triplets have an unused pair",
            "request fewer, or import more runs",
        )
    return chosen
