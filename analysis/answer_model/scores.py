"""The model of the scores of a release: which part is due to what.

`ordinal` fits it. The fixed effects are the systems, the side and the place in the form; the random
ones are the participants and the triplets, which are crossed. All are on the scale of log odds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, pi

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.answer_model.ordinal import NoMaximum, OrdinalData, OrdinalFit, fit_ordinal
from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value, with_reason
from hsfiq.analysis.resampling.spread import LEVEL

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

    If it is smaller than its standard error, the interval begins at 0 and is Wald's as it is.
    """

    value: float
    wald: tuple[float, float] = (UNDEFINED, UNDEFINED)


@dataclass(frozen=True)
class AnswerModel(JsonRecord):
    """What contributes to the scores, in log odds of a higher one.

    Attributes:
        systems: by name, compared with the mean of the systems; empty if none is named.
        side: set 1 compared with set 2.
        place: the last place of a form compared with the first.
        sd_participants, sd_triplets: standard deviations of the random effects.
        shares: what participants, triplets and the rest contribute to the variance that the fixed
            effects leave.
        thresholds: by the scores on either side, where the latent scale is cut.
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
    """Fit the model to a table of scores with what explains them.

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
        reason = "the sides or places on which systems were shown do not tell their effects apart"
        return AnswerModel(*counts, reason=reason)
    levels, level = np.unique(rows["score"], return_inverse=True)
    person, triplet = (pd.factorize(rows[name])[0] for name in ("participant", "triplet"))
    try:
        fit = fit_ordinal(OrdinalData(level, columns, person, triplet))
    except NoMaximum as error:
        return AnswerModel(*counts, reason=f"the likelihood has no maximum: {error}")
    return _result(counts, fit, names, levels.tolist(), has_place=has_place)


def _scores(release: Release) -> pd.DataFrame:
    """One row for each score, with what explains it."""
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
            return f"the model needs 2 {plural}, and there {'is 1' if n else 'is none'}"
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
