"""What a resample draws: the participants, or the triplets, that rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.errors import AnalysisError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Clusters:
    """What one column of a table is drawn by.

    Attributes:
        column: its name.
        ids: (n,) the different ids in it.
        codes: (n,) the number of each one's cluster.
        size: how many clusters there are.
    """

    column: str
    ids: pd.Index[str]
    codes: NDArray[np.intp]
    size: int

    def of(self, rows: pd.DataFrame) -> NDArray[np.intp]:
        """The cluster of each row.

        Raises:
            AnalysisError: an id is not among those that are drawn from.
        """
        places = self.ids.get_indexer(pd.Index(rows[self.column]))
        if (places < 0).any():
            unknown = rows[self.column].iloc[int((places < 0).argmax())]
            raise AnalysisError(
                self.column, f"{unknown} is not drawn from", "make the draws of this very release"
            )
        return self.codes[places]


def clustered(rows: pd.DataFrame, column: str, names: pd.Series[str] | None = None) -> Clusters:
    """Find the clusters of a column; the order of the rows changes nothing.

    Args:
        rows: (n, ...).
        column: the column of ids.
        names: id -> what it belongs to; an id that it lacks is a cluster of its own, and so are all
            where it is None.
    """
    ids = pd.Index(rows[column].unique())
    belong = list(ids) if names is None else [names.get(name, name) for name in ids]
    codes, found = pd.factorize(np.array(belong, dtype=object), sort=True)
    return Clusters(column, ids, codes, len(found))
