"""How searches ended and how they went: success, ease, reasons to stop, words and time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.kinds.kind import Figures
from hsfiq.analysis.kinds.searches.systems import means_by_system, transposed
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spread import RATE, SATISFACTION

NO_TARGET = "no search has a target"
NOT_RATED = "no participant has answered it"
NO_TEXT = "no participant has typed a text"
OWN_WISH = "own-wish"


def figures(searches: pd.DataFrame, turns: pd.DataFrame, bootstrap: Bootstrap) -> list[Figures]:
    of_searches = [
        outcomes(searches, bootstrap),
        ratings(searches, bootstrap),
        stops(searches, bootstrap),
    ]
    if not len(turns):
        return of_searches
    return [
        *of_searches,
        effort(searches, turns, bootstrap),
        texts(turns, bootstrap),
    ]


def outcomes(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    has_target = (searches["task"] != OWN_WISH).to_numpy()
    columns = {
        "target found": where(has_target, searches["stop"] == "found"),
        "image chosen": flags(searches["declared_id"].notna()),
        "target missed": numbers(searches["missed"]),
        "would go on": numbers(searches["would_go_on"]),
        "resumed": numbers(searches["resumed"]),
        "left unfinished": flags(searches["abandoned"]),
    }
    reasons = {"target found": NO_TARGET, "target missed": NO_TARGET, "would go on": NOT_RATED}
    means = {
        name: means_by_system(
            searches, values, bootstrap, RATE, reasons.get(name, "there is no search")
        )
        for name, values in columns.items()
    }
    return Figures(
        "outcomes",
        "How searches ended, by system",
        "system",
        transposed(means),
        "Shares of searches. Found: the declared image is the target; chosen: any image was "
        "declared; missed: a list had the target and the participant went on; resumed: after half "
        "an hour or more away; left unfinished: before the questions at the end.",
    )


def ratings(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    columns = {
        title: means_by_system(
            searches, searches[name].to_numpy(np.float64), bootstrap, SATISFACTION, NOT_RATED
        )
        for title, name in (
            ("success", "success"),
            ("ease", "ease"),
            ("satisfaction with the last list", "satisfaction"),
        )
    }
    return Figures(
        "ratings",
        "What participants said at the end, by system",
        "system",
        transposed(columns),
        "Means of answers from 1 to 5. Success and ease are asked after the search.",
    )


def stops(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    """Why searches stopped: a row for each reason that occurs."""
    stop = searches["stop"].fillna("unknown")
    rows = {
        str(reason): means_by_system(searches, flags(stop == reason), bootstrap, RATE)
        for reason in stop.value_counts().index
    }
    return Figures(
        "stops", "Why searches stopped", "reason", rows, "Shares of each system's searches."
    )


def effort(searches: pd.DataFrame, turns: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    columns = {
        "turns per search": means_by_system(
            searches, searches["turns"].to_numpy(np.float64), bootstrap
        ),
        "seconds per turn": means_by_system(
            turns, turns["active_seconds"].to_numpy(np.float64), bootstrap
        ),
        "words per text": means_by_system(
            turns, where(is_typed(turns), turns["words"]), bootstrap, reason=NO_TEXT
        ),
    }
    return Figures(
        "effort",
        "Turns, time and words, by system",
        "system",
        transposed(columns),
        "Means. Seconds are active ones, with a list and the text after it; words are of texts "
        "that participants typed, not of the query's own text.",
    )


def texts(turns: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    typed = is_typed(turns)
    columns = {
        title: means_by_system(turns, where(typed, turns[name]), bootstrap, RATE, NO_TEXT)
        for title, name in (("repeated", "repeats"), ("pasted", "pasted"))
    }
    return Figures(
        "texts",
        "Repeated and pasted texts, by system",
        "system",
        transposed(columns),
        "Shares of the texts that participants typed. Repeated: an earlier turn of the search had "
        "the same text.",
    )


def is_typed(turns: pd.DataFrame) -> BoolArray:
    typed: BoolArray = ~turns["from_query"].to_numpy(np.bool_)
    return typed


def flags(values: pd.Series[bool]) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def where(included: BoolArray, values: pd.Series[float] | pd.Series[bool]) -> FloatArray:
    """(n,) values, NaN where they do not count or are unknown."""
    return np.where(included, numbers(values), np.nan)


def numbers(values: pd.Series[float] | pd.Series[bool]) -> FloatArray:
    """(n,) values, NaN where they are null."""
    return np.asarray(values.astype(np.float64), dtype=np.float64)
