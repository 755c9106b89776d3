"""How many participants judged the same triplet, which decides how answers depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.json_values import JsonRecord


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
        queries = rows["query_id"]
        of_row = queries if triplets is None else queries.map(triplets).fillna(queries)
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
