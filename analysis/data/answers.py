"""The answers of a release: what they may lack, when they contradict themselves, parts of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from hsfiq.analysis.data.release import Release


def optional(rows: pd.DataFrame, column: str) -> pd.Series[float]:
    """Take a column that a release may lack, as numbers.

    Args:
        rows: (n, ...).
        column: its name.

    Returns:
        (n,) float64; NaN where the release says nothing.
    """
    if column not in rows:
        return pd.Series(np.nan, index=rows.index, dtype="float64")
    return rows[column].astype("float64")


def contradicts(preferences: pd.DataFrame) -> pd.Series[bool]:
    """Say of each question whether the preferred set got the strictly lower score.

    Args:
        preferences: (n_questions, ...) with `score_1`, `score_2` and `preferred` (1, 2, 0 = tie).

    Returns:
        (n_questions,); equal scores and human ties contradict nothing.
    """
    margin = preferences["score_1"] - preferences["score_2"]
    preferred = preferences["preferred"]
    found: pd.Series[bool] = ((preferred == 1) & (margin < 0)) | ((preferred == 2) & (margin > 0))
    return found


def metric_margin(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    """Take m(set 1) - m(set 2) of each question.

    Args:
        preferences: (n_questions, ...) with `set_1` and `set_2`.
        values: the metric m, indexed by set_id, NaN where a set has none.

    Returns:
        (n_questions,) float64; NaN where a set has no value.
    """
    first, second = (preferences[side].map(values).astype("float64") for side in ("set_1", "set_2"))
    return first - second


def subset(release: Release, kept: pd.Series[bool]) -> Release:
    """Take some of a release's questions.

    Args:
        release: a release.
        kept: (n_questions,) whether a question stays, indexed as `release.preferences`.

    Returns:
        A release with these questions and their sets, and all queries.
    """
    preferences = release.preferences[kept]
    sets = release.sets[release.sets["question_id"].isin(preferences["question_id"])]
    return replace(release, preferences=preferences, sets=sets)
