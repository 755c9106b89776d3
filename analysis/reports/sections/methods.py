"""How each figure of the report is made: its formula and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.document import Column, Section, Table

if TYPE_CHECKING:
    from hsfiq.analysis.reports.document import Block
    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.statistics.compare import Comparison


@dataclass(frozen=True)
class Method:
    """How a figure is made.

    Attributes:
        key: what the columns of tables name it by.
        name: what people call it.
        formula: its definition.
        source: paper and equation, or test and year.
    """

    key: str
    name: str
    formula: str
    source: str


METHODS = (
    Method(
        "spearman",
        "Spearman's rho",
        "correlation of the mid-ranks of metric and human score, over all sets, two a question",
        "Spearman 1904; CIRQRS Table 2",
    ),
    Method(
        "independent",
        "Interval and p as if the sets were independent",
        "tanh(atanh(rho) -+ z sqrt((1 + rho^2 / 2) / (n - 3))); p from Student's t",
        "Bonett and Wright 2000",
    ),
    Method(
        "within",
        "Within-participant rho",
        "own: mean of the participants' own rhos; centred: rho with the scores less their "
        "participant's mean",
        "own definition",
    ),
    Method(
        "normality",
        "Normality",
        "W of Shapiro and Wilk; beyond 5,000 values its p is approximate and K2 of D'Agostino and "
        "Pearson stands beside it",
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
        "the same with set 1 called set 2 and set 2 called set 1",
        "own definition",
    ),
    Method(
        "symmetric",
        "Symmetric rate",
        "of the pairs with m different, the share whose higher set is preferred",
        "own definition",
    ),
    Method(
        "tie_half",
        "tie_half",
        "of all pairs with a preference and both values, the same, metric ties counted half",
        "as the area under a ROC curve",
    ),
    Method(
        "base_rate",
        "Base rate",
        "what a metric that knows nothing gets by a rule: P(set 1 preferred) for ge and gt, P(set "
        "2 preferred) with the labels swapped, one half for the others",
        "own definition",
    ),
    Method("coverage", "Coverage", "pairs that a rule speaks of / all questions", "own definition"),
    Method(
        "acc_eq",
        "Pairwise accuracy with tie calibration (acc_eq)",
        "share of the pairs of which metric and people say the same: better, worse, or tied; the "
        "metric ties where its values are at most epsilon apart, chosen on other participants",
        "Deutsch, Foster and Freitag 2023 (arXiv 2305.14324)",
    ),
    Method(
        "margin",
        "Accuracy by margin",
        "symmetric rate in five bins of rising |m(set 1) - m(set 2)|, and at each |score 1 - score "
        "2|; trend: Spearman's rho of margin and being right",
        "own definition",
    ),
    Method(
        "difference",
        "Metric against metric",
        "difference of two metrics on the same rows; its interval from the same resamples of both; "
        "p by exchanging the metrics for whole participants, adjusted for all pairs of metrics",
        "Deutsch, Dror and Roth 2021 (arXiv 2104.00054); Holm 1979",
    ),
    Method(
        "win_rate",
        "Win rate",
        "share of a system's questions against others in which it is preferred, ties counted half",
        "own definition",
    ),
    Method(
        "strength",
        "Bradley-Terry strength",
        "P(i beats j) = 1 / (1 + exp(s_j - s_i)), maximum likelihood, mean 0, ties counted half; "
        "by a metric: as if its higher set were preferred",
        "Bradley and Terry 1952",
    ),
    Method(
        "set_score",
        "Set score of a system",
        "mean of the metric over the system's sets of k images, each counted once; queries are "
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
        "Agreement of two orders",
        "Kendall's tau-b of people's strengths and the metric's",
        "Kendall 1945",
    ),
    Method(
        "position",
        "Position bias",
        "P(set 1 preferred); exact binomial test, and exact test that turns all answers of a "
        "participant together",
        "Clopper and Pearson 1934; sign-flip test",
    ),
    Method(
        "outliers",
        "Who stands apart",
        "|0.6745 (value - median) / median absolute deviation| > 3.5",
        "Iglewicz and Hoaglin 1993",
    ),
    Method(
        "ceiling",
        "Human ceiling",
        "the mean score by the other people who judged a set, held against each person's answers "
        "as if it were a metric",
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
        "One participant left out",
        "the least and the greatest that a figure becomes without any one participant",
        "jackknife",
    ),
)
NUMBERS = {method.key: number for number, method in enumerate(METHODS, 1)}
"""The footnote of each method."""


def methods_section(draws: Draws, comparisons: list[Comparison]) -> Section:
    """Say how every figure and interval was made.

    Args:
        draws: of the analysis.
        comparisons: of its metrics; their permutations are named where there are any.
    """
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
    blocks: list[Block] = [
        _intervals(draws),
        *_tests(comparisons),
        (
            "Unrounded figures, each with its n, clusters, method and seed, are in results.json "
            "and tables/*.csv. An undefined figure is a dash here, null there, and always has its "
            "reason."
        ),
        Table("methods", "How each figure is made", columns, rows),
    ]
    return Section("methods", "Methods", tuple(blocks))


def _intervals(draws: Draws) -> str:
    expanded = " expanded for few clusters (Hesterberg 2015)" if draws.correction == "t" else ""
    return (
        f"Intervals: 95%, percentile bootstrap{expanded}, {draws.n_resamples:,} resamples, seed "
        f"{draws.seed}, unit: {draws.unit} ({draws.n_clusters:,} clusters in the release). Whole "
        "clusters are drawn with replacement, the same draws for every figure, so that differences "
        "are paired. Below 30 clusters such intervals tend to be too short."
    )


def _tests(comparisons: list[Comparison]) -> list[str]:
    if not comparisons:
        return []
    swaps = comparisons[0].spearman.swaps
    return [
        (
            f"Tests of differences: {swaps.n:,} permutations, seed {swaps.seed}, p = (b + 1) / "
            "(permutations + 1)."
        )
    ]
