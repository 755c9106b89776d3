"""Kendall's W: how far people who put the same sets in order agree on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.images import set_units
from hsfiq.analysis.json_values import UNDEFINED
from hsfiq.analysis.kinds.kind import Figures
from hsfiq.analysis.people.agreement import MIN_UNITS, few_units
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.resampling.spread import RATE

ALL = "all"
METHOD = (
    "Kendall's W with correction for ties, of each group of sets that two or more people put in "
    "order, averaged over the groups; intervals by resampling queries. W is 1 if all orders are "
    "the same. Orders at random give 1 / (number of people), so compare groups of equally many."
)


def kendall_w(ranks: FloatArray) -> float:
    """Kendall's coefficient of concordance of m rankings of n things, (m, n) -> from 0 to 1.

    W = 12 S / (m^2 (n^3 - n) - m T), where S is the sum of squared deviations of the things' rank
    sums from their mean, and T the sum of t^3 - t over every group of t ties in a ranking (Kendall
    and Babington Smith 1939, "The Problem of m Rankings"; with ties, Kendall 1948, "Rank
    Correlation Methods", chapter 6). Tied ranks are averaged first. NaN if every ranking ties all.
    """
    m, n = ranks.shape
    averaged = stats.rankdata(ranks, axis=1)
    deviations = averaged.sum(axis=0) - m * (n + 1) / 2
    ties = sum(
        float(((counts := np.unique(row, return_counts=True)[1]) ** 3 - counts).sum())
        for row in averaged
    )
    most = m**2 * (n**3 - n) - m * ties
    return UNDEFINED if most == 0 else float(12 * (deviations**2).sum() / most)


def concordance(sets: pd.DataFrame, triplets: pd.Series[str], by_query: Bootstrap) -> Figures:
    """The mean W over the groups of sets, for all and by the number of people who ranked them.

    `sets` has a row for each set of a ranking; `by_query` resamples triplets.
    """
    groups = ranked_groups(sets, triplets)
    people = groups["people"].map(lambda number: f"{number} people").to_numpy(object)
    everybody = np.full(len(groups), ALL, object)
    rows: dict[str, Estimate] = {}
    if len(groups) < MIN_UNITS:
        rows[ALL] = Estimate(UNDEFINED, len(groups), None, few_units(len(groups)))
    else:
        values = groups["w"].to_numpy(np.float64)
        rows |= group_means(groups, values, everybody, [ALL], by_query, RATE)
        rows |= group_means(groups, values, people, sorted(set(people)), by_query, RATE)
    return Figures(
        "concordance",
        "Agreement on the order",
        "groups ranked by",
        {name: {"Kendall's W": estimate} for name, estimate in rows.items()},
        METHOD,
    )


def ranked_groups(sets: pd.DataFrame, triplets: pd.Series[str]) -> pd.DataFrame:
    """A row for each group of sets that two or more people ranked: `query_id`, `people`, `w`.

    Of a person who ranked a group twice, the first ranking counts. Rankings with two identical sets
    are left out: which of the two has which rank is unknown.
    """
    units = sets["set_id"].map(set_units(sets, triplets))
    rankings: dict[tuple[int, ...], dict[str, tuple[str, list[float]]]] = {}
    for _, ranked in sets.assign(unit=units).groupby("question_id", sort=False):
        ordered = ranked.sort_values("unit")
        group = tuple(ordered["unit"])
        if len(set(group)) == len(group):
            first = ordered.iloc[0]
            by_person = rankings.setdefault(group, {})
            by_person.setdefault(
                str(first["participant_id"]), (str(first["query_id"]), list(ordered["rank"]))
            )
    rows = [
        (query, len(by_person), w)
        for by_person in rankings.values()
        if len(by_person) > 1
        for query in [next(iter(by_person.values()))[0]]
        if not np.isnan(w := kendall_w(np.array([ranks for _, ranks in by_person.values()])))
    ]
    return pd.DataFrame(rows, columns=["query_id", "people", "w"])
