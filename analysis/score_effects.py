"""A model of the scores of a release: the effects of systems, sides, participants and triplets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import exp, pi

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse, stats
from scipy.special import expit

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value, with_reason
from hsfiq.analysis.resampling.intervals import LEVEL

# An ordinal mixed model with two crossed random effects, by the Laplace approximation.
#
# A score of level y has P(y <= k) = 1 / (1 + exp(x - c_k)), with
#
#     x = fixed effects + sd_1 * a[person] + sd_2 * b[triplet],    a, b ~ N(0, 1) independently.
#
# The likelihood integrates over all a and b. Laplace's method replaces the integrand by a normal
# density around its maximum (Tierney and Kadane 1986; cumulative link mixed models: Tutz and
# Hennevogl 1996): the log-likelihood is then log p(y | a, b) - |a|^2 / 2 - |b|^2 / 2 at the
# maximum, less half the log determinant of the negative second derivatives. These are diagonal for
# either effect alone, so the longer effect is eliminated and only a matrix of the shorter one is
# factorised. A triplet may have two scores only, for which the approximation is poor: for the
# longer effect the next term of the expansion is added (Raudenbush, Yang and Yosef 2000), without
# which its standard deviation would be estimated too low.

Codes = NDArray[np.intp]

MAX_STEPS = 100  # of Newton's method for the random effects
CONVERGED = 1e-9
SMALLEST = 1e-300  # of a probability, before its logarithm
GRADIENT_TOLERANCE = 1e-2  # of the log-likelihood's slope: far below one standard error
DIFFERENCE = 1e-3  # step of the second derivatives
LARGEST_ERROR = 5.0
"""A fixed effect with a larger standard error grows without end: its odds are e^5 or e^-5."""


@dataclass(frozen=True, eq=False)
class OrdinalData:
    """Scores with their explanatory variables.

    Attributes:
        level: (n,) from 0 to n_levels - 1; each occurs.
        fixed: (n, p), of full rank, without a constant.
        person, triplet: (n,) numbers from 0.
    """

    level: Codes
    fixed: FloatArray
    person: Codes
    triplet: Codes

    @property
    def n_levels(self) -> int:
        return int(self.level.max()) + 1


@dataclass(frozen=True, eq=False)
class OrdinalFit:
    """The maximum of the likelihood.

    Attributes:
        fixed: (p,) log odds.
        sd: (2,) of the persons and the triplets, on the same scale.
        thresholds: (n_levels - 1,).
        covariance: of `fixed` and `sd`, (p + 2, p + 2), from the curvature of the log-likelihood.
    """

    fixed: FloatArray
    sd: FloatArray
    thresholds: FloatArray
    log_likelihood: float
    covariance: FloatArray


class NoMaximum(ValueError):
    """The likelihood has no maximum, or its curvature there is not negative."""


class LaplaceLikelihood:
    """The log-likelihood of one set of scores, for any parameters.

    The parameters are (p + 2 + n_levels - 1,): fixed effects, both standard deviations, the first
    threshold, and the logarithms of the distances to the next ones. The likelihood does not depend
    on the sign of a standard deviation, so 0 is no boundary.
    """

    def __init__(self, data: OrdinalData) -> None:
        self.data = data
        self.n_fixed = data.fixed.shape[1]
        sizes = [int(codes.max()) + 1 for codes in (data.person, data.triplet)]
        # The effect with more values comes second and is eliminated.
        self.is_exchanged = sizes[0] > sizes[1]
        codes = [data.person, data.triplet]
        self.few, self.many = reversed(codes) if self.is_exchanged else codes
        self.n_few, self.n_many = min(sizes), max(sizes)
        cells, self.cell = np.unique(self.few * self.n_many + self.many, return_inverse=True)
        of_few, of_many = np.divmod(cells, self.n_many)
        shape = (self.n_few, self.n_many)
        self.crossed = sparse.csr_array((np.ones(len(cells)), (of_few, of_many)), shape=shape)
        self.effects = np.zeros(self.n_few + self.n_many)  # where the last search ended

    def start(self) -> FloatArray:
        """Parameters to begin with: no fixed effect, and thresholds of the observed shares."""
        counts = np.bincount(self.data.level)
        share = counts.cumsum()[:-1] / counts.sum()
        thresholds = np.log(share / (1 - share))
        gaps = np.log(np.diff(thresholds))
        return np.concatenate([np.zeros(self.n_fixed), [0.5, 0.5], thresholds[:1], gaps])

    def thresholds(self, parameters: FloatArray) -> FloatArray:
        tail = parameters[self.n_fixed + 2 :]
        return np.concatenate([tail[:1], tail[0] + np.exp(tail[1:]).cumsum()])

    def sd(self, parameters: FloatArray) -> tuple[float, float]:
        """Of the effect with few and that with many values."""
        first, second = parameters[self.n_fixed : self.n_fixed + 2]
        return (second, first) if self.is_exchanged else (first, second)

    def __call__(self, parameters: FloatArray) -> float:
        """The log-likelihood; the search for the random effects starts at the last maximum."""
        padded = np.concatenate([[-np.inf], self.thresholds(parameters), [np.inf]])
        lower, upper = padded[self.data.level], padded[self.data.level + 1]
        base = self.data.fixed @ parameters[: self.n_fixed]
        sd_few, sd_many = self.sd(parameters)
        effects = self.effects
        value, slope, weight = self._at(effects, base, lower, upper, sd_few, sd_many)
        for _ in range(MAX_STEPS):
            step, log_determinant = self._solve(effects, slope, weight, sd_few, sd_many)
            if np.abs(step).max() < CONVERGED:
                self.effects = effects
                x = self._predicted(effects, base, sd_few, sd_many)
                correction = self._correction(lower - x, upper - x, weight, sd_many)
                return value - log_determinant / 2 + correction
            size = 1.0
            while size > CONVERGED:  # Newton's step may overshoot
                stepped = self._at(effects + size * step, base, lower, upper, sd_few, sd_many)
                if stepped[0] >= value - CONVERGED:
                    break
                size /= 2
            effects = effects + size * step
            value, slope, weight = stepped
        raise NoMaximum("the random effects do not converge")

    def _predicted(
        self, effects: FloatArray, base: FloatArray, sd_few: float, sd_many: float
    ) -> FloatArray:
        few, many = effects[: self.n_few], effects[self.n_few :]
        return np.asarray(base + sd_few * few[self.few] + sd_many * many[self.many])

    def _correction(
        self, lower: FloatArray, upper: FloatArray, weight: FloatArray, sd_many: float
    ) -> float:
        """The next term of Laplace's expansion for the effect with many values, one by one.

        From the third and fourth derivatives of log p in x, at each score's distance to the
        thresholds on either side of it.
        """
        cumulative = expit(np.stack([lower, upper]))
        density = cumulative * (1 - cumulative)
        third = (density * (1 - 2 * cumulative)).sum(axis=0)
        fourth = (density * (6 * density - 1)).sum(axis=0)
        curvature, third, fourth = (
            sd_many**power * np.bincount(self.many, values, self.n_many)
            for power, values in ((2, weight), (3, third), (4, fourth))
        )
        curvature = 1 + curvature
        terms = fourth / (8 * curvature**2) + 5 * third**2 / (24 * curvature**3)
        return float(terms.sum())

    def _at(
        self,
        effects: FloatArray,
        base: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        sd_few: float,
        sd_many: float,
    ) -> tuple[float, FloatArray, FloatArray]:
        """Log p(y, effects), and by score the slope and the negative curvature in x, (n,)."""
        x = self._predicted(effects, base, sd_few, sd_many)
        below, above = expit(lower - x), expit(upper - x)
        # The difference of two values near 1 loses digits, so that of their complements is used.
        probability = np.where(below > 0.5, expit(x - lower) - expit(x - upper), above - below)
        value = np.log(np.maximum(probability, SMALLEST)).sum() - (effects @ effects) / 2
        weight = below * (1 - below) + above * (1 - above)
        return float(value), below + above - 1, weight

    def _solve(
        self,
        effects: FloatArray,
        slope: FloatArray,
        weight: FloatArray,
        sd_few: float,
        sd_many: float,
    ) -> tuple[FloatArray, float]:
        """Newton's step for all effects, and the log determinant of the curvature."""
        slope_few = sd_few * np.bincount(self.few, slope, self.n_few) - effects[: self.n_few]
        slope_many = sd_many * np.bincount(self.many, slope, self.n_many) - effects[self.n_few :]
        of_few = 1 + sd_few**2 * np.bincount(self.few, weight, self.n_few)
        of_many = 1 + sd_many**2 * np.bincount(self.many, weight, self.n_many)
        crossed, scaled = self.crossed, self.crossed.copy()
        crossed.data = sd_few * sd_many * np.bincount(self.cell, weight)  # in the order of its rows
        scaled.data = crossed.data / of_many[crossed.indices]
        complement = np.diag(of_few) - (scaled @ crossed.T).toarray()
        factor = linalg.cho_factor(complement, lower=True, check_finite=False)
        step_few = linalg.cho_solve(factor, slope_few - scaled @ slope_many, check_finite=False)
        step_many = (slope_many - crossed.T @ step_few) / of_many
        log_determinant = np.log(of_many).sum() + 2 * np.log(np.diag(factor[0])).sum()
        return np.concatenate([step_few, step_many]), float(log_determinant)


