"""`query`: the share of each verdict, the majority verdict on each query, and agreement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.kinds.kind import Figures, KindStatistics, alpha_of, by_query
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import RATE

ALL, WELL_FORMED = "all", "VALIDATED"


def figures(
    release: JudgedRelease, _metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    answers = release.answers
    return [
        verdict_shares(answers, bootstrap),
        well_formed_queries(release, bootstrap),
        agreement_on_verdicts(answers),
    ]


def verdict_shares(answers: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    given = answers["verdict"].astype(str)
    shares = {
        verdict: share(answers, given == verdict, bootstrap) for verdict in sorted(set(given))
    }
    return Figures(
        "verdicts",
        "Verdicts",
        "verdict",
        {verdict: {"share": estimate} for verdict, estimate in shares.items()},
        "The share of the answers with this verdict.",
    )


def well_formed_queries(release: JudgedRelease, bootstrap: Bootstrap) -> Figures:
    """How many queries most people, or all, call well formed."""
    queries = by_query(release, bootstrap)
    is_well_formed = release.answers["verdict"] == WELL_FORMED
    rates = is_well_formed.groupby(release.answers["query_id"]).mean().reset_index(name="rate")
    rows = {
        "by more than half": share(rates, rates["rate"] > 0.5, queries),
        "by everybody": share(rates, rates["rate"] == 1, queries),
    }
    return Figures(
        "well_formed",
        "Queries that people call well formed",
        "majority",
        {name: {"share": estimate} for name, estimate in rows.items()},
        "The share of the queries; intervals by resampling queries.",
    )


def agreement_on_verdicts(answers: pd.DataFrame) -> Figures:
    ratings = pd.DataFrame(
        {
            "rater": answers["participant_id"],
            "unit": pd.factorize(answers["query_id"])[0],
            "cluster": answers["query_id"],
            "value": pd.factorize(answers["verdict"], sort=True)[0],
        }
    )
    return Figures(
        "agreement",
        "Agreement between people",
        "answers",
        {"verdicts": {"alpha": alpha_of(ratings, "nominal")}},
        "Krippendorff's alpha, nominal, over queries that two or more people judged.",
    )


def share(rows: pd.DataFrame, is_counted: pd.Series[bool], bootstrap: Bootstrap) -> Estimate:
    values = np.where(is_counted.to_numpy(), 1.0, 0.0)
    return group_means(rows, values, np.full(len(rows), ALL, object), [ALL], bootstrap, RATE)[ALL]


QUERY = KindStatistics(
    main="query_ratings", columns=("verdict",), figures=figures, has_metrics=False
)
