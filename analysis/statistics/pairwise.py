"""Pairwise accuracy with ties on both sides: acc_eq with tie calibration.

Deutsch, Foster and Freitag (2023, arXiv 2305.14324): a metric says of each pair which set is
better, or that they tie, which it does where its two values are no more than epsilon apart; the
accuracy is the share of the pairs in which people say the same. So metrics of two values and
metrics of a thousand are measured alike. Here a pair is a question, so two sets of one query.

The epsilon that fits the very pairs it is measured on flatters the metric. So the participants are
split into folds, and each fold's epsilon is chosen on the others; the other is given as in-sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.data.answers import metric_margin
from hsfiq.analysis.figures import UNDEFINED, figure, with_reason
from hsfiq.analysis.resampling.interval import with_interval
from hsfiq.analysis.resampling.shares import resampled_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval

FOLDS = 5
FEWEST_FOLDS = 2


@dataclass(frozen=True)
class PairwiseAccuracy:
    """acc_eq of one metric, against one human relation of the pairs.

    Attributes:
        accuracy: the share of the pairs in which metric and people agree, each fold of the
            participants by the epsilon that is best on the other folds.
        ci: the interval of accuracy, the epsilons held fixed.
        epsilons: of the folds, the smallest where several are best.
        in_sample: the accuracy by the epsilon that is best on all pairs, which flatters it.
        in_sample_epsilon: that epsilon.
        uncalibrated: the accuracy with epsilon 0, by which a metric ties at equal values alone.
        n: how many pairs there are with both values.
        human_ties: in how many of them people see no difference; a metric that always ties gets
            human_ties / n.
        metric_ties: in how many the metric's values are equal.
        reason: why figures are NaN, where they are.
    """

    accuracy: float
    ci: Interval
    epsilons: tuple[float, ...]
    in_sample: float
    in_sample_epsilon: float
    uncalibrated: float
    n: int
    human_ties: int
    metric_ties: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"accuracy", "ci", "ci_method", "epsilons", "in_sample", ...}."""
        in_sample: dict[str, object] = {
            "accuracy": figure(self.in_sample),
            "epsilon": figure(self.in_sample_epsilon),
        }
        result: dict[str, object] = {
            "accuracy": figure(self.accuracy),
            "epsilons": list(self.epsilons),
            "in_sample": with_reason(in_sample, self.reason if self.n == 0 else None),
            "uncalibrated": figure(self.uncalibrated),
            "n": self.n,
            "human_ties": self.human_ties,
            "metric_ties": self.metric_ties,
        }
        return with_interval(result, self.ci, self.reason)


@dataclass(frozen=True, eq=False)
class Relations:
    """What metric and people say of the same pairs.

    Attributes:
        gaps: (n,), how far the metric's two values are apart.
        tied: (n,), whether people see no difference.
        right: (n,), whether people prefer the set with the higher value.
    """

    gaps: NDArray[np.float64]
    tied: NDArray[np.bool_]
    right: NDArray[np.bool_]

    @classmethod
    def of(cls, metric: NDArray[np.float64], human: NDArray[np.int64]) -> Relations:
        """Compare differences of the metric with signs of people: 1 set 1 is better, -1 set 2."""
        right = (human != 0) & (np.sign(metric) == human)
        return cls(np.abs(metric), human == 0, right)

    def only(self, chosen: NDArray[np.bool_]) -> Relations:
        """Leave out the pairs that are not chosen."""
        return Relations(self.gaps[chosen], self.tied[chosen], self.right[chosen])

    def agree(self, epsilon: float | NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether metric and people say the same, (n,), by one epsilon or one for each pair."""
        return np.where(self.gaps <= epsilon, self.tied, self.right)

    def best_epsilon(self) -> float:
        """Choose the epsilon by which most pairs agree, the smallest of several.

        Between two gaps that occur no pair changes sides, so 0 and the gaps are all there is to
        try. Each pair that an epsilon reaches turns from `right` to `tied`: the sum of what that
        gains, over the gaps in rising order, is tried at once.

        Returns:
            0, or one of the gaps.
        """
        gaps, place = np.unique(np.append(self.gaps, 0.0), return_inverse=True)
        gain = np.append(self.tied.astype(np.float64) - self.right, 0.0)
        gained = np.bincount(place, weights=gain).cumsum()
        return float(gaps[gained.argmax()])


def pairwise_accuracies(
    preferences: pd.DataFrame, values: pd.Series[float], draws: Draws
) -> dict[str, PairwiseAccuracy]:
    """Measure how often a metric and people say the same of two sets, ties included.

    Args:
        preferences: (n_questions, ...) with `set_1`, `set_2`, `participant_id`, `query_id`,
            `preferred` (1, 2, 0 = tie), `score_1` and `score_2`.
        values: the metric, indexed by set_id; pairs with NaN are left out.
        draws: of the release; their seed also deals the participants into folds.

    Returns:
        The accuracy against the preferences ("preference"), and against the order of the two
        human scores ("score"), of which many are equal.
    """
    preferred = preferences["preferred"].to_numpy()
    scores = [preferences[name].to_numpy().astype(np.int64) for name in ("score_1", "score_2")]
    human = {
        "preference": np.select([preferred == 1, preferred == 2], [1, -1], 0),
        "score": np.sign(scores[0] - scores[1]),
    }
    metric = np.asarray(metric_margin(preferences, values), dtype=np.float64)
    present = ~np.isnan(metric)
    return {
        name: _accuracy(preferences[present], Relations.of(metric[present], signs[present]), draws)
        for name, signs in human.items()
    }


def _accuracy(rows: pd.DataFrame, relations: Relations, draws: Draws) -> PairwiseAccuracy:
    n = len(rows)
    folds = deal(rows["participant_id"], draws.seed)
    n_folds = len(np.unique(folds))
    epsilons, accuracy, reason = np.zeros(0), UNDEFINED, None
    drawn = np.full(draws.n_resamples, np.nan)
    if n == 0:
        reason = "no pair has both values"
    elif n_folds < FEWEST_FOLDS:
        reason = "epsilon needs a second participant to be chosen on"
    else:
        others = (relations.only(folds != fold) for fold in range(n_folds))
        epsilons = np.array([each.best_epsilon() for each in others])
        agree = relations.agree(epsilons[folds]).astype(np.float64)
        accuracy = float(agree.mean())
        drawn = resampled_shares(draws, rows, agree[:, None], np.ones((n, 1)))[:, 0]
    epsilon = relations.best_epsilon() if n else UNDEFINED
    return PairwiseAccuracy(
        accuracy=accuracy,
        ci=draws.interval(drawn, rows),
        epsilons=tuple(float(each) for each in epsilons),
        in_sample=float(relations.agree(epsilon).mean()) if n else UNDEFINED,
        in_sample_epsilon=epsilon,
        uncalibrated=float(relations.agree(0.0).mean()) if n else UNDEFINED,
        n=n,
        human_ties=int(relations.tied.sum()),
        metric_ties=int((relations.gaps == 0).sum()),
        reason=reason,
    )


def deal(participants: pd.Series[str], seed: int) -> NDArray[np.int64]:
    """Deal participants into folds of equal size, give or take one.

    Args:
        participants: (n,), one for each row, in any order.
        seed: of the dealing.

    Returns:
        (n,), the fold of each row, from 0: as many folds as participants, but 5 at most.
    """
    codes, people = pd.factorize(participants, sort=True)
    order = np.random.default_rng(seed).permutation(len(people))
    return np.asarray(order[codes] % min(FOLDS, max(1, len(people))), dtype=np.int64)