def fit_ordinal(data: OrdinalData) -> OrdinalFit:
    """Maximise the likelihood; NoMaximum if it has none, such as for an effect without end."""
    likelihood = LaplaceLikelihood(data)
    start = likelihood.start()
    fit = optimize.minimize(
        lambda parameters: -likelihood(parameters),
        start,
        method="BFGS",
        options={
            "gtol": GRADIENT_TOLERANCE,
            "hess_inv0": np.eye(len(start)) * 4 / len(data.level),
        },
    )
    parameters: FloatArray = fit.x
    information = -second_derivatives(likelihood, parameters)
    if np.linalg.eigvalsh(information)[0] <= 0:
        raise NoMaximum("the likelihood is flat in some direction")
    kept = likelihood.n_fixed + 2
    signs = np.ones(kept)
    signs[-2:] = np.where(parameters[kept - 2 : kept] < 0, -1.0, 1.0)
    covariance = np.linalg.inv(information)[:kept, :kept] * np.outer(signs, signs)
    if np.diag(covariance)[:-2].max(initial=0) > LARGEST_ERROR**2:
        raise NoMaximum("an effect grows without end")
    return OrdinalFit(
        fixed=parameters[: likelihood.n_fixed],
        sd=np.abs(parameters[kept - 2 : kept]),
        thresholds=likelihood.thresholds(parameters),
        log_likelihood=-float(fit.fun),
        covariance=covariance,
    )


