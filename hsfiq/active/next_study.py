"""The study to come: designed like an old one or as a file says, over pairs chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from hsfiq.active.candidates import (
    Candidate,
    Candidates,
    HeldOut,
    PossibleSet,
    candidates,
    pairs_asked,
)
from hsfiq.collect.progress import StudyProgress, progress_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Dataset, Pair, RetrievedSet, Study, System
from hsfiq.errors import ConfigError, ConfigErrors, UnreadableInput
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.config_file import located, read_config
from hsfiq.study.design import draw_study, require_new_name
from hsfiq.study.queries import chosen_queries


@dataclass(frozen=True, slots=True)
class Wanted:
    """The study that is to be made.

    Attributes:
        config: its whole file.
        origin: whose answers it will hold.
        path: of the file, if there is one.
    """

    config: StudyConfig
    origin: str
    path: Path | None = None

    def refusal(self, mistake: ConfigError) -> ConfigError | ConfigErrors:
        """A mistake that the database shows, with its line where there is a file."""
        return mistake if self.path is None else located(self.path, mistake)


@dataclass(frozen=True, slots=True)
class Possible:
    """What such a study could ask, and where its images lie as far as the database knows."""

    found: Candidates
    images: Path | None


def from_file(path: Path, name: str | None, origin: str) -> Wanted:
    """The study that a file describes, perhaps under another name.

    Raises:
        ConfigErrors: the file has errors, or asks for a sample, which `--n` decides here.
        UnreadableInput: the file cannot be read.
    """
    config = read_config(path)
    if config.queries.sample:
        raise located(path, ConfigError("queries.sample", "does not go with --n", "leave it out"))
    study = config.study if name is None else replace(config.study, name=name)
    return Wanted(replace(config, study=study), origin, path)


def after(session: Session, old: Study, name: str | None) -> Wanted:
    """A study like an old one: `autumn-2` after `autumn`, if no name is given.

    Whose answers the old one holds, the new one's will be. It compares the systems that the old one
    has compared, whatever runs have been imported since.

    Raises:
        UnreadableInput: the old one was imported: nobody knows its design.
    """
    if old.origin == "imported":
        raise UnreadableInput(
            f"study {old.name}", "was imported and has no design", "name a CONFIG.toml"
        )
    config = config_of(old)
    queries = replace(config.queries, sample=0, systems=systems_of(session, old))
    study = replace(config.study, name=name or free_name(session, old.name))
    return Wanted(replace(config, study=study, queries=queries), old.origin)


def systems_of(session: Session, study: Study) -> tuple[str, ...]:
    """The names of the systems whose sets a study shows."""
    found: set[str] = set()
    for side in (Pair.first_id, Pair.second_id):
        rows = (
            select(System.name)
            .join(RetrievedSet, RetrievedSet.system_id == System.id)
            .join(Pair, side == RetrievedSet.id)
            .where(Pair.study_id == study.id)
        )
        found.update(session.scalars(rows.distinct()))
    return tuple(sorted(found))


def free_name(session: Session, old: str) -> str:
    """`autumn-2` after `autumn`, and `autumn-3` where that is there."""
    taken = {study.name for study in list_studies(session)}
    number = 2
    while f"{old}-{number}" in taken:
        number += 1
    return f"{old}-{number}"


def possibilities(session: Session, wanted: Wanted, held_out: HeldOut) -> Possible:
    """Find what a study could ask.

    Args:
        session: of a transaction.
        wanted: the study.
        held_out: triplets to leave alone.

    Raises:
        ConfigError: the database lacks what the study needs, or has a study of this name;
            ConfigErrors if the study has a file.
        UnreadableInput: what is held out is of other datasets.
    """
    config = wanted.config
    if held_out.datasets and config.queries.dataset not in held_out.datasets:
        raise UnreadableInput(
            "--release",
            f"asks about {', '.join(sorted(held_out.datasets))}, not {config.queries.dataset}",
            "leave it out",
        )
    try:
        require_new_name(session, config)
        found = candidates(
            session,
            chosen_queries(session, config),
            k=config.design.k,
            systems=config.queries.systems,
            held_out=held_out,
        )
    except ConfigError as mistake:
        raise wanted.refusal(mistake) from mistake
    root = session.scalars(
        select(Dataset.image_root).where(Dataset.name == config.queries.dataset)
    ).one_or_none()
    return Possible(found, Path(root) if root else None)


def store_study(
    database: Database,
    wanted: Wanted,
    chosen: Sequence[Candidate],
    sets: Sequence[PossibleSet],
    chosen_by: Mapping[str, object],
    *,
    status: str,
) -> StudyProgress:
    """Store a study of these pairs.

    Args:
        database: takes it.
        wanted: the study.
        chosen: its pairs.
        sets: those that these name.
        chosen_by: how they were chosen, for whoever reads its releases.
        status: whether it takes answers at once.

    Raises:
        ConfigError: its name is taken, say; ConfigErrors where it has a file.
        UnreadableInput: a pair has been asked since it was chosen.
    """
    pairs = [(it.query_id, *it.systems) for it in chosen]
    try:
        with database.writing() as session:
            lock_pairs(session)
            if not pairs_asked(session).isdisjoint(it.shown(sets) for it in chosen):
                raise UnreadableInput(
                    f"study {wanted.config.study.name}",
                    "another study has come to ask the same meanwhile",
                    "choose again",
                )
            study = draw_study(
                session,
                wanted.config,
                [query for query, _, _ in pairs],
                pairs=pairs,
                chosen_by=chosen_by,
                origin=wanted.origin,
                status=status,
            )
            return progress_of(session, study)
    except ConfigError as mistake:
        raise wanted.refusal(mistake) from mistake


def lock_pairs(session: Session) -> None:
    """Let nobody else store pairs until the transaction ends; in SQLite nobody can in any case."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"LOCK TABLE {Pair.__tablename__} IN SHARE ROW EXCLUSIVE MODE"))
