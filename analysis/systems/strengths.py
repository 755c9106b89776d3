"""Bradley-Terry strengths with ties and the effect of the side on which a system was shown.

Of a question that shows system i as set 1 and system j as set 2,

    P(set 1 preferred) = exp(x / 2) / D,  P(set 2 preferred) = exp(-x / 2) / D,  P(tie) = nu / D,

with x = s_i - s_j + side and D the sum of the three terms. The strengths s and `side` are log
odds; the strengths are centred at 0. This is Davidson's model of ties (1970), with the effect of
the order from Davidson and Beaver (1977). Without a tie it is logistic regression. The log-
likelihood is concave, and Newton's method finds its maximum, if there is one, for all resamples
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import exp

import evalica
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse.csgraph import connected_components

from hsfiq.analysis.json_results import (
    UNDEFINED,
    BoolArray,
    FloatArray,
    JsonRecord,
    json_number,
    with_reason,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, indicator_matrix
from hsfiq.analysis.resampling.intervals import CORRELATION, LEVEL, ConfidenceInterval
from hsfiq.text import first_few

# Bradley-Terry strengths of systems, from how often each was preferred to each other.
#
# P(i is preferred to j) = exp(s_i) / (exp(s_i) + exp(s_j)); a tie counts as half a win for both.
# The strengths s are on the log scale and centred at 0, so a difference of 1 means odds of 2.72.
# They exist if every system beat every other one at least once, directly or through others (Ford
# 1957); otherwise the likelihood has no maximum.

TOLERANCE = 1e-9  # of the fit
MAX_STEPS = 10_000
EQUAL = 1e-6
"""Log-strengths that differ by at most this are equal: a fit ends this close to its optimum."""


def count_wins(
    first: NDArray[np.intp], second: NDArray[np.intp], share: FloatArray, n_systems: int
) -> FloatArray:
    """Count how often system i was preferred to system j: [i, j] of (n_systems, n_systems).

    The sides are (n,) system numbers; `share` (n,) is 1 if the first won, 0 if not, 0.5 for a tie.
    """
    wins = np.zeros((n_systems, n_systems))
    np.add.at(wins, (first, second), share)
    np.add.at(wins, (second, first), 1 - share)
    return wins


def resampled_wins(
    rows: pd.DataFrame,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    share: FloatArray,
    n_systems: int,
    bootstrap: Bootstrap,
) -> FloatArray:
    """Count wins in each resample, (length, n_systems, n_systems); see `count_wins`."""
    systems = np.arange(n_systems)
    wins = np.empty((bootstrap.length, n_systems, n_systems))
    for system in systems:  # one winner at a time: all pairs at once would need much memory
        won = np.where(first == system, share, 0.0)[:, None] * (second[:, None] == systems)
        won += np.where(second == system, 1 - share, 0.0)[:, None] * (first[:, None] == systems)
        wins[:, system] = bootstrap.totals(rows, won)
    return wins


def log_strengths(wins: FloatArray) -> FloatArray:
    """Fit centred log-strengths, (n_systems,), to `count_wins`; all NaN if they do not exist."""
    n_systems = len(wins)
    if n_systems < 2 or connected_components(wins > 0, connection="strong")[0] > 1:
        return np.full(n_systems, np.nan)
    winners, losers = np.nonzero(wins)
    fitted = evalica.bradley_terry(
        winners.tolist(),
        losers.tolist(),
        [evalica.Winner.X] * len(winners),
        weights=wins[winners, losers].tolist(),
        tolerance=TOLERANCE,
        limit=MAX_STEPS,
    )
    strengths: FloatArray = np.log(fitted.scores.reindex(np.arange(n_systems)).to_numpy())
    strengths -= strengths.mean()
    return strengths


def resampled_log_strengths(wins: FloatArray) -> FloatArray:
    """`log_strengths` of many resamples (b, n_systems, n_systems) at once, (b, n_systems).

    By Newman's iteration (2023, eq. 27).
    """
    strengths = np.full(wins.shape[:2], np.nan)
    unfinished = np.flatnonzero(_all_connected(wins))
    strengths[unfinished] = 0.0
    for _ in range(MAX_STEPS):
        if not len(unfinished):
            break
        won, power = wins[unfinished], np.exp(strengths[unfinished])
        for system in range(wins.shape[1]):  # one after the other: all at once may oscillate
            shared = 1 / (power[:, [system]] + power)
            gained = (won[:, system] * power * shared).sum(axis=1)
            power[:, system] = gained / (won[:, :, system] * shared).sum(axis=1)
        stepped = np.log(power)
        stepped -= stepped.mean(axis=1, keepdims=True)
        moved = np.abs(stepped - strengths[unfinished]).max(axis=1)
        strengths[unfinished] = stepped
        unfinished = unfinished[moved > TOLERANCE]
    return strengths


def why_undefined(wins: FloatArray, names: Sequence[str]) -> str | None:
    """Explain why strengths do not exist; None if they do. See `count_wins` for `wins`."""
    if len(names) < 2:
        return f"strengths need 2 systems; there {'is 1' if names else 'is none'}"
    n_parts, part = connected_components(wins > 0, directed=False)
    if n_parts > 1:
        first = [name for name, number in zip(names, part, strict=True) if number == part[0]]
        return f"no question compares {first_few(first)} with the other systems"
    n_groups, group = connected_components(wins > 0, connection="strong")
    for number in range(n_groups):
        inside = group == number
        if n_groups > 1 and not wins[np.ix_(~inside, inside)].any():
            best = [name for name, is_inside in zip(names, inside, strict=True) if is_inside]
            return (
                f"{first_few(best)} never lost to the other systems, so its strength is unbounded"
            )
    return None


def kendall_tau(first: FloatArray, second: FloatArray) -> FloatArray:
    """Kendall's tau-b of strengths (..., n_systems); NaN if one is undefined or all are equal."""
    upper = np.triu_indices(first.shape[-1], 1)

    def signs(strengths: FloatArray) -> FloatArray:
        differences = (strengths[..., :, None] - strengths[..., None, :])[..., *upper]
        return np.where(np.abs(differences) <= EQUAL, 0.0, np.sign(differences))

    x, y = signs(first), signs(second)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: FloatArray = (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return tau


def _all_connected(wins: FloatArray) -> BoolArray:
    """Whether wins lead from every system to every other one, (b, n, n) -> (b,)."""
    reached = (wins > 0) | np.eye(wins.shape[1], dtype=bool)
    for _ in range(wins.shape[1].bit_length()):  # each squaring doubles the length of the chains
        reached = (reached.astype(np.float64) @ reached) > 0
    return np.asarray(reached.all(axis=(1, 2)) & (wins.shape[1] > 1))


# Systems by strength: people's order, a metric's order, and how well the two agree.


@dataclass(frozen=True, eq=False)
class Strengths:
    """The Bradley-Terry strengths of all systems.

    Attributes:
        estimates: by system, its log-strength; n counts the comparisons of all systems.
        fitted: (n_systems,) the log-strengths.
        resampled: (length, n_systems) those of the study and of each resample, NaN where undefined.
    """

    estimates: Mapping[str, Estimate]
    fitted: FloatArray
    resampled: FloatArray
    reason: str | None


@dataclass(frozen=True)
class OrderAgreement(JsonRecord):
    """The agreement of two orders of the systems.

    Attributes:
        tau: Kendall's tau-b over the systems: 1 is the same order, -1 the reverse.
        swapped: the pairs in opposite orders, people's better system first.
    """

    tau: float
    ci: ConfidenceInterval | None
    n_systems: int
    swapped: tuple[tuple[str, str], ...] = ()
    reason: str | None = None


def strengths(
    rows: pd.DataFrame, share: FloatArray, names: Sequence[str], bootstrap: Bootstrap
) -> Strengths:
    """Fit the systems' strengths, in the study and in each resample.

    The rows have the system numbers `first` and `second`; `share` is 1 if the first was preferred,
    0 if the second was, 0.5 for a tie. All are NaN, with a reason, if some systems were never
    compared or never lost.
    """
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    wins = count_wins(first, second, share, len(names))
    reason = why_undefined(wins, names)
    fitted = log_strengths(wins)
    resampled = np.full((bootstrap.length, len(names)), np.nan)
    if reason is None:
        all_wins = resampled_wins(rows, first, second, share, len(names), bootstrap)
        resampled = resampled_log_strengths(all_wins)
    estimates = {
        name: Estimate(
            float(fitted[number]),
            len(rows),
            None if reason else bootstrap.interval(resampled[:, number], rows),
            reason,
        )
        for number, name in enumerate(names)
    }
    return Strengths(estimates, fitted, resampled, reason)


def order_agreement(
    human: Strengths, predicted: Strengths, names: Sequence[str], bootstrap: Bootstrap
) -> OrderAgreement:
    """Compare a metric's order with people's; undefined if strengths are, or if all are equal."""
    for whose, each in (("people's", human), ("the metric's", predicted)):
        equal = np.ptp(each.fitted) <= EQUAL
        reason = "all systems are equally strong" if equal else each.reason
        if reason is not None:
            return OrderAgreement(UNDEFINED, None, len(names), (), f"{whose} order: {reason}")
    tau = float(kendall_tau(human.fitted, predicted.fitted))
    resampled = kendall_tau(human.resampled, predicted.resampled)
    by_people = np.argsort(-human.fitted, kind="stable")
    swapped = tuple(
        (names[better], names[worse])
        for better, worse in combinations(by_people.tolist(), 2)
        if human.fitted[better] - human.fitted[worse] > EQUAL
        and predicted.fitted[worse] - predicted.fitted[better] > EQUAL
    )
    return OrderAgreement(
        tau, bootstrap.interval(resampled, bounds=CORRELATION), len(names), swapped
    )


DAVIDSON_STEPS = 60
LONGEST_STEP = 2.0  # of one parameter: longer ones may overshoot
CONVERGED = 1e-8
LARGEST = 20.0
"""Log odds beyond this grow without end: the likelihood has no maximum."""
RIDGE, FLAT = 1e-12, 1e-9
"""Of the curvature of the log-likelihood: the added value, and the limit of zero."""
NO_MAXIMUM = "the likelihood has no maximum: a side, or a system on one side, never lost"
BLOCK_SIZE = 2_000_000  # numbers held in memory at once
NORMAL_QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Parameter(Estimate):
    """A parameter of the model, in log odds; n is the number of answers.

    Attributes:
        wald: value -+ 1.96 standard errors; it assumes independent answers.
    """

    wald: tuple[float, float] = (UNDEFINED, UNDEFINED)


@dataclass(frozen=True)
class StrengthsAndSide(JsonRecord):
    """The effects of systems, the side and ties on the preferences.

    Attributes:
        strength: by system, centred at 0.
        side: the log odds of set 1 between two equal systems.
        log_nu: log nu; NaN, with a reason, if no answer is a tie.
        resampled: (length, n_systems) the strengths and those of each resample, NaN if undefined.
    """

    strength: Mapping[str, Parameter] = field(default_factory=dict)
    side: Parameter = field(default_factory=lambda: Parameter(UNDEFINED, 0))
    log_nu: Parameter = field(default_factory=lambda: Parameter(UNDEFINED, 0))
    reason: str | None = None
    resampled: FloatArray = field(
        default_factory=lambda: np.zeros((0, 0)), repr=False, compare=False
    )

    def strengths(self) -> Strengths:
        """The strengths as `rank_ranges` takes them."""
        estimates = {
            name: Estimate(each.value, each.n, each.ci, each.reason)
            for name, each in self.strength.items()
        }
        fitted = np.array([each.value for each in self.strength.values()])
        return Strengths(estimates, fitted, self.resampled, self.reason)

    @property
    def set_1_rate(self) -> float:
        """P(set 1 preferred) between two equal systems, ties left out."""
        return 1 / (1 + exp(-self.side.value))

    def to_json(self) -> dict[str, object]:
        if self.reason is not None:
            return with_reason({"strength": None, "side": None, "log_nu": None}, self.reason)
        return {
            "strength": {name: each.to_json() for name, each in self.strength.items()},
            "side": {**self.side.to_json(), "set_1_rate": json_number(self.set_1_rate)},
            "log_nu": self.log_nu.to_json(),
        }


@dataclass(frozen=True, eq=False)
class Design:
    """The contribution of each kind of answer to the log-likelihood: its utility is linear.

    Attributes:
        utilities: (n_pairs, n_outcomes, n_parameters): of each ordered pair of systems, the
            coefficients of the outcomes "set 1", "set 2" and, if any answer is one, "tie".
        strengths: (n_systems, n_systems - 1), strengths from the first parameters.
    """

    utilities: FloatArray
    strengths: FloatArray

    @classmethod
    def of_pairs(cls, pairs: NDArray[np.intp], n_systems: int, *, has_ties: bool) -> Design:
        """Of the (n_pairs, 2) systems that were shown as set 1 and set 2."""
        contrasts = np.linalg.svd(np.ones((1, n_systems)))[2][1:].T  # orthogonal to the mean
        n_outcomes, n_parameters = 2 + has_ties, n_systems + has_ties
        utilities = np.zeros((len(pairs), n_outcomes, n_parameters))
        advantage = contrasts[pairs[:, 0]] - contrasts[pairs[:, 1]]
        for outcome, sign in enumerate((0.5, -0.5)):
            utilities[:, outcome, : n_systems - 1] = sign * advantage
            utilities[:, outcome, n_systems - 1] = sign
        if has_ties:
            utilities[:, 2, n_systems] = 1.0
        return cls(utilities, contrasts)

    def is_identified(self) -> bool:
        """Whether the differences of the utilities determine every parameter."""
        differences = (self.utilities[:, 1:] - self.utilities[:, :1]).reshape(
            -1, self.utilities.shape[2]
        )
        return bool(np.linalg.matrix_rank(differences) == self.utilities.shape[2])

    def fit(self, counts: FloatArray) -> FloatArray:
        """Maximise the likelihood for each of (b, n_pairs, n_outcomes) counts.

        Returns (b, n_parameters); NaN where there is no maximum.
        """
        fitted = np.zeros((len(counts), self.utilities.shape[2]))
        unfinished = np.arange(len(counts))
        for _ in range(DAVIDSON_STEPS):
            slope, information = self.slope_and_information(counts[unfinished], fitted[unfinished])
            # The ridge keeps the matrix invertible where a resample lacks a system.
            ridge = RIDGE * (1 + np.trace(information, axis1=1, axis2=2))[:, None, None]
            ridge = ridge * np.eye(information.shape[1])
            step = np.linalg.solve(information + ridge, slope[..., None])[..., 0]
            longest = np.abs(step).max(axis=1, keepdims=True)
            step *= np.minimum(1.0, LONGEST_STEP / np.maximum(longest, CONVERGED))
            fitted[unfinished] += step
            lost = unfinished[np.abs(fitted[unfinished]).max(axis=1) > LARGEST]
            fitted[lost] = np.nan
            moving = longest[:, 0] > CONVERGED
            unfinished = np.setdiff1d(unfinished[moving], lost)
            if not len(unfinished):
                break
        fitted[unfinished] = np.nan
        information = self.slope_and_information(counts, np.nan_to_num(fitted))[1]
        curvature = np.linalg.eigvalsh(information)
        fitted[curvature[:, 0] < FLAT * (1 + curvature[:, -1])] = np.nan
        return fitted

    def slope_and_information(
        self, counts: FloatArray, parameters: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The log-likelihood's gradient, (b, m), and its negative second derivatives, (b, m, m)."""
        n_pairs, n_outcomes, m = self.utilities.shape
        flat = self.utilities.reshape(-1, m)
        utility = (parameters @ flat.T).reshape(-1, n_pairs, n_outcomes)
        probability = np.exp(utility - utility.max(axis=2, keepdims=True))
        probability /= probability.sum(axis=2, keepdims=True)
        totals = counts.sum(axis=2)
        expected = totals[..., None] * probability
        slope = (counts - expected).reshape(len(counts), -1) @ flat
        squares = (flat[:, :, None] * flat[:, None, :]).reshape(len(flat), -1)
        second = (expected.reshape(len(counts), -1) @ squares).reshape(-1, m, m)
        mean = np.einsum("bro,rom->brm", probability, self.utilities)
        information = second - (mean * totals[..., None]).transpose(0, 2, 1) @ mean
        return slope, information


def strengths_and_side(
    rows: pd.DataFrame, names: Sequence[str], bootstrap: Bootstrap
) -> StrengthsAndSide:
    """Fit the model to questions with the system numbers `first` and `second` and `preferred`.

    Undefined, with a reason, where `log_strengths` is, and if the side cannot be separated from the
    systems, such as when one of two systems was always set 1.
    """
    shown = rows[["first", "second"]].to_numpy(np.intp).reshape(-1, 2)
    outcome = np.choose(rows["preferred"].to_numpy(np.intp), (2, 0, 1))
    share = np.choose(outcome, (1.0, 0.0, 0.5))
    wins = count_wins(shown[:, 0], shown[:, 1], share, len(names))
    reason = why_undefined(wins, names)
    if reason is not None:
        return StrengthsAndSide(reason=reason)
    numbers, pair = np.unique(shown[:, 0] * len(names) + shown[:, 1], return_inverse=True)
    pairs = np.column_stack(np.divmod(numbers, len(names)))
    has_ties = bool((outcome == 2).any())
    design = Design.of_pairs(pairs, len(names), has_ties=has_ties)
    if not design.is_identified():
        return StrengthsAndSide(reason=_why_side_is_unknown(pairs, names))
    n_outcomes = 2 + has_ties
    cells = indicator_matrix(pair * n_outcomes + outcome, len(pairs) * n_outcomes)
    counts = cells.sum(axis=0).reshape(1, len(pairs), n_outcomes)
    (fitted,) = design.fit(counts)
    if np.isnan(fitted).any():
        return StrengthsAndSide(reason=NO_MAXIMUM)
    information = design.slope_and_information(counts, fitted[None])[1][0]
    resampled = _resampled(design, bootstrap.totals(rows, cells))
    covariance = np.linalg.inv(information)
    matrix = np.zeros((len(names) + 1 + has_ties, len(fitted)))
    matrix[: len(names), : len(names) - 1] = design.strengths
    matrix[len(names) :, len(names) - 1 :] = np.eye(1 + has_ties)
    values, all_resampled = matrix @ fitted, resampled @ matrix.T
    errors = np.sqrt(np.diag(matrix @ covariance @ matrix.T))
    parameters = [
        Parameter(
            float(value),
            len(rows),
            bootstrap.interval(column, rows),
            wald=(float(value - NORMAL_QUANTILE * error), float(value + NORMAL_QUANTILE * error)),
        )
        for value, error, column in zip(values, errors, all_resampled.T, strict=True)
    ]
    no_ties = Parameter(UNDEFINED, len(rows), reason="no answer is a tie")
    return StrengthsAndSide(
        strength=dict(zip(names, parameters, strict=False)),
        side=parameters[len(names)],
        log_nu=parameters[-1] if has_ties else no_ties,
        resampled=all_resampled[:, : len(names)],
    )


def strengths_from_counts(
    kinds: NDArray[np.intp], counts: FloatArray, n_systems: int
) -> FloatArray:
    """Fit the strengths to numbers of answers of each kind, without resampling, (b, n_systems).

    Args:
        kinds: (n_kinds, 3): the systems shown as set 1 and as set 2, and `preferred`.
        counts: (b, n_kinds).

    Returns:
        NaN where the likelihood has no maximum.
    """
    numbers, pair = np.unique(kinds[:, 0] * n_systems + kinds[:, 1], return_inverse=True)
    pairs = np.column_stack(np.divmod(numbers, n_systems))
    design = Design.of_pairs(pairs, n_systems, has_ties=bool((kinds[:, 2] == 0).any()))
    table = np.zeros((len(counts), *design.utilities.shape[:2]))
    table[:, pair, np.choose(kinds[:, 2], (2, 0, 1))] = counts
    return np.asarray(design.fit(table)[:, : n_systems - 1] @ design.strengths.T)


def _resampled(design: Design, totals: FloatArray) -> FloatArray:
    counts = totals.reshape(len(totals), *design.utilities.shape[:2])
    length = max(1, BLOCK_SIZE // max(1, design.utilities.size))
    blocks = [design.fit(counts[start : start + length]) for start in range(0, len(counts), length)]
    return np.concatenate(blocks)


def _why_side_is_unknown(pairs: NDArray[np.intp], names: Sequence[str]) -> str:
    always_first = [
        names[number] for number in np.unique(pairs) if number not in set(pairs[:, 1].tolist())
    ]
    if always_first:
        return f"{first_few(always_first)} was always set 1, so side and system cannot be separated"
    return "the side follows from the systems shown, so the two cannot be separated"
