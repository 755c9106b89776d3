"""The win matrix: how often each system was preferred to each other one, in direct comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import RATE
from hsfiq.analysis.systems.bradley_terry import resampled_wins


@dataclass(frozen=True)
class Duel(JsonRecord):
    """The questions that compare two systems directly.

    Attributes:
        wins, losses: of `system`; ties count as neither.
        rate: the share in which `system` was preferred, ties counted half; NaN, with a reason, if
            no question compares the two.
    """

    system: str
    other: str
    wins: int
    ties: int
    losses: int
    rate: Estimate


def win_matrix(rows: pd.DataFrame, names: Sequence[str], bootstrap: Bootstrap) -> list[Duel]:
    """All ordered pairs of systems, from questions with `first`, `second` and `preferred`."""
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    preferred = rows["preferred"].to_numpy()
    share = np.choose(preferred, (0.5, 1.0, 0.0))
    resampled = resampled_wins(rows, first, second, share, len(names), bootstrap)
    duels = []
    for i, system in enumerate(names):
        for j, other in enumerate(names):
            if i == j:
                continue
            is_first, is_second = (first == i) & (second == j), (first == j) & (second == i)
            between = is_first | is_second
            ties = int((between & (preferred == 0)).sum())
            wins = int(((is_first & (preferred == 1)) | (is_second & (preferred == 2))).sum())
            n = int(between.sum())
            won, lost = resampled[:, i, j], resampled[:, j, i]
            rate = Estimate(float("nan"), 0, None, "no question compares the two systems")
            if n:
                ci = bootstrap.interval(ratio(won, won + lost), rows[between], bounds=RATE)
                rate = Estimate((wins + ties / 2) / n, n, ci)
            duels.append(Duel(system, other, wins, ties, n - wins - ties, rate))
    return duels