def second_derivatives(likelihood: LaplaceLikelihood, at: FloatArray) -> FloatArray:
    """Of the log-likelihood, (m, m), by central differences."""
    steps = DIFFERENCE * np.eye(len(at))
    centre = likelihood(at)
    ahead, behind = (np.array([likelihood(at + sign * step) for step in steps]) for sign in (1, -1))
    second = np.diag(ahead + behind - 2 * centre)
    for i, j in combinations(range(len(at)), 2):
        both = likelihood(at + steps[i] + steps[j]) + likelihood(at - steps[i] - steps[j])
        single = ahead[i] + behind[i] + ahead[j] + behind[j]
        second[i, j] = second[j, i] = (both - single + 2 * centre) / 2
    return np.asarray(second / DIFFERENCE**2)


# A model of the scores of a release: the effects of systems, sides, participants and triplets.
#
# `ordinal` fits it. The fixed effects are the systems, the side and the place in the form; the
# random ones are the participants and the triplets, which are crossed. All are on the scale of log
# odds.

NORMAL_QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))
LOGISTIC_VARIANCE = pi**2 / 3


@dataclass(frozen=True)
class Effect(JsonRecord):
    """A fixed effect with Wald's interval and two-sided p; NaN, with a reason, if left out."""

    value: float
    wald: tuple[float, float] = (UNDEFINED, UNDEFINED)
    p: float = UNDEFINED
    reason: str | None = None


@dataclass(frozen=True)
class Deviation(JsonRecord):
    """The standard deviation of a random effect, with Wald's interval on the log scale.

    If it is smaller than its standard error, the interval begins at 0 and is Wald's on the original
    scale.
    """

    value: float
    wald: tuple[float, float] = (UNDEFINED, UNDEFINED)


@dataclass(frozen=True)
class AnswerModel(JsonRecord):
    """The effects on the scores, in log odds of a higher score.

    Attributes:
        systems: by name, compared with the mean of the systems; empty if none is named.
        side: set 1 compared with set 2.
        place: the last place of a form compared with the first.
        sd_participants, sd_triplets: standard deviations of the random effects.
        shares: the shares of participants, triplets and the rest in the variance not explained by
            the fixed effects.
        thresholds: the cut points of the latent scale, by the scores on either side.
    """

    n_scores: int
    n_participants: int
    n_triplets: int
    systems: Mapping[str, Effect] = field(default_factory=dict)
    side: Effect = Effect(UNDEFINED)
    place: Effect = Effect(UNDEFINED)
    sd_participants: Deviation = Deviation(UNDEFINED)
    sd_triplets: Deviation = Deviation(UNDEFINED)
    shares: Mapping[str, float] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        counts = ("n_scores", "n_participants", "n_triplets")
        fields = {
            name: value if name in counts else (None if self.reason else json_value(value))
            for name, value in vars(self).items()
            if name != "reason"
        }
        return with_reason(fields, self.reason)


def answer_model(release: Release) -> AnswerModel:
    """Fit the model to both scores of every question; undefined, with a reason, without a fit."""
    return fit_scores(_scores(release))


