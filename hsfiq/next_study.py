"""The study to come: designed like an old one or as a file says, over pairs chosen for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.candidates import Candidate, Candidates, candidates, pairs_asked
from hsfiq.database import Database
from hsfiq.design import draw_study
from hsfiq.errors import Mistake, Mistakes, UnreadableInput
from hsfiq.query_choice import chosen_queries
from hsfiq.readers.config import located, read_config
from hsfiq.store import Progress, progress_of, studies
from hsfiq.study_config import StudyConfig, config_of
from hsfiq.tables import Dataset, Study


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

    def refusal(self, mistake: Mistake) -> Mistake | Mistakes:
        """A mistake that the database shows, with its line where there is a file."""
        return mistake if self.path is None else located(self.path, mistake)


@dataclass(frozen=True, slots=True)
class Possible:
    """What such a study could ask, and where its images lie as far as the database knows."""

    found: Candidates
    images: Path | None


def from_file(path: Path, name: str | None) -> Wanted:
    """The study that a file describes, perhaps under another name.

    Raises:
        Mistakes: all that is wrong with the file.
        UnreadableInput: the file cannot be read.
    """
    return Wanted(renamed(read_config(path), name), "collected", path)


def after(session: Session, old: Study, name: str | None) -> Wanted:
    """A study like an old one: `autumn-2` after `autumn`, if no name is given.

    Whose answers the old one holds, the new one's will be.

    Raises:
        UnreadableInput: the old one was imported: nobody knows its design.
    """
    if old.origin == "imported":
        raise UnreadableInput(
            f"study {old.name}", "was imported and has no design", "name a CONFIG.toml"
        )
    return Wanted(renamed(config_of(old), name or free_name(session, old.name)), old.origin)


def renamed(config: StudyConfig, name: str | None) -> StudyConfig:
    """The config under a name, asking about all of its queries: which ones is to be chosen."""
    study = config.study if name is None else replace(config.study, name=name)
    return replace(config, study=study, queries=replace(config.queries, sample=0))


def free_name(session: Session, old: str) -> str:
    """`autumn-2` after `autumn`, and `autumn-3` where that is there."""
    taken = {study.name for study in studies(session)}
    number = 2
    while f"{old}-{number}" in taken:
        number += 1
    return f"{old}-{number}"


def possibilities(session: Session, wanted: Wanted, held_out: Collection[str]) -> Possible:
    """Find what a study could ask.

    Args:
        session: of a transaction.
        wanted: the study.
        held_out: outside ids of triplets to leave alone.

    Raises:
        Mistake: the database lacks what the study wants; Mistakes where it has a file.
    """
    config = wanted.config
    try:
        found = candidates(
            session,
            chosen_queries(session, config),
            k=config.design.k,
            systems=config.queries.systems,
            held_out=held_out,
        )
    except Mistake as mistake:
        raise wanted.refusal(mistake) from mistake
    root = session.scalars(
        select(Dataset.image_root).where(Dataset.name == config.queries.dataset)
    ).one_or_none()
    return Possible(found, Path(root) if root else None)


def store_study(
    database: Database,
    wanted: Wanted,
    chosen: Sequence[Candidate],
    chosen_by: Mapping[str, object],
    *,
    status: str,
) -> Progress:
    """Store a study of these pairs.

    Args:
        database: takes it.
        wanted: the study.
        chosen: its pairs.
        chosen_by: how they were chosen, for whoever reads its releases.
        status: whether it takes answers at once.

    Raises:
        Mistake: its name is taken, say; Mistakes where it has a file.
        UnreadableInput: a pair has been asked since it was chosen.
    """
    pairs = [(it.query_id, *it.systems) for it in chosen]
    try:
        with database.writing() as session:
            if not pairs_asked(session).isdisjoint(pairs):
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
    except Mistake as mistake:
        raise wanted.refusal(mistake) from mistake
