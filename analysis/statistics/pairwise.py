"""Pairwise accuracy with ties on both sides: acc_eq with tie calibration.

Deutsch, Foster and Freitag (2023, arXiv 2305.14324): a metric predicts for each pair which set is
better, or a tie if its two values differ by at most epsilon; the accuracy is the share of the pairs
in which people say the same. So metrics with two values and metrics with a thousand are measured
alike. Here a pair is a question, that is, two sets of one query.

An epsilon fitted to the pairs that it is measured on flatters the metric. So the participants are
split into folds and the epsilon of each fold is chosen on the other folds; the fitted one is
reported as in-sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import ConfidenceInterval

MAX_FOLDS = 5
MIN_FOLDS = 2


@dataclass(frozen=True)
class PairwiseAccuracy(JsonRecord):
    """acc_eq of one metric, against one human relation of the pairs.

    Attributes:
        accuracy: the share of the pairs in which metric and people agree; each fold of the
            participants uses the epsilon that is best on the other folds.
        ci: the interval of accuracy, with the epsilons held fixed.
        epsilons: of the folds; the smallest if several are best.
        in_sample: the accuracy with the epsilon that is best on all pairs, which flatters it.
        uncalibrated: the accuracy with epsilon 0: a metric ties at equal values only.
        n: the number of pairs with both values.
        human_ties: in how many of them people see no difference; a metric that always ties gets
            human_ties / n.
    """

    accuracy: float
    ci: ConfidenceInterval
    epsilons: tuple[float, ...]
    in_sample: float
    in_sample_epsilon: float
    uncalibrated: float
    n: int
    human_ties: int
    metric_ties: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        in_sample = {"accuracy": fields["in_sample"], "epsilon": fields.pop("in_sample_epsilon")}
        fields["in_sample"] = with_reason(in_sample, self.reason if self.n == 0 else None)
        return fields


@dataclass(frozen=True, eq=False)
class Relations:
    """How metric and people relate the two sets of each of n pairs.

    Attributes:
        gaps: the absolute difference of the metric's two values.
        tied: whether people see no difference.
        right: whether people prefer the set with the higher value.
    """

    gaps: FloatArray
    tied: BoolArray
    right: BoolArray

    @classmethod
    def of(cls, difference: FloatArray, human: NDArray[np.int64]) -> Relations:
        """Compare differences of the metric with people's signs: 1 set 1 is better, -1 set 2."""
        right = (human != 0) & (np.sign(difference) == human)
        return cls(np.abs(difference), human == 0, right)

    def subset(self, chosen: BoolArray) -> Relations:
        return Relations(self.gaps[chosen], self.tied[chosen], self.right[chosen])

    def agree(self, epsilon: float | FloatArray) -> BoolArray:
        """Whether metric and people agree, (n,), with one epsilon or one for each pair."""
        return np.where(self.gaps <= epsilon, self.tied, self.right)

    def best_epsilon(self) -> float:
        """The epsilon with which most pairs agree, the smallest of several: 0, or one of the gaps.

        Between two observed gaps no pair changes, so only 0 and the gaps need to be tried. Each
        pair that an epsilon reaches changes from `right` to `tied`; the cumulative sum of these
        gains over the gaps in increasing order tries all of them at once.
        """
        gaps, place = np.unique(np.append(self.gaps, 0.0), return_inverse=True)
        gain = np.append(self.tied.astype(np.float64) - self.right, 0.0)
        gained = np.bincount(place, weights=gain).cumsum()
        return float(gaps[gained.argmax()])


def pairwise_accuracies(
    preferences: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap
) -> dict[str, PairwiseAccuracy]:
    """Measure how often a metric and people relate two sets alike, ties included.

    "preference" is against the preferences, "score" against the order of the two human scores, many
    of which are equal. The seed of `bootstrap` also assigns the participants to folds.
    """
    preferred = preferences["preferred"].to_numpy()
    scores = [preferences[name].to_numpy().astype(np.int64) for name in ("score_1", "score_2")]
    human = {
        "preference": np.select([preferred == 1, preferred == 2], [1, -1], 0),
        "score": np.sign(scores[0] - scores[1]),
    }
    difference = np.asarray(metric_difference(preferences, values), dtype=np.float64)
    present = ~np.isnan(difference)
    rows = preferences[present]
    return {
        name: _accuracy(rows, Relations.of(difference[present], signs[present]), bootstrap)
        for name, signs in human.items()
    }


def _accuracy(rows: pd.DataFrame, relations: Relations, bootstrap: Bootstrap) -> PairwiseAccuracy:
    n = len(rows)
    folds = assign_folds(rows["participant_id"], bootstrap.seed)
    n_folds = len(np.unique(folds))
    epsilons, accuracy, reason = np.zeros(0), UNDEFINED, None
    ci = bootstrap.undefined_interval(rows)
    if n == 0:
        reason = "no pair has both values"
    elif n_folds < MIN_FOLDS:
        reason = "epsilon needs a second participant to be chosen on"
    else:
        others = (relations.subset(folds != fold) for fold in range(n_folds))
        epsilons = np.array([each.best_epsilon() for each in others])
        agree = relations.agree(epsilons[folds])[:, None]
        accuracy = float(agree.mean())
        ci = bootstrap.interval(bootstrap.ratios(rows, agree, np.ones((n, 1)))[:, 0], rows)
    epsilon = relations.best_epsilon() if n else UNDEFINED
    return PairwiseAccuracy(
        accuracy=accuracy,
        ci=ci,
        epsilons=tuple(float(each) for each in epsilons),
        in_sample=float(relations.agree(epsilon).mean()) if n else UNDEFINED,
        in_sample_epsilon=epsilon,
        uncalibrated=float(relations.agree(0.0).mean()) if n else UNDEFINED,
        n=n,
        human_ties=int(relations.tied.sum()),
        metric_ties=int((relations.gaps == 0).sum()),
        reason=reason,
    )


def assign_folds(participants: pd.Series[str], seed: int) -> NDArray[np.int64]:
    """The fold, from 0, of each row: at most 5, with sizes that differ by at most one person."""
    codes, people = pd.factorize(participants, sort=True)
    order = np.random.default_rng(seed).permutation(len(people))
    return np.asarray(order[codes] % min(MAX_FOLDS, max(1, len(people))), dtype=np.int64)
