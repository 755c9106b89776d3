"""Bradley-Terry strengths with ties and with the side on which a system was shown.

Of a question that shows system i as set 1 and system j as set 2,

    P(set 1 preferred) = exp(x / 2) / D,  P(set 2 preferred) = exp(-x / 2) / D,  P(tie) = nu / D,

with x = s_i - s_j + side and D the sum of the three terms. The strengths s and `side` are log odds;
the strengths are centred at 0. This is Davidson's model of ties (1970), with the effect of the
order from Davidson and Beaver (1977). Without a tie it is logistic regression. The log-likelihood
is concave, and Newton's method finds its maximum, if there is one, for all resamples at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.errors import first_few
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap, indicator_matrix
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import LEVEL
from hsfiq.analysis.systems.bradley_terry import count_wins, why_undefined
from hsfiq.analysis.systems.ranking import Strengths

MAX_STEPS = 60
LONGEST_STEP = 2.0  # of one parameter: longer ones may overshoot
CONVERGED = 1e-8
LARGEST = 20.0
"""Log odds beyond this grow without end: the likelihood has no maximum."""
RIDGE, FLAT = 1e-12, 1e-9
"""Of the curvature of the log-likelihood: what is added, and what is as good as none."""
NO_MAXIMUM = "the likelihood has no maximum: a side, or a system on one side, never lost"
BLOCK_SIZE = 2_000_000  # numbers held in memory at once
NORMAL_QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Parameter(JsonRecord):
    """A parameter of the model, in log odds.

    Attributes:
        ci: by resampling whole clusters.
        wald: value -+ 1.96 standard errors; it assumes independent answers.
        n: the number of answers.
        reason: why everything is NaN.
    """

    value: float
    n: int
    ci: ConfidenceInterval | None = None
    wald: tuple[float, float] = (UNDEFINED, UNDEFINED)
    reason: str | None = None


@dataclass(frozen=True)
class StrengthsAndSide(JsonRecord):
    """What systems, the side and ties contribute to the preferences.

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
    """What each kind of answer adds to the log-likelihood: its utility is linear.

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
        for _ in range(MAX_STEPS):
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

    Undefined, with a reason, where `log_strengths` is, and if the side cannot be told from the
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
            (float(value - NORMAL_QUANTILE * error), float(value + NORMAL_QUANTILE * error)),
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
