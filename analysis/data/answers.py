"""Rules of single answers, for the columns of a release: preference, contradiction, difference.

Contradiction is also a rule of `hsfiq.answer_rules`, which this package cannot import; a test
compares the two.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hsfiq.analysis.data.ids import looked_up


def optional_column(rows: pd.DataFrame, column: str) -> pd.Series[float]:
    """A column as float64; NaN if the release lacks it."""
    if column not in rows:
        return pd.Series(np.nan, index=rows.index, dtype="float64")
    return rows[column].astype("float64")


def has_preference(preferences: pd.DataFrame) -> pd.Series[bool]:
    """Whether one of the two sets is preferred, (n_questions,); False for a human tie."""
    return preferences["preferred"] != 0


def contradicts(preferences: pd.DataFrame) -> pd.Series[bool]:
    """Whether the preferred set has the strictly lower score, (n_questions,); False for a tie."""
    margin = preferences["score_1"] - preferences["score_2"]
    preferred = preferences["preferred"]
    result: pd.Series[bool] = ((preferred == 1) & (margin < 0)) | ((preferred == 2) & (margin > 0))
    return result


def metric_difference(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    """m(set 1) - m(set 2) of each question, (n_questions,); NaN where a set has no value."""
    numbers = values.astype("float64")
    first, second = (looked_up(preferences[side], numbers) for side in ("set_1", "set_2"))
    return first - second
