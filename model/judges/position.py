"""Whether a judge prefers the set that is shown first, from pairs asked in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BothOrders:
    """A pair's two answers: the preference for what was shown first, each time; 0.5 is a tie."""

    cluster: str
    as_given: float
    swapped: float

    @property
    def preference(self) -> float:
        """For the pair's first set, averaged over the orders."""
        return (self.as_given + 1 - self.swapped) / 2


def position_bias(pairs: Sequence[BothOrders], seed: int = 0) -> dict[str, Any]:
    """The share of askings in which the set shown first is preferred, and how often orders agree.

    Without bias `first` is 0.5. Intervals resample clusters, the triplets of the pairs; both
    figures are null with a reason if there is no pair.
    """
    import numpy as np  # noqa: PLC0415 (with analysis, an extra)
    import pandas as pd  # noqa: PLC0415 (an extra)

    from hsfiq.analysis.resampling.bootstrap import Bootstrap  # noqa: PLC0415 (an extra)
    from hsfiq.analysis.resampling.estimate import group_means  # noqa: PLC0415 (an extra)
    from hsfiq.analysis.resampling.spread import RATE  # noqa: PLC0415 (an extra)

    clusters = [pair.cluster for pair in pairs]
    rows = pd.DataFrame({"participant_id": clusters, "query_id": clusters})
    bootstrap = Bootstrap.of_rows(rows, unit="triplet", seed=seed)
    figures = {
        "first": [(pair.as_given + pair.swapped) / 2 for pair in pairs],
        "same_in_both_orders": [float(pair.as_given == 1 - pair.swapped) for pair in pairs],
    }
    everything = np.zeros(len(rows), dtype=np.intp)
    return {
        name: group_means(
            rows, np.array(values, dtype=np.float64), everything, [0], bootstrap, RATE
        )[0].to_json()
        for name, values in figures.items()
    }
