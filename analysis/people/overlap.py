"""Sets that several people judged: how far people agree, and what a metric could reach at most.

The score of one other annotator of the same set is compared with each person's own answers as if it
were a metric. That is no upper bound: the mean of several annotators predicts better, and so may a
metric. The bound is the square root of the reliability (see `reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.people.agreement import (
    MIN_UNITS,
    Agreement,
    agreement,
    few_units,
    has_identical_sets,
    preference_ratings,
    score_ratings,
)
from hsfiq.analysis.people.reliability import Reliability, reliability
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.preference import Rate, preference_rates

MORE_THAN_TWO = 3
"""With so many annotators of a set, the mean of the others differs from one other."""


@dataclass(frozen=True)
class Prediction(JsonRecord):
    """How well a predictor agrees with answers about sets that several people judged."""

    spearman: Correlation
    tie_half: Rate


@dataclass(frozen=True)
class Overlap(JsonRecord):
    """How far people agree about sets that several of them judged, and metrics on the same sets.

    Attributes:
        n_sets: how many of the judged sets somebody else judged too.
        other_annotator: the score by one other annotator, as a predictor.
        other_annotators: the mean score of all others; None if no set has more than two annotators.
        metrics: by name, each metric on the same sets and pairs.
        scores, preferences: Krippendorff's alpha, ordinal and nominal.
        n_identical: how many questions with two identical sets the alpha of preferences leaves out.
        reliability: of the scores.
    """

    n_sets: int
    n_participants: int
    other_annotator: Prediction
    other_annotators: Prediction | None
    metrics: Mapping[str, Prediction]
    scores: Agreement
    preferences: Agreement
    n_identical: int
    reliability: Reliability

    @property
    def predictors(self) -> dict[str, Prediction]:
        """The other annotators, then the metrics, by their names in reports."""
        everybody = self.other_annotators
        people = {} if everybody is None else {"mean of all other annotators": everybody}
        return {"one other annotator": self.other_annotator, **people, **self.metrics}

    def to_json(self) -> dict[str, object]:
        everybody = self.other_annotators
        return {
            "n_sets": self.n_sets,
            "n_participants": self.n_participants,
            "other_annotator": self.other_annotator.to_json(),
            **({} if everybody is None else {"other_annotators": everybody.to_json()}),
            "metrics": json_value(self.metrics),
            "alpha": {
                "scores": self.scores.to_json(),
                "preferences": self.preferences.to_json(),
                "n_identical": self.n_identical,
            },
            "reliability": self.reliability.to_json(),
        }


def overlap(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Overlap:
    """Compare people with each other.

    Figures are NaN, with a reason, with fewer than `MIN_UNITS` sets, or for rates pairs of sets,
    that two people judged.
    """
    units, triplets = release.units, release.triplets
    next_person, everybody = one_other(release.sets, units), others_mean(release.sets, units)
    is_shared = everybody.notna()
    shared = release.sets[is_shared.to_numpy()]
    metrics = {
        name: own.where(looked_up(own.index.to_series(), is_shared)) for name, own in values.items()
    }
    ratings = score_ratings(release.sets, units, triplets)
    scores = agreement(ratings, "ordinal")
    n_units, n_pairs = scores.n_units, _shared_pairs(release.preferences, units, is_shared)

    def predict(values: pd.Series[float]) -> Prediction:
        return _prediction(release, values, bootstrap, n_units, n_pairs)

    n_annotators = ratings.groupby("unit")["rater"].nunique()
    return Overlap(
        n_sets=len(shared),
        n_participants=int(shared["participant_id"].nunique()),
        other_annotator=predict(next_person),
        other_annotators=predict(everybody) if (n_annotators >= MORE_THAN_TWO).any() else None,
        metrics={name: predict(own) for name, own in metrics.items()},
        scores=scores,
        preferences=agreement(preference_ratings(release.preferences, units, triplets), "nominal"),
        n_identical=int(has_identical_sets(release.preferences, units).sum()),
        reliability=reliability(ratings),
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
    return pd.Series(means, index=pd.Index(sets["set_id"]))


def one_other(sets: pd.DataFrame, units: pd.Series[int]) -> pd.Series[float]:
    """The score that the next participant gave to the same unit (see `set_units`), (n,).

    The next by id, after the last the first, so that each participant predicts one other. Of a
    participant who judged a unit twice, the first score counts. Indexed by set_id; NaN if nobody
    else judged the set.
    """
    keys = ["unit", "participant_id"]
    table = sets.assign(unit=units.to_numpy(), score=sets["score"].astype("float64"))
    people = table.drop_duplicates(keys).sort_values(keys)
    by_unit = people.groupby("unit")
    following = by_unit["score"].shift(-1).fillna(by_unit["score"].transform("first"))
    following = following.where(by_unit["score"].transform("size") > 1)
    scores = pd.Series(following.to_numpy(), index=pd.MultiIndex.from_frame(people[keys]))
    return pd.Series(
        scores.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy(),
        index=pd.Index(sets["set_id"]),
    )


def _shared_pairs(
    preferences: pd.DataFrame, units: pd.Series[int], is_shared: pd.Series[bool]
) -> int:
    """How many different pairs of sets have two sets that somebody else judged, too."""
    shared = units[is_shared.to_numpy()]
    first, second = (looked_up(preferences[side], shared) for side in ("set_1", "set_2"))
    pairs = pd.DataFrame({"low": np.minimum(first, second), "high": np.maximum(first, second)})
    return len(pairs.dropna().drop_duplicates())


def _prediction(
    release: Release, values: pd.Series[float], bootstrap: Bootstrap, n_units: int, n_pairs: int
) -> Prediction:
    if n_units < MIN_UNITS:
        rho = spearman(release.sets, values)
        reason = few_units(n_units)
        correlation = Correlation(UNDEFINED, UNDEFINED, rho.n, rho.n_clusters, reason)
    else:
        correlation = spearman(release.sets, values, bootstrap)
    if n_pairs < MIN_UNITS:
        rate = preference_rates(release.preferences, values).tie_half
        undefined = Rate(
            UNDEFINED, rate.n, rate.coverage, few_units(n_pairs, "pair of sets", "pairs of sets")
        )
        return Prediction(correlation, undefined)
    return Prediction(
        correlation, preference_rates(release.preferences, values, bootstrap).tie_half
    )
