"""The votes of an arena, as its statistics use them.

Columns used: question_id (the session), turn, participant_id, query_id, triplet_id, system_1 and
system_2 (the systems of list 1 and list 2), preference (1, 2, or 0 for neither), both_bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.systems.systems import compared_systems

Turns = Literal["all", "first"]
TURNS: tuple[Turns, ...] = get_args(Turns)

COLUMNS = (
    *("question_id", "turn", "participant_id", "query_id", "triplet_id"),
    *("system_1", "system_2", "preference", "both_bad"),
)


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes between two different systems.

    Attributes:
        rows: with `first` and `second`, the numbers of the systems, and `preferred`, in the order
            of sessions and turns.
        names: the systems by number.
    """

    rows: pd.DataFrame
    names: tuple[str, ...]

    @classmethod
    def of(cls, votes: pd.DataFrame, names: Sequence[str] | None = None) -> Votes:
        """The votes of a table with `COLUMNS`; the systems are those of the table unless named.

        AnalysisError: a column is missing, or a preference is not 0, 1 or 2.
        """
        missing = [name for name in COLUMNS if name not in votes]
        if missing:
            raise AnalysisError("votes", f"column {missing[0]} is missing", "export it again")
        if not votes["preference"].isin([0, 1, 2]).all():
            raise AnalysisError("votes", "a preference is not 0, 1 or 2", "export it again")
        if names is None:
            names = sorted({*votes["system_1"].astype(str), *votes["system_2"].astype(str)})
        rows = votes.assign(
            preferred=votes["preference"].astype(int), both_bad=votes["both_bad"].astype(bool)
        )
        rows = compared_systems(rows, list(names)).sort_values(["question_id", "turn"])
        return cls(rows.reset_index(drop=True), tuple(names))

    def taken(self, turns: Turns) -> Votes:
        """All votes, or the first of each session."""
        if turns == "all":
            return self
        return Votes(self.rows.drop_duplicates("question_id").reset_index(drop=True), self.names)

    @property
    def triplets(self) -> pd.Series[str]:
        """The triplet of each query, by query_id."""
        queries = self.rows.drop_duplicates("query_id").set_index("query_id")
        return queries["triplet_id"]