def fit_scores(rows: pd.DataFrame) -> AnswerModel:
    """Fit the model to a table of scores with their explanatory variables.

    `side` is 0.5 for set 1 and -0.5 for set 2; `system` is null in all rows if none is named, and
    `place` may be NaN.
    """
    counts = (len(rows), int(rows["participant"].nunique()), int(rows["triplet"].nunique()))
    reason = _why_undefined(rows)
    if reason is not None:
        return AnswerModel(*counts, reason=reason)
    names = sorted(rows["system"].dropna().unique())
    columns, has_place = _fixed_effects(rows, names)
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        reason = (
            "the effects cannot be separated: the sides or places follow from the systems shown"
        )
        return AnswerModel(*counts, reason=reason)
    levels, level = np.unique(rows["score"], return_inverse=True)
    person, triplet = (pd.factorize(rows[name])[0] for name in ("participant", "triplet"))
    try:
        fit = fit_ordinal(OrdinalData(level, columns, person, triplet))
    except NoMaximum as error:
        return AnswerModel(*counts, reason=f"the likelihood has no maximum: {error}")
    return _result(counts, fit, names, levels.tolist(), has_place=has_place)


def _scores(release: Release) -> pd.DataFrame:
    """One row for each score, with its explanatory variables."""
    answers = release.preferences
    place = answers["place"] if "place" in answers else pd.Series(np.nan, index=answers.index)
    sides = [
        pd.DataFrame(
            {
                "score": answers[f"score_{side}"],
                "system": answers.get(f"system_{side}"),
                "side": 1.5 - side,  # 0.5 for set 1, -0.5 for set 2
                "place": place.astype("float64"),
                "participant": answers["participant_id"],
                "triplet": looked_up(answers["query_id"], release.triplets),
            }
        )
        for side in (1, 2)
    ]
    rows = pd.concat(sides, ignore_index=True)
    return rows[rows["system"].notna()] if rows["system"].notna().any() else rows


def _why_undefined(rows: pd.DataFrame) -> str | None:
    for name, plural in (("participant", "participants"), ("triplet", "triplets")):
        n = int(rows[name].nunique())
        if n < 2:
            return f"the model needs 2 {plural}; there {'is 1' if n else 'is none'}"
    return "all scores are equal" if rows["score"].nunique() < 2 else None


def _fixed_effects(rows: pd.DataFrame, names: list[str]) -> tuple[FloatArray, bool]:
    """Systems compared with their mean, the side and, if it is known and varies, the place."""
    system = rows["system"].to_numpy(object)
    columns = [(system == name) * 1.0 - (system == names[-1]) for name in names[:-1]]
    columns.append(rows["side"].to_numpy(np.float64))
    place = rows["place"].to_numpy(np.float64)
    has_place = bool(np.isfinite(place).all() and np.ptp(place) > 0)
    if has_place:
        columns.append((place - place.min()) / np.ptp(place) - 0.5)
    return np.column_stack(columns), has_place


def _result(
    counts: tuple[int, int, int],
    fit: OrdinalFit,
    names: list[str],
    levels: list[int],
    *,
    has_place: bool,
) -> AnswerModel:
    errors = np.sqrt(np.diag(fit.covariance))
    n_contrasts = max(0, len(names) - 1)
    effects = [_effect(*each) for each in zip(fit.fixed, errors, strict=False)]
    systems = dict(zip(names, effects[:n_contrasts], strict=False))
    if n_contrasts:
        block = fit.covariance[:n_contrasts, :n_contrasts]
        last = -fit.fixed[:n_contrasts].sum()
        systems[names[-1]] = _effect(last, np.sqrt(block.sum()))
    variances = {"participants": fit.sd[0] ** 2, "triplets": fit.sd[1] ** 2}
    variances["rest"] = LOGISTIC_VARIANCE
    total = sum(variances.values())
    no_place = Effect(UNDEFINED, reason="the release has no places, or they do not vary")
    return AnswerModel(
        *counts,
        systems=systems,
        side=effects[n_contrasts],
        place=effects[n_contrasts + 1] if has_place else no_place,
        sd_participants=_deviation(fit.sd[0], errors[-2]),
        sd_triplets=_deviation(fit.sd[1], errors[-1]),
        shares={name: float(variance / total) for name, variance in variances.items()},
        thresholds={
            f"{low}|{high}": float(threshold)
            for low, high, threshold in zip(levels, levels[1:], fit.thresholds, strict=False)
        },
    )


def _effect(value: float, error: float) -> Effect:
    margin = NORMAL_QUANTILE * error
    p = float(2 * stats.norm.sf(abs(value) / error))
    return Effect(float(value), (float(value - margin), float(value + margin)), p)


def _deviation(value: float, error: float) -> Deviation:
    margin = NORMAL_QUANTILE * error
    if value <= error:
        return Deviation(float(value), (0.0, float(value + margin)))
    factor = exp(margin / value)
    return Deviation(float(value), (float(value / factor), float(value * factor)))
