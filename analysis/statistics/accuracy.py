"""Pairwise accuracy with ties on both sides: acc_eq with tie calibration.

Deutsch, Foster and Freitag (2023, arXiv 2305.14324): a metric predicts for each pair which set is
better, or a tie if its two values differ by at most epsilon; the accuracy is the share of the pairs
in which people agree with the prediction. So metrics with two values and metrics with a thousand
are measured alike. Here a pair is a question, that is, two sets of one query.

Accuracy is optimistic if epsilon is fitted to the evaluated pairs. So the participants are
split into folds and the epsilon of each fold is chosen on the other folds; the fitted one is
reported as in-sample.

The base rate is the accuracy of an uninformative metric, which ties on all pairs or on none:
max(ties, (1 - ties) / 2). Out of sample, the other folds determine which of the two. If people
have to choose a set, a metric cannot agree on a tie, and acc_eq would only count the metric's own;
it is not computed then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.data.columns import metric_difference
from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap, errors_of_mean, group_means
from hsfiq.analysis.resampling.intervals import CORRELATION, RATE, ConfidenceInterval
from hsfiq.analysis.statistics import preference

# Accuracy by margin: is a metric correct more often if its two values differ more?
#
# A metric whose large differences are no more reliable than its small ones does not measure
# relevance, however good its preference rate. The same is measured by people's scores: the further
# apart their two scores, the clearer the pair, and the worse an error of the metric.

BINS = 5


@dataclass(frozen=True)
class MarginBin(JsonRecord):
    """The pairs with a margin in [low, high], and the share whose higher set is preferred."""

    low: float
    high: float
    accuracy: float
    ci: ConfidenceInterval
    n: int


@dataclass(frozen=True)
class Trend(JsonRecord):
    """Spearman's rho of margin and correctness, by pair: above 0 if accuracy rises with the margin.

    In the interval the ranks among all pairs are held fixed.
    """

    rho: float
    ci: ConfidenceInterval
    reason: str | None = None


@dataclass(frozen=True)
class AccuracyByMargin(JsonRecord):
    """Accuracy in bins of increasing margin, over n pairs with a preference and different values.

    The trend is over all pairs, not over the bins.
    """

    bins: tuple[MarginBin, ...]
    trend: Trend
    n: int
    reason: str | None = None


@dataclass(frozen=True)
class Margins(JsonRecord):
    """Accuracy by the difference between the two sets, for the metric and for people.

    Attributes:
        by_metric: in 5 bins of equal size of |m(set 1) - m(set 2)|; equal margins share a bin, so
            some may be empty.
        by_score: at each |score 1 - score 2|.
    """

    by_metric: AccuracyByMargin
    by_score: AccuracyByMargin


def margins(preferences: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap) -> Margins:
    """Measure a metric's accuracy by margin, over the pairs of the symmetric rate."""
    pairs, set_1, (difference,) = preference.usable_pairs(
        preferences, metric_difference(preferences, values)
    )
    terms = preference.symmetric(difference, set_1)
    rows, right = pairs[terms.counted], terms.hits[terms.counted] == 1
    metric_margin = np.abs(difference[terms.counted])
    score_margin = (rows["score_1"] - rows["score_2"]).abs().to_numpy(dtype=np.float64)
    score_bins = score_margin.astype(np.int64)
    return Margins(
        by_metric=_accuracies(rows, metric_margin, equal_bins(metric_margin), right, bootstrap),
        by_score=_accuracies(rows, score_margin, score_bins, right, bootstrap),
    )


