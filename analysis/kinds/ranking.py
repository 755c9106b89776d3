"""`ranking`: mean ranks, implied pairwise rates, Bradley-Terry strengths, and agreement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.json_results import UNDEFINED, FloatArray
from hsfiq.analysis.kinds.kind import Figures, KindStatistics, alpha_of, by_query, system_names
from hsfiq.analysis.people.agreement import MIN_UNITS, few_units
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import RATE
from hsfiq.analysis.systems.strengths import strengths

# Kendall's W: how far people who put the same sets in order agree on it.

ALL = "all"
METHOD = (
    "Kendall's W with correction for ties, of each group of sets that two or more people ranked, "
    "averaged over the groups; intervals by resampling queries. W is 1 if all orders are "
    "the same. Random orders give 1 / (number of people), so compare groups with the same number "
    "of people."
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

    If a person ranked a group twice, the first ranking counts. Rankings with two identical sets
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


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    sets = release.sets.assign(system=system_names(release.sets))
    pairs = implied_pairs(sets)
    return [
        mean_ranks(sets, bootstrap),
        pairwise_rates(pairs, bootstrap),
        strengths_of_systems(pairs, bootstrap),
        agreement_of_ranks(sets, release.triplets),
        concordance(sets, release.triplets, by_query(release, bootstrap)),
        agreement_with_metrics(release, pairs, metrics, bootstrap),
    ]


def mean_ranks(sets: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    systems = sets["system"].to_numpy(object)
    ranks = sets["rank"].to_numpy(np.float64)
    bounds = (1.0, float(sets["question_id"].value_counts().max()))
    means = group_means(sets, ranks, systems, sorted(set(systems)), bootstrap, bounds)
    return Figures(
        "mean_ranks",
        "Mean rank by system",
        "system",
        {name: {"mean rank": mean} for name, mean in means.items()},
        "1 is the best rank; tied sets share the better one.",
    )


def implied_pairs(sets: pd.DataFrame) -> pd.DataFrame:
    """A row for each two sets of a question, the systems in the order of their names.

    `share` is 1 if the first system's set has the better rank, 0 if the second's has, else 0.5.
    """
    rows = []
    for _, ranked in sets.groupby("question_id", sort=False):
        records = sorted(ranked.to_dict("records"), key=lambda row: str(row["system"]))
        for first, second in combinations(records, 2):
            share = 0.5 + 0.5 * float(np.sign(second["rank"] - first["rank"]))
            rows.append(
                (
                    *(first["question_id"], first["participant_id"], first["query_id"]),
                    *(first["system"], second["system"]),
                    *(first["set_id"], second["set_id"], share),
                )
            )
    columns = [
        *("question_id", "participant_id", "query_id"),
        *("system_1", "system_2", "set_1", "set_2", "share"),
    ]
    return pd.DataFrame(rows, columns=columns)


def pairwise_rates(pairs: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    named = (pairs["system_1"] + " before " + pairs["system_2"]).to_numpy(object)
    shares = pairs["share"].to_numpy(np.float64)
    rates = group_means(pairs, shares, named, sorted(set(named)), bootstrap, RATE)
    return Figures(
        "pairwise_rates",
        "Which system comes before which",
        "pair of systems",
        {name: {"rate": rate} for name, rate in rates.items()},
        "The share of the rankings with both systems in which the first has the better rank; a "
        "tie counts half.",
    )


def strengths_of_systems(pairs: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    names = sorted({*pairs["system_1"], *pairs["system_2"]})
    number = {name: place for place, name in enumerate(names)}
    numbered = pairs.assign(
        first=pairs["system_1"].map(number), second=pairs["system_2"].map(number)
    )
    fitted = strengths(numbered, pairs["share"].to_numpy(np.float64), names, bootstrap)
    return Figures(
        "strengths",
        "Bradley-Terry strengths of the implied pairs",
        "system",
        {name: {"log-strength": estimate} for name, estimate in fitted.estimates.items()},
        "Centred at 0; every two sets of a ranking count as one comparison.",
    )


def agreement_of_ranks(sets: pd.DataFrame, triplets: pd.Series[str]) -> Figures:
    ratings = pd.DataFrame(
        {
            "rater": sets["participant_id"],
            "unit": sets["set_id"].map(set_units(sets, triplets)),
            "cluster": sets["query_id"].map(triplets),
            "value": sets["rank"],
        }
    )
    return Figures(
        "agreement",
        "Agreement between people",
        "answers",
        {"ranks": {"alpha": alpha_of(ratings, "ordinal")}},
        "Krippendorff's alpha, ordinal, of the ranks of sets that two or more people ranked.",
    )


def agreement_with_metrics(
    release: JudgedRelease,
    pairs: pd.DataFrame,
    metrics: Sequence[Metric],
    bootstrap: Bootstrap,
) -> Figures:
    """How often a metric's higher set has the better rank."""
    rows = {}
    for metric in metrics:
        values = metric.values(release)
        difference = pairs["set_1"].map(values) - pairs["set_2"].map(values)
        decided = pairs[difference.notna() & (difference != 0) & (pairs["share"] != 0.5)]
        agrees = (difference[decided.index] > 0) == (decided["share"] == 1)
        rate = group_means(
            decided,
            np.where(agrees.to_numpy(), 1.0, 0.0),
            np.full(len(decided), "all", object),
            ["all"],
            bootstrap,
            RATE,
        )
        rows[str(metric)] = {"rate": rate["all"]}
    return Figures(
        "metrics",
        "Agreement of metrics with the order",
        "metric",
        rows,
        "Of the pairs of sets with different ranks and different values, the share in which the "
        "set with the higher value has the better rank.",
    )


RANKING = KindStatistics(
    main="rankings", columns=("ranks",), figures=figures, of_sets=("system", "rank")
)
