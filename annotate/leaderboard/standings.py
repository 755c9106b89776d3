"""The figures of an arena's leaderboard, from the votes in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hsfiq.collect.searching.votes import Vote, read_votes
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

if TYPE_CHECKING:
    from hsfiq.analysis.arena.arena import Arena

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Standings:
    """The figures at a moment; None without the extra `analysis`."""

    arena: Arena | None
    at: datetime


def standings_of(database: Database, study_id: int) -> Standings:
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        names, votes = system_names(study), read_votes(session, study)
    return Standings(arena_of(votes, names), datetime.now(UTC))


def system_names(study: Study) -> list[str]:
    return sorted(retriever.name for retriever in config_of(study).searches.retrievers)


def arena_of(votes: Sequence[Vote], names: Sequence[str]) -> Arena | None:
    try:
        import pandas as pd  # noqa: PLC0415 (the extra may be absent)

        from hsfiq.analysis.arena.arena import arena  # noqa: PLC0415
        from hsfiq.analysis.arena.votes import COLUMNS  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    rows = pd.DataFrame([asdict(vote) for vote in votes], columns=list(COLUMNS))
    return arena(rows, names, n_resamples=RESAMPLES)
