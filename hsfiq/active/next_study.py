"""Prepare and store a study of chosen pairs, with the design of a file or of an earlier study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from hsfiq.active.candidates import (
    Candidate,
    Candidates,
    HeldOut,
    PossibleSet,
    Shown,
    candidates,
    pairs_asked,
)
from hsfiq.audit.actors import Actor
from hsfiq.collect.progress import StudyProgress, progress_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.change_tables import StudyCreation
from hsfiq.db.engine import Database
from hsfiq.db.tables import Dataset, Pair, PracticeQuestion, RetrievedSet, Study, System
from hsfiq.errors import ConfigError, ConfigErrors, UnreadableInput
from hsfiq.images.check import Track
from hsfiq.study.capacity import capacity_of, limited_to, require_enough_forms
from hsfiq.study.config import StudyConfig, config_of, stored_recruitment
from hsfiq.study.config_file import located, read_config
from hsfiq.study.creation.create import create_study
from hsfiq.study.design import require_new_name
from hsfiq.study.images.check import StudyImages
from hsfiq.study.queries import chosen_queries


@dataclass(frozen=True, slots=True)
class Wanted:
    """The study to create, its file (if it has one), and whose answers it will have."""

    config: StudyConfig
    origin: str
    path: Path | None = None

    def located(self, error: ConfigError) -> ConfigError | ConfigErrors:
        return error if self.path is None else located(self.path, error)


@dataclass(frozen=True, slots=True)
class Possible:
    """What the study could ask, and its image folder, if the database knows it."""

    candidates: Candidates
    images: Path | None


def from_file(path: Path, name: str | None, origin: str) -> Wanted:
    """The study of a file, under another name if one is given; it must not ask for a sample."""
    config = read_config(path)
    if config.queries.sample:
        raise located(
            path, ConfigError("queries.sample", "cannot be used with --n", "leave it out")
        )
    study = config.study if name is None else replace(config.study, name=name)
    return Wanted(replace(config, study=study), origin, path)


def after(session: Session, old: Study, name: str | None) -> Wanted:
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


def systems_of(session: Session, study: Study) -> tuple[str, ...]:
    names: set[str] = set()
    for side in (Pair.first_id, Pair.second_id):
        rows = (
            select(System.name)
            .join(RetrievedSet, RetrievedSet.system_id == System.id)
            .join(Pair, side == RetrievedSet.id)
            .where(Pair.study_id == study.id, Pair.id.not_in(select(PracticeQuestion.pair_id)))
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
        require_pairs(config)
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
    return Possible(pairs, Path(root) if root else None)


def require_pairs(config: StudyConfig) -> None:
    if config.design.kind != "pair":
        what = f"questions of kind {config.design.kind} have no pairs to choose"
        raise ConfigError("design.kind", what, "use `hsfiq study create`")


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

    def require(session: Session, study: Study) -> None:
        if wanted.path is None:
            lower_cap(session, study)
        else:
            require_enough_forms(session, study, wanted.config)

    def require_at_end(session: Session) -> None:
        lock_pairs(session)
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
        study = session.scalars(select(Study).where(Study.name == name)).one()
        return progress_of(session, study), images


def count_pairs(session: Session) -> int:
    """The pairs of all studies that are complete; they only ever become more."""
    unfinished = select(StudyCreation.study_id)
    pairs = select(func.count(Pair.id)).where(Pair.study_id.not_in(unfinished))
    return session.scalar(pairs) or 0


def require_not_asked(session: Session, name: str, shown: Set[Shown]) -> None:
    if not pairs_asked(session).isdisjoint(shown):
        raise UnreadableInput(
            f"study {name}",
            "another study has shown one of its pairs in the meantime",
            "choose again",
        )


def lower_cap(session: Session, study: Study) -> None:
    """Lower the earlier study's cap and quotas to what the new study has forms for."""
    lowered = limited_to(config_of(study).recruitment, capacity_of(session, study))
    study.design = study.design | {"recruitment": stored_recruitment(lowered)}
    session.flush()


def lock_pairs(session: Session) -> None:
    """Prevent other transactions from storing pairs (SQLite allows only one writer anyway).

    So of two studies that are chosen at the same time, the second sees the pairs of the first.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"LOCK TABLE {Pair.__tablename__} IN SHARE ROW EXCLUSIVE MODE"))
