"""The figures of an arena's leaderboard, from the votes in the database, and publishing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.leaderboard.figures import Figures
from hsfiq.collect.searches import (
    Vote,
    is_next_batch_complete,
    publish_leaderboard,
    published_leaderboard,
    read_votes,
)
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import StudyRetriever
from hsfiq.db.source_tables import System
from hsfiq.db.tables import Study

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.arena import Arena

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Standings:
    """The figures of all votes at a moment; None without the extra `analysis`."""

    arena: Arena | None
    at: datetime

    @property
    def figures(self) -> Figures | None:
        return None if self.arena is None else Figures.of(self.arena)


def standings_of(database: Database, study_id: int) -> Standings:
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        names, votes = system_names(session, study), read_votes(session, study)
    return Standings(arena_of(votes, names), datetime.now(UTC))


def publish_next_batch(database: Database, study_id: int) -> None:
    """Publish the figures anew if enough people have voted since they were published."""
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        before = published_leaderboard(session, study_id)
        if not is_next_batch_complete(session, study, before):
            return
        names = system_names(session, study)
        votes = [vote for vote in read_votes(session, study) if vote.response_key is not None]
    arena = arena_of(votes, names)
    if arena is None:
        return
    figures, now = asdict(Figures.of(arena)), datetime.now(UTC)
    last = max(vote.response_key or 0 for vote in votes)
    with database.writing() as session:
        publish_leaderboard(session, study_id, before, last_response=last, figures=figures, at=now)


def system_names(session: Session, study: Study) -> list[str]:
    names = (
        select(System.name)
        .join(StudyRetriever, StudyRetriever.system_id == System.id)
        .where(StudyRetriever.study_id == study.id)
    )
    return sorted(session.scalars(names))


def arena_of(votes: Sequence[Vote], names: Sequence[str]) -> Arena | None:
    try:
        import pandas as pd  # noqa: PLC0415 (the extra may be absent)

        from hsfiq.analysis.kinds.arena import (  # noqa: PLC0415
            COLUMNS,
            arena,
        )
    except ModuleNotFoundError:
        return None
    rows = pd.DataFrame([asdict(vote) for vote in votes], columns=list(COLUMNS))
    return arena(rows, names, n_resamples=RESAMPLES)
