"""How reliable each participant is, judged by the other annotators of the same sets.

A participant's own figure is Spearman's rho between their scores and the mean of the others'. Over
few sets it varies by chance, so it is also shrunk towards the mean of all participants: empirical
Bayes for normal means (Morris 1983, "Parametric Empirical Bayes Inference"), on z = atanh(rho) of
variance v = (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000, at the mean rho):

    shrunk = z + B (mean - z), with B = (m - 3) / (m - 1) v / (v + A) for m participants,
    variance = v (1 - (m - 1) / m B) + 2 / (m - 3) B^2 (z - mean)^2,

where the variance A between participants is that of DerSimonian and Laird (1986).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.people.agreement import MIN_UNITS
from hsfiq.analysis.people.overlap import others_mean
from hsfiq.analysis.resampling.spread import LEVEL
from hsfiq.analysis.statistics.correlation import participant_rhos, with_values

MIN_PEOPLE = 5
"""The formula needs more than three participants; with fewer than five it says nothing."""
LARGEST_RHO = 0.999  # atanh(1) is infinite
COLUMNS = ("n_shared", "with_others", "reliability", "reliability_low", "reliability_high")


def participant_reliability(sets: pd.DataFrame, units: pd.Series[int]) -> pd.DataFrame:
    """Each participant's agreement with the others, raw and shrunk, indexed by participant.

    Columns: `n_shared`, the sets that others judged too; `with_others`, rho on them, NaN with fewer
    than `MIN_UNITS`; `reliability` and the ends of its 95 % interval, NaN also with fewer than
    `MIN_PEOPLE` participants. The units are what `data.images.set_units` returned.
    """
    shared = with_values(sets, others_mean(sets, units))
    shared = shared.assign(unit=looked_up(shared["set_id"], units))
    shared = shared.drop_duplicates(["participant_id", "unit"])
    people = pd.Index(sorted(sets["participant_id"].unique()))
    n = shared.groupby("participant_id").size().reindex(people, fill_value=0)
    rhos = participant_rhos(shared).reindex(people).astype("float64").where(n >= MIN_UNITS)
    table = pd.DataFrame({"n_shared": n, "with_others": rhos}).reindex(columns=[*COLUMNS])
    known = rhos.notna()
    if known.sum() >= MIN_PEOPLE:
        own, sizes = (np.asarray(column[known], dtype=np.float64) for column in (rhos, n))
        table.loc[known, list(COLUMNS[2:])] = shrunk(own, sizes)
    return table.astype("float64")


def shrunk(rhos: FloatArray, n: FloatArray) -> FloatArray:
    """Shrink correlations of n > 3 rows each towards their mean.

    Returns (m, 3): the shrunk correlation and the ends of its interval, for m > 3 correlations.
    """
    m = len(rhos)
    z = np.arctanh(np.clip(rhos, -LARGEST_RHO, LARGEST_RHO))
    v = (1 + float(np.mean(rhos)) ** 2 / 2) / (n - 3)
    between = variance_between(z, v)
    weights = 1 / (v + between)
    mean = (weights * z).sum() / weights.sum()
    share = (m - 3) / (m - 1) * v / (v + between)
    centre = z + share * (mean - z)
    variance = v * (1 - (m - 1) / m * share) + 2 / (m - 3) * share**2 * (z - mean) ** 2
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * np.sqrt(variance)
    return np.asarray(np.tanh(np.stack([centre, centre - half, centre + half], axis=1)))


def variance_between(values: FloatArray, variances: FloatArray) -> float:
    """The variance of m true values, given estimates with known variances; never negative."""
    weights = 1 / variances
    mean = (weights * values).sum() / weights.sum()
    q = (weights * (values - mean) ** 2).sum()
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    return float(max(0.0, (q - (len(values) - 1)) / scale))
