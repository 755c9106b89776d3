"""`single`: systems' mean scores, agreement, and the correlation of metrics with the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.data.release import score_range
from hsfiq.analysis.kinds.kind import Figures, KindStatistics, alpha_of, system_names
from hsfiq.analysis.people.agreement import score_ratings
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import RATE, Bounds
from hsfiq.analysis.statistics.correlation import spearman

ALL = "all"


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    sets = release.sets.assign(system=system_names(release.sets))
    return [
        mean_scores(sets, bootstrap, score_range(release.points)),
        score_shares(sets, bootstrap),
        agreement_of_scores(sets, release.triplets),
        correlations(release, metrics, bootstrap),
    ]


def mean_scores(sets: pd.DataFrame, bootstrap: Bootstrap, scale: Bounds) -> Figures:
    scores = sets["score"].to_numpy(np.float64)
    systems = sets["system"].to_numpy(object)
    means = group_means(sets, scores, systems, sorted(set(systems)), bootstrap, scale)
    means |= group_means(sets, scores, np.full(len(sets), ALL, object), [ALL], bootstrap, scale)
    return Figures(
        "mean_scores",
        "Mean score by system",
        "system",
        {name: {"mean score": mean} for name, mean in means.items()},
        "The mean over the answers about the system's sets.",
    )


def score_shares(sets: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    """How often each score was given."""
    everything, scores = np.full(len(sets), ALL, object), sets["score"].to_numpy()
    rows = {}
    for score in sorted(set(scores.tolist())):
        given = (scores == score).astype(np.float64)
        share = group_means(sets, given, everything, [ALL], bootstrap, RATE)[ALL]
        rows[str(score)] = {"share": share}
    return Figures(
        "score_shares", "Scores given", "score", rows, "The share of the answers with this score."
    )


def agreement_of_scores(sets: pd.DataFrame, triplets: pd.Series[str]) -> Figures:
    alpha = alpha_of(score_ratings(sets, set_units(sets, triplets), triplets), "ordinal")
    return Figures(
        "agreement",
        "Agreement between people",
        "answers",
        {"scores": {"alpha": alpha}},
        "Krippendorff's alpha, ordinal, over sets that two or more people scored.",
    )


def correlations(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> Figures:
    rows = {}
    for metric in metrics:
        result = spearman(release.sets, metric.values(release), bootstrap)
        rows[str(metric)] = {"rho": Estimate(result.rho, result.n, result.ci, result.reason)}
    return Figures(
        "correlation",
        "Correlation of metrics with the scores",
        "metric",
        rows,
        "Spearman's rank correlation over the sets for which the metric has a value.",
    )


SINGLE = KindStatistics(
    main="scores", columns=("set_id", "score"), figures=figures, of_sets=("system", "score")
)
