"""Agreement between people: Krippendorff's alpha, and what counts as judging the same thing.

A unit of alpha is what several people may have judged: for scores, the same images in the same
order for the same triplet (`data.images.set_units`); for preferences, the same two sets, on
whichever sides they were shown (`preference_ratings`). The queries of a triplet differ only in how
its captions are joined, so they are one. The owner's dashboard calls these functions too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Literal

import evalica
import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.people.two_way import at_ends, two_way_interval
from hsfiq.analysis.resampling.interval import ConfidenceInterval

Level = Literal["nominal", "ordinal"]

MIN_UNITS = 10
"""With fewer units, figures of agreement say next to nothing and are not printed."""


@dataclass(frozen=True)
class Agreement(JsonRecord):
    """Krippendorff's alpha: 1 is full agreement, 0 that of chance, below 0 less than chance.

    Attributes:
        ci: its interval, of participants and triplets (see `two_way`); None if alpha is undefined.
        n_units: the number of units that at least two people have judged.
        n_ratings: the number of judgements of these units.
        reason: why alpha is NaN.
    """

    alpha: float
    ci: ConfidenceInterval | None
    n_units: int
    n_ratings: int
    reason: str | None = None


def score_ratings(
    sets: pd.DataFrame, units: pd.Series[int], triplets: pd.Series[str]
) -> pd.DataFrame:
    """Arrange scores for `agreement`; the units are what `data.images.set_units` returned."""
    return pd.DataFrame(
        {
            "rater": sets["participant_id"],
            "unit": looked_up(sets["set_id"], units),
            "cluster": looked_up(sets["query_id"], triplets),
            "value": sets["score"],
        }
    )


def preference_ratings(
    preferences: pd.DataFrame, units: pd.Series[int], triplets: pd.Series[str]
) -> pd.DataFrame:
    """Arrange preferences for `agreement`; a unit is a pair of sets, on whichever sides.

    The value is 1 if the set with the lower number is preferred, 2 for the other, 0 for a tie.
    Questions with two identical sets are left out: which of the sets is preferred is unknown when
    they differ only in the side.
    """
    preferences = preferences[~has_identical_sets(preferences, units)]
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    pairs = np.minimum(first, second) * (units.max() + 1) + np.maximum(first, second)
    preferred = preferences["preferred"]
    swapped = (3 - preferred).where(preferred != 0, 0)
    return pd.DataFrame(
        {
            "rater": preferences["participant_id"],
            "unit": pd.factorize(pairs)[0],
            "cluster": looked_up(preferences["query_id"], triplets),
            "value": preferred.where(first <= second, swapped),
        }
    )


def has_identical_sets(preferences: pd.DataFrame, units: pd.Series[int]) -> pd.Series[bool]:
    """Whether a question's two sets have the same images in the same order, (n_questions,)."""
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    result: pd.Series[bool] = first == second
    return result


def agreement(ratings: pd.DataFrame, level: Level) -> Agreement:
    """Measure how far raters agree.

    Args:
        ratings: (n, ...) with `rater`, `unit` (what is judged), `cluster` (the
            unit's triplet) and `value` (numbers). If one rater judged a unit twice, the first
            judgement counts.
        level: `ordinal` for scores, `nominal` for preferences.

    Returns:
        Alpha with its interval; NaN, with a reason, if fewer than `MIN_UNITS` units have two
        judgements, or if all judgements are equal (chance alone would agree).
    """
    table = shared_ratings(ratings)
    sizes = (int(table["unit"].nunique()), len(table))
    if sizes[0] < MIN_UNITS:
        return Agreement(UNDEFINED, None, *sizes, few_units(sizes[0]))
    if table["value"].nunique() == 1:
        reason = "all judgements are the same, so alpha is not defined"
        return Agreement(UNDEFINED, None, *sizes, reason)
    matrix = table.pivot_table(index="rater", columns="unit", values="value")
    alpha = float(evalica.alpha(matrix, distance=level).alpha)
    return Agreement(alpha, _interval(table, level), *sizes)


def _interval(table: pd.DataFrame, level: Level) -> ConfidenceInterval:
    """From -ln(observed / expected disagreement), which has no bounds."""
    by_unit = coincidences(table)
    total = by_unit.sum(axis=0)
    (whole,) = _log_scale(alphas(total[None], level))
    interval = two_way_interval(table, whole, _log_scale(alphas(total - by_unit, level)))
    return at_ends(interval, lambda end: 1 - exp(-end))


def _log_scale(alpha: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(1 - alpha))


def shared_ratings(ratings: pd.DataFrame) -> pd.DataFrame:
    """The ratings of units that two or more people judged; of one person's, the first counts."""
    single = ratings[ratings["value"].notna()].drop_duplicates(["rater", "unit"])
    n_raters = single.groupby("unit")["rater"].transform("size")
    return single[n_raters > 1]


def few_units(n_units: int, unit: str = "thing", plural: str | None = None) -> str:
    """Why a figure of agreement is undefined with so many units."""
    if n_units == 0:
        return "nothing has been judged by two people"
    has = "has" if n_units == 1 else "have"
    return (
        f"only {count_text(n_units, unit, plural)} {has} been judged by two people; at least "
        f"{MIN_UNITS} are needed"
    )


def coincidences(table: pd.DataFrame) -> FloatArray:
    """Count how often two values occur together in each unit, (units, values, values).

    A unit with m judgements gives each ordered pair of them the weight 1 / (m - 1), as in
    Krippendorff's definition; units are in the order in which they occur, values in increasing
    order.
    """
    counts = table.groupby(["unit", "value"]).size().unstack("value", fill_value=0)
    by_unit = counts.loc[table["unit"].unique()].to_numpy(dtype=np.float64)
    together = by_unit[:, :, None] * by_unit[:, None, :]
    diagonal = np.arange(by_unit.shape[1])
    together[:, diagonal, diagonal] -= by_unit
    return np.asarray(together / (by_unit.sum(axis=1) - 1)[:, None, None])


def alphas(coincidences: FloatArray, level: Level) -> FloatArray:
    """Alpha of each table of coincidences, (n, values, values) -> (n,)."""
    totals = coincidences.sum(axis=2)
    distance = squared_distances(totals, level)
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        result: FloatArray = 1 - (totals.sum(axis=1) - 1) * observed / expected
    result[expected == 0] = np.nan
    return result


def squared_distances(totals: FloatArray, level: Level) -> FloatArray:
    """The squared distance of any two values, (n, values, values).

    Nominal: 1 between different values. Ordinal: the number of judgements between the two, where
    those of the two values themselves count half; `totals` (n, values) counts them.
    """
    if level == "nominal":
        different = 1 - np.eye(totals.shape[1])
        return np.broadcast_to(different, (len(totals), *different.shape))
    middles = np.cumsum(totals, axis=1) - totals / 2
    return np.asarray((middles[:, :, None] - middles[:, None, :]) ** 2)
