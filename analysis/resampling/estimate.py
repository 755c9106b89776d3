"""A figure with its interval, where a plain number of rows is all that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.interval import Interval, with_interval
from hsfiq.analysis.resampling.shares import resampled_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws


@dataclass(frozen=True)
class Estimate:
    """A figure of a release.

    Attributes:
        value: the figure; NaN where it is undefined.
        n: how many rows it comes from.
        ci: its clustered interval; None where there is nothing to resample.
        reason: why value is NaN, where it is.
    """

    value: float
    n: int
    ci: Interval | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"value", "n", "ci", "ci_method"} and the reason, where there is one."""
        figures: dict[str, object] = {"value": figure(self.value), "n": self.n}
        return with_interval(figures, self.ci, self.reason)


def group_means(
    rows: pd.DataFrame,
    values: NDArray[np.float64],
    groups: NDArray[np.object_],
    names: Sequence[str],
    draws: Draws,
) -> dict[str, Estimate]:
    """Average values by group, each cluster counted as often as it is drawn.

    Args:
        rows: (n, ...) with `participant_id` and `query_id`.
        values: (n,), finite.
        groups: (n,) the name of each row's group.
        names: the groups that are asked for.
        draws: the resamples.

    Returns:
        By name, the mean; NaN, with a reason, of an empty group.
    """
    inside = (groups[:, None] == np.array(names, dtype=object)).astype(np.float64)
    resampled = resampled_shares(draws, rows, inside * values[:, None], inside)
    found = {}
    for number, name in enumerate(names):
        own = inside[:, number] > 0
        if own.any():
            ci = draws.interval(resampled[:, number], rows[own])
            found[name] = Estimate(float(values[own].mean()), int(own.sum()), ci)
        else:
            found[name] = Estimate(UNDEFINED, 0, None, "there is nothing to average")
    return found
