"""How many participants judged the same triplet, which decides how answers depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.json_values import JsonRecord


def triplets_of(queries: pd.Series[str], triplets: pd.Series[str]) -> pd.Series[str]:
    """The triplet of each row's query; a query that `triplets` lacks is a triplet of its own."""
    known = looked_up(queries, triplets)
    return known if known.notna().all() else known.astype(object).fillna(queries.astype(object))


@dataclass(frozen=True)
class SharedTriplets(JsonRecord):
    """How many triplets of a study were judged by several participants.

    Attributes:
        n_shared: how many triplets two or more participants judged.
        most_participants: the largest number of participants who judged one triplet.
    """

    n_triplets: int
    n_shared: int
    most_participants: int

    @classmethod
    def of(cls, rows: pd.DataFrame, triplets: pd.Series[str] | None = None) -> SharedTriplets:
        """Count the participants of each triplet in a table with `participant_id` and `query_id`.

        `triplets` maps query_id to triplet; a query that it lacks is a triplet of its own.
        """
        of_row = rows["query_id"] if triplets is None else triplets_of(rows["query_id"], triplets)
        people = rows["participant_id"].groupby(of_row.to_numpy()).nunique()
        most = int(people.max()) if len(people) else 0
        return cls(len(people), int((people > 1).sum()), most)

    @property
    def clause(self) -> str:
        """The numbers in words."""
        were = "was" if self.n_shared == 1 else "were"
        return (
            f"{self.n_shared:,} of {self.n_triplets:,} triplets {were} judged by two or more "
            f"participants (at most {self.most_participants:,})"
        )
