"""The section on how each figure is computed: its formula and source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hsfiq.analysis.reports.document import Block, Column, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsfiq.analysis.resampling.bootstrap import Bootstrap
    from hsfiq.analysis.statistics.compare import Comparison


class Method(NamedTuple):
    """How a figure is computed: the key that columns refer to, its name, formula and source."""

    key: str
    name: str
    formula: str
    source: str


METHODS = (
    Method(
        "spearman",
        "Spearman's rho",
        "correlation between the mid-ranks of metric and human score, over all sets (two per "
        "question)",
        "Spearman 1904; CIRQRS Table 2",
    ),
    Method(
        "independent",
        "Interval and p assuming independent sets",
        "tanh(atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3))); p from Student's t",
        "Bonett and Wright 2000",
    ),
    Method(
        "within",
        "Within-participant rho",
        "mean of the participants' own rhos; centred: rho with each score minus its "
        "participant's mean",
        "own definition",
    ),
    Method(
        "normality",
        "Normality",
        "Shapiro and Wilk's W; for more than 5,000 values its p is approximate, and D'Agostino and "
        "Pearson's K2 is reported too",
        "Shapiro and Wilk 1965; Royston 1995; D'Agostino and Pearson 1973",
    ),
    Method("ge", "ge", "P(set 1 preferred | m(set 1) >= m(set 2))", "CIRQRS eq. 8, Table 3"),
    Method("gt", "gt", "P(set 1 preferred | m(set 1) > m(set 2))", "QuRe eq. 9"),
    Method(
        "given_tie",
        "gt where another metric ties",
        "P(set 1 preferred | m(set 1) > m(set 2) and other(set 1) = other(set 2))",
        "CIRQRS eq. 9",
    ),
    Method(
        "swapped",
        "ge and gt, labels swapped",
        "the same with the labels of set 1 and set 2 exchanged",
        "own definition",
    ),
    Method(
        "symmetric",
        "Symmetric rate",
        "of the pairs with different values, the share in which the set with the higher value is "
        "preferred",
        "own definition",
    ),
    Method(
        "tie_half",
        "tie_half",
        "the symmetric rate over all pairs with a preference and both values, with metric ties "
        "counted as half",
        "as the area under a ROC curve",
    ),
    Method(
        "base_rate",
        "Base rate",
        "the rate of an uninformative metric: P(set 1 preferred) for ge and gt, P(set 2 preferred) "
        "with the labels swapped, 0.5 for the others",
        "own definition",
    ),
    Method(
        "coverage", "Coverage", "pairs that the rule applies to / all questions", "own definition"
    ),
    Method(
        "acc_eq",
        "Pairwise accuracy with tie calibration (acc_eq)",
        "share of pairs for which metric and people give the same relation: better, worse or tied; "
        "the metric ties if its values differ by at most epsilon, which is chosen on other "
        "participants",
        "Deutsch, Foster and Freitag 2023 (arXiv 2305.14324)",
    ),
    Method(
        "margin",
        "Accuracy by margin",
        "symmetric rate in five bins of increasing |m(set 1) - m(set 2)|, and at each |score 1 - "
        "score 2|; trend: Spearman's rho between the margin and being correct",
        "own definition",
    ),
    Method(
        "difference",
        "Difference between two metrics",
        "difference on the same rows; its interval uses the same resamples for both metrics; p "
        "from swapping the metrics for whole participants, adjusted for all pairs of metrics",
        "Deutsch, Dror and Roth 2021 (arXiv 2104.00054); Holm 1979",
    ),
    Method(
        "win_rate",
        "Win rate",
        "share of a system's comparisons with other systems in which it is preferred, ties counted "
        "as half",
        "own definition",
    ),
    Method(
        "strength",
        "Bradley-Terry strength",
        "P(i beats j) = 1 / (1 + exp(s_j - s_i)), maximum likelihood, mean 0, ties counted as "
        "half; according to a metric: as if its higher set were preferred",
        "Bradley and Terry 1952",
    ),
    Method(
        "set_score",
        "Set score of a system",
        "mean of the metric over the system's sets of k images, each set counted once; queries are "
        "resampled",
        "CIRQRS eq. 10, Table 6",
    ),
    Method(
        "own_similarity",
        "Rate by a system's own similarity",
        "ge with the system's own similarity as the metric",
        "CIRQRS section 5.4",
    ),
    Method(
        "order",
        "Agreement of rankings",
        "Kendall's tau-b between the strengths according to people and according to the metric",
        "Kendall 1945",
    ),
    Method(
        "position",
        "Position bias",
        "P(set 1 preferred); exact binomial test, and an exact test that flips all answers of a "
        "participant together",
        "Clopper and Pearson 1934; sign-flip test",
    ),
    Method(
        "outliers",
        "Outliers",
        "|0.6745 (value - median) / median absolute deviation| > 3.5",
        "Iglewicz and Hoaglin 1993",
    ),
    Method(
        "ceiling",
        "Human ceiling",
        "the mean score of the other annotators of a set, evaluated as a metric on each "
        "annotator's answers",
        "leave one annotator out",
    ),
    Method(
        "alpha",
        "Krippendorff's alpha",
        "1 - observed / expected disagreement; ordinal for scores, nominal for preferences",
        "Krippendorff 2011",
    ),
    Method(
        "left_out",
        "Leaving out one participant",
        "the lowest and the highest value of a figure without any one participant",
        "jackknife",
    ),
)
METHOD_NUMBERS = {method.key: number for number, method in enumerate(METHODS, 1)}
"""The note number of each method."""


def methods_section(draws: Bootstrap, comparisons: Sequence[Comparison]) -> Section:
    """How every figure and interval was computed."""
    rows = tuple(
        (str(number), method.name, method.formula, method.source)
        for number, method in enumerate(METHODS, 1)
    )
    columns = (
        Column("number", "Note"),
        Column("figure", "Figure"),
        Column("formula", "Formula"),
        Column("source", "Source"),
    )
    blocks: list[Block] = [_intervals(draws)]
    if comparisons:
        swaps = comparisons[0].spearman.swaps
        blocks.append(
            f"Tests of differences: {swaps.n:,} permutations, seed {swaps.seed}, p = (b + 1) / "
            "(permutations + 1)."
        )
    blocks += [
        (
            "results.json and tables/*.csv hold the figures in full precision, each with its n, "
            "clusters, method and seed. An undefined figure is a dash here and null in JSON, "
            "always with a reason."
        ),
        Table("methods", "How each figure is computed", columns, rows),
    ]
    return Section("methods", "Methods", tuple(blocks))


def _intervals(draws: Bootstrap) -> str:
    expanded = " expanded for few clusters (Hesterberg 2015)" if draws.correction == "t" else ""
    return (
        f"Intervals: 95%, percentile bootstrap{expanded}, {draws.n_resamples:,} resamples, seed "
        f"{draws.seed}, unit: {draws.unit} ({draws.n_clusters:,} clusters in the release). Whole "
        "clusters are drawn with replacement. All figures use the same draws, so differences are "
        "paired. With fewer than 30 clusters, such intervals tend to be too short."
    )
