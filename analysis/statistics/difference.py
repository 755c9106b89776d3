"""The difference of a statistic between two metrics: its interval, its test, Holm's adjustment.

The interval is paired: both metrics are measured on the same resamples. If participants are
resampled, the test exchanges the two metrics for whole participants, because one person's answers
depend on each other: under the null hypothesis that they agree equally well, it does not matter by
which of them a participant was measured. To first order this flips the sign of each participant's
contribution to the difference, so the test is valid even if a metric fits some participants better
than others. For few participants it has little power: with n of them no p is below 2 / 2^n.

If several participants judged the same triplets, no exchange of whole participants or of whole
triplets leaves the answers as likely as before. Then p comes from Student's t with the two-way
variance of the difference, as the interval does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit
from hsfiq.analysis.resampling.interval import ConfidenceInterval, with_interval
from hsfiq.analysis.resampling.permutation import Swaps, holm, p_value
from hsfiq.analysis.resampling.ranks import value_numbers

MIN_CLUSTERS = 2
SWAP_METHODS: dict[Unit, str] = {
    "participant": "paired permutation, metrics exchanged for whole participants",
    "triplet": "paired permutation, metrics exchanged for whole triplets",
    "row": "paired permutation, metrics exchanged for single rows",
}


@dataclass(frozen=True)
class Difference(JsonRecord):
    """A statistic of one metric minus that of another.

    Attributes:
        p: of no difference, two-sided.
        p_holm: p adjusted for all tests of its family (Holm 1979).
        p_method: how p was computed.
        n: the number of rows with both metrics: sets, pairs or queries.
        n_clusters: the number of clusters that they come from.
        ci: its interval, paired; None if nothing was resampled.
        swaps: the permutations; None if p comes from Student's t.
        reason: why difference or p is NaN.
    """

    difference: float
    p: float
    p_holm: float
    p_method: str
    n: int
    n_clusters: int
    ci: ConfidenceInterval | None = None
    swaps: Swaps | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        swaps = self.swaps
        fields: dict[str, object] = {
            "difference": json_number(self.difference),
            "p": json_number(self.p),
            "p_holm": json_number(self.p_holm),
            "p_method": {
                "method": self.p_method,
                **({"n_permutations": swaps.n, "seed": swaps.seed} if swaps is not None else {}),
            },
            "n": self.n,
            "n_clusters": self.n_clusters,
        }
        return with_interval(fields, self.ci, self.reason)


def undefined_difference(bootstrap: Bootstrap, rows: pd.DataFrame, reason: str) -> Difference:
    n_clusters, ci = bootstrap.n_clusters_of(rows), bootstrap.undefined_interval(rows)
    nan = UNDEFINED
    return Difference(nan, nan, nan, "none", len(rows), n_clusters, ci, reason=reason)


def tested_difference(
    bootstrap: Bootstrap,
    rows: pd.DataFrame,
    resampled: FloatArray,
    permuted: Callable[[], FloatArray],
    swaps: Swaps,
) -> Difference:
    """The difference with its interval and p.

    Args:
        resampled: (length,) the difference of the rows, then of each resample.
        permuted: computes (n_permutations,) the difference with the metrics exchanged for
            `swapped_units` by `swaps`; called only if p comes from permutations.
    """
    n_clusters = bootstrap.n_clusters_of(rows)
    difference = Difference(
        difference=float(resampled[0]),
        p=UNDEFINED,
        p_holm=UNDEFINED,
        p_method="none",
        n=len(rows),
        n_clusters=n_clusters,
        ci=bootstrap.interval(resampled, rows),
    )
    if n_clusters < MIN_CLUSTERS:
        return replace(difference, reason=f"one {bootstrap.unit} alone gives no test")
    if len(bootstrap.parts) == 1:
        p = p_value(difference.difference, permuted())
        return replace(difference, p=p, p_method=SWAP_METHODS[bootstrap.unit], swaps=swaps)
    p = bootstrap.p(resampled, rows)
    reason = "all resamples give the same difference" if np.isnan(p) else None
    method = "none" if difference.ci is None else difference.ci.method
    return replace(difference, p=p, p_method=method, reason=reason)


def swapped_units(bootstrap: Bootstrap, rows: pd.DataFrame) -> NDArray[np.intp]:
    """The unit of each row for which metrics are exchanged: what is resampled, numbered from 0."""
    return value_numbers(bootstrap.parts[0].codes(rows))


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """Adjust the p of tests that are made together (Holm 1979)."""
    p_values = holm(np.array([each.p for each in family], dtype=np.float64))
    return [replace(each, p_holm=float(p)) for each, p in zip(family, p_values, strict=True)]
