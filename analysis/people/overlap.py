"""The human ceiling: how well other people who judged a set predict one person's answers.

If several people judged the same retrieved set, the mean of the others' scores is compared with
each person's own answers as if it were a metric. No metric can be expected to do much better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.agreement import (
    MIN_UNITS,
    Agreement,
    agreement,
    few_units,
    has_identical_sets,
    preference_ratings,
    score_ratings,
    set_units,
)
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.preference import Rate, preference_rates


@dataclass(frozen=True)
class Prediction(JsonRecord):
    """How well a predictor agrees with answers about sets that several people judged."""

    spearman: Correlation
    tie_half: Rate


@dataclass(frozen=True)
class Ceiling(JsonRecord):
    """What people reach, and what metrics reach on the same sets.

    Attributes:
        n_sets: how many of the judged sets somebody else judged too.
        people: the mean score by the others, as a predictor.
        metrics: by name, each metric on the same sets and pairs.
        scores, preferences: Krippendorff's alpha, ordinal and nominal.
        n_identical: how many questions with two identical sets the alpha of preferences leaves out.
    """

    n_sets: int
    n_participants: int
    people: Prediction
    metrics: Mapping[str, Prediction]
    scores: Agreement
    preferences: Agreement
    n_identical: int

    def to_json(self) -> dict[str, object]:
        return {
            "n_sets": self.n_sets,
            "n_participants": self.n_participants,
            "people": self.people.to_json(),
            "metrics": json_value(self.metrics),
            "alpha": {
                "scores": self.scores.to_json(),
                "preferences": self.preferences.to_json(),
                "n_identical": self.n_identical,
            },
        }


def ceiling(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Ceiling:
    """Measure the human ceiling; NaN, with reasons, with fewer than `MIN_UNITS` shared sets."""
    units, triplets = set_units(release.sets, release.triplets), release.triplets
    others = others_mean(release.sets, units)
    shared = release.sets[release.sets["set_id"].map(others).notna()]
    metrics = {name: own.where(others.reindex(own.index).notna()) for name, own in values.items()}
    seed = bootstrap.seed
    scores = agreement(score_ratings(release.sets, units, triplets), "ordinal", seed=seed)
    reason = few_units(scores.n_units) if scores.n_units < MIN_UNITS else None
    return Ceiling(
        n_sets=len(shared),
        n_participants=int(shared["participant_id"].nunique()),
        people=_prediction(release, others, bootstrap, reason),
        metrics={
            name: _prediction(release, own, bootstrap, reason) for name, own in metrics.items()
        },
        scores=scores,
        preferences=agreement(
            preference_ratings(release.preferences, units, triplets), "nominal", seed=seed
        ),
        n_identical=int(has_identical_sets(release.preferences, units).sum()),
    )


def others_mean(sets: pd.DataFrame, units: pd.Series[int]) -> pd.Series[float]:
    """The mean of the other participants' scores of the same unit (see `set_units`), (n,).

    Indexed by set_id; NaN if nobody else judged the set.
    """
    table = sets.assign(unit=units.to_numpy(), score=sets["score"].astype("float64"))
    total = table.groupby("unit")["score"]
    own = table.groupby(["unit", "participant_id"])["score"]
    n_others = total.transform("size") - own.transform("size")
    sum_of_others = total.transform("sum") - own.transform("sum")
    means = (sum_of_others / n_others.where(n_others > 0)).to_numpy(dtype=np.float64)
    return pd.Series(means, index=sets["set_id"].to_numpy())


def _prediction(
    release: Release, values: pd.Series[float], bootstrap: Bootstrap, reason: str | None
) -> Prediction:
    """The figures of a predictor; with a reason, they are undefined."""
    if reason is not None:
        rho, rate = spearman(release.sets, values), preference_rates(release.preferences, values)
        return Prediction(
            Correlation(UNDEFINED, UNDEFINED, rho.n, rho.n_clusters, reason),
            Rate(UNDEFINED, rate.tie_half.n, rate.tie_half.coverage, reason),
        )
    return Prediction(
        spearman(release.sets, values, bootstrap),
        preference_rates(release.preferences, values, bootstrap).tie_half,
    )
