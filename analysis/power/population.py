"""The population that simulated studies are drawn from: the variance components of impressions.

An impression is a normal variable of variance 1, the sum of independent parts: the participant's
leniency, what all sets of a query have in common, what all who judge a set have in common, what
the metric measures, and the rest. A score is the impression cut at the shares of the scores; the
preferred set is the one with the larger impression. Participants also differ in how closely they
follow the metric, which makes fifty answers by one of them worth less than fifty by fifty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.statistics.correlation import spearman, with_values
from hsfiq.analysis.statistics.preference import preference_rates

FEW_VALUES = 20
"""A metric with at most this many values is simulated with their shares, and so with ties."""
ASSUMED_BETWEEN = 0.5
"""The correlation of two metrics if only one is known."""
ASSUMED_SHARED = 0.2
"""What people agree on beyond a metric, if too few of them judged the same sets to measure it."""
NO_RELEASE = "leave out --from"
MIN_SHARED = 30  # sets judged by several people


@dataclass(frozen=True)
class Population(JsonRecord):
    """What a simulated study is drawn from.

    Attributes:
        rho: Spearman's rho of each metric with the scores, all sets pooled.
        tie_half: the share of pairs whose higher set is preferred, metric ties counted half.
        participant: the share of an impression's variance that is leniency.
        query: the share that the sets of one query have in common, measured by a metric or not.
        shared: the share, beyond that and the metric, on which all who judge a set agree; it
            matters only if several people judge the same questions.
        slope_spread: the standard deviation, over participants, of the slope of their impressions
            on a metric of variance 1.
        metric_query: the correlation of a metric's values of the two sets of one query.
        between_metrics: the correlation of the two compared metrics.
        scores: the shares of the scores, lowest first; they sum to 1.
        values: the shares of the metric's values, lowest first; empty for a metric without ties.
        source: where these come from, in words.

    Raises:
        AnalysisError: a share is outside [0, 1], or the shares add up to 1 or more.
    """

    rho: float
    tie_half: float
    participant: float
    query: float
    shared: float
    slope_spread: float
    metric_query: float
    between_metrics: float
    scores: tuple[float, ...]
    values: tuple[float, ...]
    source: str

    def __post_init__(self) -> None:
        parts = (self.participant, self.query, self.shared, self.metric_query)
        if not all(0 <= part <= 1 for part in parts) or sum(parts[:3]) >= 1:
            raise AnalysisError("population", f"impossible shares of variance: {parts}")
        if not (
            abs(self.rho) < 1
            and 0 < self.tie_half < 1
            and 0 <= self.between_metrics < 1
            and self.slope_spread >= 0
        ):
            raise AnalysisError("population", "impossible correlations")


PUBLISHED = Population(
    rho=0.42,
    tie_half=0.75,
    participant=0.1061,
    query=0.0741,
    shared=ASSUMED_SHARED,
    slope_spread=0.0567,
    metric_query=0.3599,
    between_metrics=ASSUMED_BETWEEN,
    scores=(0.0535, 0.16225, 0.254, 0.32175, 0.2085),
    values=(),
    source=(
        "rho and tie_half: CIRQRS Tables 2 and 3; participant, query, slope_spread, metric_query "
        "and scores: users 1 to 40 of the published HP-FashionIQ with recall@5; shared and "
        "between_metrics: assumed"
    ),
)
"""The default."""


def estimate_population(
    release: Release, values: pd.Series[float], other: pd.Series[float] | None = None
) -> Population:
    """Estimate a population from a release, by the method of moments on the scores as numbers.

    Participants: one-way analysis of variance. Queries: the covariance of a question's two scores
    within participants. Shared: the covariance of different people's scores of the same set, if
    there are enough. Slopes: the variance of the participants' own least-squares slopes less their
    sampling variance. Negative estimates are 0.

    Args:
        values: a metric, indexed by set_id; sets with NaN are excluded.
        other: a second one, for `between_metrics`.

    Raises:
        AnalysisError: the release is too small, or its scores or the metric are all the same.
    """
    correlation = spearman(release.sets, values)
    if correlation.reason is not None or correlation.n_clusters < 2:
        reason = correlation.reason or "all scores are from one participant"
        raise AnalysisError(
            release.folder, f"does not determine the variances ({reason})", NO_RELEASE
        )
    rate = preference_rates(release.preferences, values).tie_half
    if rate.reason is not None:
        raise AnalysisError(
            release.folder, f"does not determine the accuracy ({rate.reason})", NO_RELEASE
        )
    table = with_values(release.sets, values).sort_values("question_id", kind="stable")
    table["unit"] = looked_up(table["set_id"], release.units)
    for name in ("score", "value"):
        column = table[name].astype("float64")
        table[name] = (column - column.mean()) / column.std(ddof=0)
    participant = between_share(table)
    own = table.groupby("participant_id")["score"]
    table["deviation"] = table["score"] - own.transform("mean")
    # A deviation from a mean of n scores is too small by the error of the mean.
    n_own = own.transform("size")
    error = float((table["deviation"] ** 2 / (n_own - 1).clip(lower=1)).mean())
    metric_query = max(0.0, _mean_product(table, "question_id", "value"))
    explained = float((table["score"] * table["value"]).mean()) ** 2
    query = max(0.0, _mean_product(table, "question_id", "deviation") + error)
    n_judges = table.groupby("unit")["participant_id"].transform("nunique")
    by_others = table[n_judges > 1].drop_duplicates(["unit", "participant_id"])
    between = float("nan") if other is None else values.corr(other, method="spearman")
    between = ASSUMED_BETWEEN if np.isnan(between) else float(np.clip(between, 0.0, 0.99))
    shared = ASSUMED_SHARED
    if by_others["unit"].nunique() >= MIN_SHARED:
        shared = max(0.0, _mean_product(by_others, "unit", "deviation") - query - explained)
    return Population(
        rho=correlation.rho,
        tie_half=rate.rate,
        participant=participant,
        query=query,
        shared=shared,
        slope_spread=slope_spread(table),
        metric_query=min(1.0, metric_query),
        between_metrics=ASSUMED_BETWEEN
        if np.isnan(between)
        else float(np.clip(between, 0.0, 0.99)),
        scores=_shares(release.sets["score"].to_numpy(), len(release.sets)),
        values=_shares(table["value"].to_numpy(), FEW_VALUES),
        source=f"release {release.name} {release.version}",
    )


def between_share(table: pd.DataFrame) -> float:
    """The share of the variance of `score` between participants: one-way analysis of variance."""
    groups = table.groupby("participant_id")["score"]
    sizes = groups.size().to_numpy(np.float64)
    n, n_groups = sizes.sum(), len(sizes)
    within = float(((table["score"] - groups.transform("mean")) ** 2).sum()) / max(1, n - n_groups)
    between = float((sizes * groups.mean() ** 2).sum()) / (n_groups - 1)
    typical = (n - (sizes**2).sum() / n) / (n_groups - 1)
    return float(np.clip((between - within) / typical, 0.0, 1.0))


def slope_spread(table: pd.DataFrame) -> float:
    """The sd over participants of the slope of `score` on `value`, both of variance 1."""
    people = table["participant_id"]
    centred = table[["value", "score"]] - table.groupby(people)[["value", "score"]].transform(
        "mean"
    )
    x, y = centred["value"], centred["score"]
    sums = pd.DataFrame({"xx": x**2, "xy": x * y, "yy": y**2}).groupby(people).sum()
    sums["n"] = people.value_counts()
    sums = sums[(sums["xx"] > 0) & (sums["n"] > 3)]
    if len(sums) < 2:
        return 0.0
    slopes = sums["xy"] / sums["xx"]
    residual = (sums["yy"] - sums["xy"] * slopes) / (sums["n"] - 2)
    sampling = float((residual / sums["xx"]).mean())
    return float(np.sqrt(max(0.0, float(slopes.var()) - sampling)))


def _mean_product(table: pd.DataFrame, group: str, column: str) -> float:
    """The mean product of two different rows of one group, over all such pairs."""
    groups = table.groupby(group)[column]
    sums, squares = groups.sum(), table[column].pow(2).groupby(table[group]).sum()
    sizes = groups.size()
    pairs = float((sizes * (sizes - 1)).sum())
    return float((sums**2 - squares).sum()) / pairs if pairs else 0.0


def _shares(values: FloatArray, max_values: int) -> tuple[float, ...]:
    counts = np.unique(values, return_counts=True)[1]
    return tuple((counts / counts.sum()).tolist()) if len(counts) <= max_values else ()
