"""Agreement: how far people who judged the same thing said the same (Krippendorff's alpha)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import evalica
import numpy as np
from scipy import stats

from hsfiq.analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Level = Literal["nominal", "ordinal"]

CONFIDENCE = 0.95
AT_ONCE = 250  # resamples held in memory together


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha: 1 is full agreement, 0 what chance gives, below 0 is less than that.

    Attributes:
        alpha: the coefficient over all units that two people or more have judged.
        ci: its 95 % interval, by bootstrap over clusters (percentiles).
        n_units: how many units two people or more have judged.
        n_ratings: how many judgements these units have.
        n_clusters: how many clusters the units come from.
        reason: why alpha or its interval is NaN, where it is.
    """

    alpha: float
    ci: tuple[float, float]
    n_units: int
    n_ratings: int
    n_clusters: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"alpha", "ci", "n_units", "n_ratings", "n_clusters"} and the reason, if any."""
        result: dict[str, object] = {
            "alpha": figure(self.alpha),
            "ci": [figure(end) for end in self.ci],
            "n_units": self.n_units,
            "n_ratings": self.n_ratings,
            "n_clusters": self.n_clusters,
        }
        return with_reason(result, self.reason)


def agreement(
    ratings: pd.DataFrame, level: Level, *, resamples: int = 1000, seed: int = 0
) -> Agreement:
    """Measure how far raters agree.

    Args:
        ratings: (n, ...) with `rater`, `unit` (what is judged), `cluster` (what is resampled:
            the unit's query) and `value` (numbers). Where one rater judged a unit twice, the
            first judgement is taken.
        level: `ordinal` for scores, `nominal` for preferences.
        resamples: how many times the clusters are drawn.
        seed: of these draws.

    Returns:
        Alpha with its interval; NaN, with a reason, where no unit has two judgements, where all
        judgements are equal (chance alone would agree), or, for the interval, with one cluster.
    """
    single = ratings.dropna(subset=["value"]).drop_duplicates(["rater", "unit"])
    n_raters = single.groupby("unit")["rater"].transform("size")
    table = single[n_raters > 1]
    n_units, n_clusters = int(table["unit"].nunique()), int(table["cluster"].nunique())
    undefined = (UNDEFINED, UNDEFINED)
    if table.empty:
        reason = "nothing has been judged by two people"
        return Agreement(UNDEFINED, undefined, 0, 0, 0, reason)
    if table["value"].nunique() == 1:
        reason = "all judgements are the same, so chance would agree as well"
        return Agreement(UNDEFINED, undefined, n_units, len(table), n_clusters, reason)
    matrix = table.pivot_table(index="rater", columns="unit", values="value")
    alpha = float(evalica.alpha(matrix, distance=level).alpha)
    if n_clusters == 1:
        reason = "one query alone gives no interval"
        return Agreement(alpha, undefined, n_units, len(table), n_clusters, reason)
    drawn = resampled(coincidences(table), level, resamples, seed)
    low, high = np.nanquantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Agreement(alpha, (float(low), float(high)), n_units, len(table), n_clusters)


def coincidences(table: pd.DataFrame) -> NDArray[np.float64]:
    """Count how often two values meet in a unit, (clusters, values, values).

    A unit with m judgements gives each ordered pair of them the weight 1 / (m - 1), as in
    Krippendorff's definition; values stand in rising order.
    """
    counts = table.groupby(["cluster", "unit", "value"]).size().unstack("value", fill_value=0)
    by_unit = counts.to_numpy(dtype=np.float64)
    met = by_unit[:, :, None] * by_unit[:, None, :]
    diagonal = np.arange(by_unit.shape[1])
    met[:, diagonal, diagonal] -= by_unit
    met /= (by_unit.sum(axis=1) - 1)[:, None, None]
    codes, first = counts.index.get_level_values("cluster").factorize()
    total = np.zeros((len(first), *met.shape[1:]))
    np.add.at(total, codes, met)
    return total


def resampled(
    met: NDArray[np.float64], level: Level, resamples: int, seed: int
) -> NDArray[np.float64]:
    """Alpha of each bootstrap resample of the clusters, NaN where a resample has one value only.

    A cluster drawn twice counts twice, so a resample's coincidences are a weighted sum.
    """
    rng = np.random.default_rng(seed)
    n_clusters, n_values = met.shape[:2]
    flat = met.reshape(n_clusters, -1)
    even = np.full(n_clusters, 1 / n_clusters)
    parts = []
    for start in range(0, resamples, AT_ONCE):
        weights = rng.multinomial(n_clusters, even, size=min(AT_ONCE, resamples - start))
        parts.append(alphas((weights @ flat).reshape(-1, n_values, n_values), level))
    return np.concatenate(parts)


def alphas(met: NDArray[np.float64], level: Level) -> NDArray[np.float64]:
    """Alpha of each table of coincidences, (n, values, values) -> (n,)."""
    margins = met.sum(axis=2)
    distance = squared_distances(margins, level)
    observed = (met * distance).sum(axis=(1, 2))
    expected = (margins[:, :, None] * margins[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: NDArray[np.float64] = 1 - (margins.sum(axis=1) - 1) * observed / expected
    found[expected == 0] = np.nan
    return found


def squared_distances(margins: NDArray[np.float64], level: Level) -> NDArray[np.float64]:
    """The squared distance of any two values, (n, values, values).

    Nominal: 1 between different values. Ordinal: how many judgements lie between the two,
    those of the two values themselves counted half.
    """
    if level == "nominal":
        one = 1 - np.eye(margins.shape[1])
        return np.broadcast_to(one, (len(margins), *one.shape))
    middles = np.cumsum(margins, axis=1) - margins / 2
    squared: NDArray[np.float64] = (middles[:, :, None] - middles[:, None, :]) ** 2
    return squared


@dataclass(frozen=True)
class Share:
    """A share with its exact 95 % interval (Clopper and Pearson).

    Attributes:
        rate: hits / n.
        ci: the interval's ends.
        n: how many there are.
        reason: why rate and ci are NaN, where they are.
    """

    rate: float
    ci: tuple[float, float]
    n: int
    reason: str | None = None


def exact_share(hits: int, n: int) -> Share:
    """Measure the share of hits.

    Args:
        hits: how many of the n are hits.
        n: how many there are.

    Returns:
        The share; NaN, with a reason, of nothing.
    """
    if n == 0:
        return Share(UNDEFINED, (UNDEFINED, UNDEFINED), 0, "there is nothing to count")
    ends = stats.binomtest(hits, n).proportion_ci(CONFIDENCE, method="exact")
    return Share(hits / n, (float(ends.low), float(ends.high)), n)
