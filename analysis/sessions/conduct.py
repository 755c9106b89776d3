"""What simulators, people and systems do in sessions, besides the targets' ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.resampling.spread import RATE, SATISFACTION
from hsfiq.analysis.sessions.figures import Values
from hsfiq.analysis.sessions.ranks import SystemSessions


def conduct_figures(system: SystemSessions, k: int) -> dict[str, Values]:
    """What the figures of conduct average; a session without success has no rank of at most k.

    `words`, `seconds` and `satisfaction` are those of each round; the others of a session.
    """
    repeated, has_references = repeats(system)
    unsolved = ~system.best().within(k)[0][:, -1].astype(bool)
    said_again = np.nansum(system.by_round("is_repeated_text"), axis=1) > 0
    figures = {
        "repeats": of_sessions(repeated, has_references),
        f"repeats_without_hit@{k}": of_sessions(repeated, has_references & unsolved),
        "repeated_texts": of_sessions(said_again, np.ones_like(said_again)),
        "words": of_rounds(system.by_round("words")),
    }
    for name, bounds in (("seconds", None), ("satisfaction", SATISFACTION)):
        values = system.by_round(name)
        if not np.isnan(values).all():
            figures[name] = of_rounds(values, bounds)
    return figures


def repeats(system: SystemSessions) -> tuple[BoolArray, BoolArray]:
    """Whether each session asks about an image again, and whether it has references at all."""
    references = system.rounds.dropna(subset=["reference"])
    counts = references.groupby("session_id")["reference"].agg(["size", "nunique"])
    size, distinct = (
        counts[name].reindex(system.sessions["session_id"], fill_value=0).to_numpy()
        for name in ("size", "nunique")
    )
    return distinct < size, size > 0


def of_sessions(values: BoolArray, included: BoolArray) -> Values:
    column = values.astype(np.float64)[:, None]
    return Values(column, included[:, None], np.ones_like(column, dtype=np.bool_), RATE)


def of_rounds(values: FloatArray, bounds: tuple[float, float] | None = None) -> Values:
    included = ~np.isnan(values)
    return Values(np.nan_to_num(values), included, included, bounds)


def stop_reasons(sessions: pd.DataFrame) -> dict[str, int]:
    """How many sessions ended for each reason, most first."""
    counts = sessions["stop_reason"].fillna("unknown").value_counts()
    return {str(reason): int(n) for reason, n in counts.items()}
