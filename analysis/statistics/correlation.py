"""Spearman's rank correlation of a metric with the human scores: pooled, and within participants.

Pooled over all sets, as in CIRQRS section 5.2, a rho mixes two effects: one person's higher scores
go with higher values, and generous people may have seen better sets. Within participants only the
first remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, isnan, sqrt, tanh

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import NO_SPREAD, ConfidenceInterval, with_interval
from hsfiq.analysis.resampling.ranks import rank_correlation, value_numbers
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.resampling.spread import CORRELATION, LEVEL

MIN_SETS = 3  # the p-value has n - 2 degrees of freedom


@dataclass(frozen=True)
class Correlation(JsonRecord):
    """Spearman's rho, all sets pooled.

    Attributes:
        p: two-sided, from Student's t, as if the sets were independent.
        p_clustered: the same with the variance by which the clustered interval is computed; NaN
            without a bootstrap, for one cluster, or if all resamples give the same rho.
        n: the number of sets with both a score and a value of the metric.
        n_clusters: the number of participants that they come from.
        ci: the clustered interval; None without a bootstrap.
        independent_ci: for contrast, the analytic interval as if the sets were independent.
    """

    rho: float
    p: float
    n: int
    n_clusters: int
    reason: str | None = None
    ci: ConfidenceInterval | None = None
    independent_ci: tuple[float, float] = (UNDEFINED, UNDEFINED)
    p_clustered: float = UNDEFINED

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        if "reason" not in fields and self.ci is not None and isnan(self.p_clustered):
            fields["reason"] = NO_SPREAD
        return fields


def spearman(
    sets: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap | None = None
) -> Correlation:
    """Correlate a metric, indexed by set_id, with the human scores over all sets without NaN.

    The sets have `set_id`, `score`, `participant_id` and, for the bootstrap, `query_id`. rho and p
    are NaN, with a reason, for fewer than 3 sets or if a variable is constant.
    """
    table = with_values(sets, values)
    n, n_clusters = len(table), int(table["participant_id"].nunique())
    x, y = _variables(table)
    reason = why_undefined(x, y)
    ci, p_clustered = None, UNDEFINED
    if bootstrap is not None:
        resampled = resampled_spearman(bootstrap, table, x, y)
        ci = bootstrap.interval(resampled, table, bounds=CORRELATION)
        p_clustered = bootstrap.p(resampled, table)
    if reason is not None:
        return Correlation(UNDEFINED, UNDEFINED, n, n_clusters, reason, ci)
    rho = rank_correlation(value_numbers(x), value_numbers(y))
    p = independent_p(rho, n)
    return Correlation(rho, p, n, n_clusters, None, ci, bonett_wright(rho, n), p_clustered)


def with_values(sets: pd.DataFrame, values: pd.Series[float]) -> pd.DataFrame:
    """The sets that have a value of the metric, with it as column `value`."""
    of_sets = looked_up(sets["set_id"], values)
    is_known = of_sets.notna().to_numpy()
    table = sets.assign(value=of_sets)
    return table if is_known.all() else table[is_known]


def _variables(table: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    return table["value"].to_numpy(dtype=np.float64), table["score"].to_numpy(dtype=np.float64)


def why_undefined(values: FloatArray, scores: FloatArray) -> str | None:
    """Explain why two variables (n,) have no correlation; None if they have one."""
    if len(values) < MIN_SETS:
        return f"n = {len(values)}: the correlation needs {MIN_SETS} sets"
    if np.ptp(values) == 0:
        return "the metric has the same value for every set"
    if np.ptp(scores) == 0:
        return "every set has the same human score"
    return None


def independent_p(rho: float, n: int) -> float:
    """Two-sided, of rho = 0 for n >= 3 independent rows: Student's t with n - 2 degrees of freedom.

    As scipy's `spearmanr` computes it.
    """
    if abs(rho) >= 1:
        return 0.0
    return float(2 * stats.t.sf(abs(rho) * sqrt((n - 2) / (1 - rho**2)), n - 2))


def bonett_wright(rho: float, n: int) -> tuple[float, float]:
    """The interval of Spearman's rho of n >= 3 independent rows (Bonett and Wright 2000).

    atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3)); for n = 3 it is all of [-1, 1].
    """
    if n <= MIN_SETS:
        return (-1.0, 1.0)
    if abs(rho) >= 1:
        return (rho, rho)
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * sqrt((1 + rho**2 / 2) / (n - 3))
    return (tanh(atanh(rho) - half), tanh(atanh(rho) + half))


@dataclass(frozen=True)
class WithinParticipant(JsonRecord):
    """Spearman's rho within participants, computed in two ways.

    Attributes:
        mean: the mean of the participants' own rhos, over those who have one.
        n_participants: the number of participants who have one.
        mean_ci: its interval, always by resampling participants; None without a bootstrap.
        centred: rho of the metric and the human scores less their participant's mean, pooled.
        n: the number of sets that it comes from.
        centred_ci: its interval, with the means held fixed; None without a bootstrap.
    """

    mean: float
    n_participants: int
    mean_ci: ConfidenceInterval | None
    mean_reason: str | None
    centred: float
    n: int
    centred_ci: ConfidenceInterval | None
    centred_reason: str | None

    def to_json(self) -> dict[str, object]:
        mean = {"rho": json_number(self.mean), "n_participants": self.n_participants}
        centred = {"rho": json_number(self.centred), "n": self.n}
        return {
            "mean": with_interval(mean, self.mean_ci, self.mean_reason),
            "centred": with_interval(centred, self.centred_ci, self.centred_reason),
        }


def within_participant(
    sets: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap | None = None
) -> WithinParticipant:
    """Correlate a metric with the human scores within participants; arguments as for `spearman`.

    Returns:
        Both coefficients; NaN, with a reason, if no participant has a rho of their own (3 sets,
        neither variable constant), or if the pooled one is undefined.
    """
    table = with_values(sets, values)
    rhos = participant_rhos(table)
    scores = table["score"] - table.groupby("participant_id")["score"].transform("mean")
    centred = table.assign(score=scores)
    x, y = _variables(centred)
    reason = why_undefined(x, y)
    mean_ci = centred_ci = None
    if bootstrap is not None:
        mean_ci = _mean_interval(rhos, sets, bootstrap)
        centred_ci = bootstrap.interval(
            resampled_spearman(bootstrap, centred, x, y), centred, bounds=CORRELATION
        )
    no_rhos = f"no participant has {MIN_SETS} sets with neither side constant"
    return WithinParticipant(
        mean=float(rhos.mean()) if len(rhos) else UNDEFINED,
        n_participants=len(rhos),
        mean_ci=mean_ci,
        mean_reason=None if len(rhos) else no_rhos,
        centred=UNDEFINED if reason else rank_correlation(value_numbers(x), value_numbers(y)),
        n=len(table),
        centred_ci=centred_ci,
        centred_reason=reason,
    )


def participant_rhos(table: pd.DataFrame) -> pd.Series[float]:
    """Each participant's own Spearman's rho of `value` and `score`, indexed by participant_id.

    Only of those with 3 sets and neither variable constant.
    """
    people = table["participant_id"]
    ranks = table.groupby("participant_id")[["value", "score"]].rank()
    ranks -= ranks.groupby(people).transform("mean")
    x, y = ranks["value"], ranks["score"]
    products = pd.DataFrame({"xy": x * y, "xx": x**2, "yy": y**2}).groupby(people)
    sums = products.sum()[products.size() >= MIN_SETS]
    sums = sums[(sums["xx"] > 0) & (sums["yy"] > 0)]
    return sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])


def _mean_interval(
    rhos: pd.Series[float], sets: pd.DataFrame, bootstrap: Bootstrap
) -> ConfidenceInterval:
    if bootstrap.unit != "participant":
        bootstrap = Bootstrap.of_rows(
            sets,
            unit="participant",
            n_resamples=bootstrap.n_resamples,
            seed=bootstrap.seed,
            is_widened=bootstrap.is_widened,
        )
    rows = pd.DataFrame({"participant_id": rhos.index})
    values = np.asarray(rhos, dtype=np.float64)[:, None]
    means = bootstrap.ratios(rows, values, np.ones(values.shape))[:, 0]
    return bootstrap.interval(means, rows, bounds=CORRELATION)