def equal_bins(margin: FloatArray) -> NDArray[np.int64]:
    """Assign each margin to one of 5 bins by its mid-rank, so that equal margins share a bin."""
    doubled = np.rint(2 * stats.rankdata(margin)).astype(np.int64)  # mid-ranks may be halves
    return np.asarray((doubled - 1) * BINS // max(1, 2 * len(margin)), dtype=np.int64)


def _accuracies(
    rows: pd.DataFrame,
    margin: FloatArray,
    bin_numbers: NDArray[np.int64],
    right: BoolArray,
    bootstrap: Bootstrap,
) -> AccuracyByMargin:
    if len(rows) == 0:
        reason = "no pair has a preference and two different values"
        trend = Trend(UNDEFINED, bootstrap.undefined_interval(rows), reason)
        return AccuracyByMargin((), trend, 0, reason)
    levels = np.unique(bin_numbers).tolist()
    shares = group_means(rows, right.astype(np.float64), bin_numbers, levels, bootstrap, RATE)
    bins = tuple(
        MarginBin(
            low=float(margin[bin_numbers == level].min()),
            high=float(margin[bin_numbers == level].max()),
            accuracy=share.value,
            ci=share.ci or bootstrap.undefined_interval(rows),
            n=share.n,
        )
        for level, share in shares.items()
    )
    return AccuracyByMargin(bins, _trend(rows, margin, right, bootstrap), len(rows))


def _trend(rows: pd.DataFrame, margin: FloatArray, right: BoolArray, bootstrap: Bootstrap) -> Trend:
    reason = None
    if margin.min() == margin.max():
        reason = "all margins are equal"
    elif right.all() or not right.any():
        reason = f"the metric is {'correct' if right.all() else 'wrong'} on every pair"
    if reason is not None:
        return Trend(UNDEFINED, bootstrap.undefined_interval(rows), reason)
    ranks = stats.rankdata(margin) - (len(margin) + 1) / 2
    columns = np.stack([np.ones(len(ranks)), ranks, right, ranks**2, ranks * right], axis=1)
    ci = bootstrap.interval(
        _correlations(bootstrap.totals(rows, columns)), rows, bounds=CORRELATION
    )
    return Trend(float(_correlations(columns.sum(axis=0)[None])[0]), ci)


def _correlations(sums: FloatArray) -> FloatArray:
    """Correlate ranks r with c, 1 if right and 0 if not, given sums (b, 5) of 1, r, c, r^2, rc."""
    n, r, c, squares, product = sums.T
    spread = (n * squares - r**2) * (n * c - c**2)
    root = np.sqrt(np.where(spread > 0, spread, np.nan))
    return np.asarray((n * product - r * c) / root)


MAX_FOLDS = 5
MIN_FOLDS = 2
NO_TIES_ALLOWED = "participants had to prefer one of the sets, so no metric tie could be correct"
NO_TIES = "no participant chose neither set, so no metric tie could be correct"


@dataclass(frozen=True)
class PairwiseAccuracy(JsonRecord):
    """acc_eq of one metric, against one human relation of the pairs.

    Attributes:
        accuracy: the share of the pairs in which metric and people agree; each fold of the
            participants uses the epsilon that is best on the other folds.
        ci: the interval of accuracy, with the epsilons held fixed.
        epsilons: of the folds; the smallest if several are best.
        base_rate: the accuracy of an uninformative metric, chosen on the other folds, too.
        in_sample: the accuracy with the epsilon that is best on all pairs, which is optimistic.
        in_sample_base_rate: max(ties, (1 - ties) / 2).
        uncalibrated: the accuracy with epsilon 0: a metric ties at equal values only.
        n: the number of pairs with both values.
        human_ties: the number of pairs in which people see no difference.
    """

    accuracy: float
    ci: ConfidenceInterval
    base_rate: float
    epsilons: tuple[float, ...]
    in_sample: float
    in_sample_epsilon: float
    in_sample_base_rate: float
    uncalibrated: float
    n: int
    human_ties: int
    metric_ties: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        in_sample = {
            "accuracy": fields["in_sample"],
            "epsilon": fields.pop("in_sample_epsilon"),
            "base_rate": fields.pop("in_sample_base_rate"),
        }
        is_undefined = fields["in_sample"] is None
        fields["in_sample"] = with_reason(in_sample, self.reason if is_undefined else None)
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
    preferences: pd.DataFrame,
    values: pd.Series[float],
    bootstrap: Bootstrap,
    *,
    ties_allowed: bool | None = None,
) -> dict[str, PairwiseAccuracy]:
    """Measure how often a metric and people agree on the relation of two sets, ties included.

    "preference" is against the preferences, "score" against the order of the two human scores, many
    of which are equal. The seed of `bootstrap` also assigns the participants to folds.
    `ties_allowed` is whether people could choose neither set; None if unknown.
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
    forced = {"preference": forced_choice(preferred, ties_allowed=ties_allowed), "score": None}
    return {
        name: _accuracy(
            rows, Relations.of(difference[present], signs[present]), bootstrap, forced[name]
        )
        for name, signs in human.items()
    }


def forced_choice(preferred: NDArray[np.int64], *, ties_allowed: bool | None) -> str | None:
    """Why people could not choose neither set (0), as far as is known; None if they could."""
    if ties_allowed or (preferred == 0).any():
        return None
    if ties_allowed is None:
        return f"{NO_TIES}; the release does not record whether it was allowed"
    return NO_TIES_ALLOWED


def _accuracy(
    rows: pd.DataFrame, relations: Relations, bootstrap: Bootstrap, forced: str | None
) -> PairwiseAccuracy:
    n = len(rows)
    folds = assign_folds(rows["participant_id"], bootstrap.seed)
    n_folds = len(np.unique(folds))
    epsilons, accuracy, base_rate, reason = np.zeros(0), UNDEFINED, UNDEFINED, None
    ci = bootstrap.undefined_interval(rows)
    if n == 0:
        reason = "no pair has both values"
    elif forced is not None:
        reason = forced
    elif n_folds < MIN_FOLDS:
        reason = "the choice of epsilon needs a second participant"
    else:
        others = [relations.subset(folds != fold) for fold in range(n_folds)]
        epsilons = np.array([each.best_epsilon() for each in others])
        ties = np.array([each.tied.mean() for each in others])[folds]
        always_tie = ties >= (1 - ties) / 2
        base_rate = float(np.where(always_tie, relations.tied, ~relations.tied / 2).mean())
        agree = relations.agree(epsilons[folds])
        accuracy = float(agree.mean())
        errors = errors_of_mean(agree, np.ones(n))
        ci = bootstrap.mean_interval(accuracy, rows, errors, bounds=RATE)
    is_defined = n > 0 and forced is None
    epsilon = relations.best_epsilon() if is_defined else UNDEFINED
    share_tied = float(relations.tied.mean()) if is_defined else UNDEFINED
    return PairwiseAccuracy(
        accuracy=accuracy,
        ci=ci,
        base_rate=base_rate,
        epsilons=tuple(float(each) for each in epsilons),
        in_sample=float(relations.agree(epsilon).mean()) if is_defined else UNDEFINED,
        in_sample_epsilon=epsilon,
        in_sample_base_rate=max(share_tied, (1 - share_tied) / 2),
        uncalibrated=float(relations.agree(0.0).mean()) if is_defined else UNDEFINED,
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
