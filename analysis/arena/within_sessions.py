"""How far the votes of one session agree with each other.

A session has the same two systems at all its turns, one searcher and one wish, so its votes are not
independent. The deviation of a vote is the share of it that the system that comes first in the
order of the names won (1, 1/2 for neither, 0), less the mean of that share over all votes between
the two systems. The correlation is the mean product of two deviations of the same session, over all
pairs of its votes, divided by the mean squared deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arena.votes import Votes
from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import CORRELATION


@dataclass(frozen=True)
class WithinSessions(JsonRecord):
    """How the votes of a session depend on each other.

    Attributes:
        correlation: of two votes of one session; n counts the pairs of votes.
        design_effect: 1 + (m - 1) correlation, with m = sum of n_i^2 / sum of n_i over the sessions
            of n_i votes (Kish 1965): how many votes say as much as one independent vote. NaN if
            the correlation is.
    """

    correlation: Estimate
    design_effect: float


def within_sessions(votes: Votes, bootstrap: Bootstrap) -> WithinSessions:
    """Undefined, with a reason, if no session has two votes or all deviations are 0."""
    rows = votes.rows
    deviation = deviations(rows)
    session = pd.factorize(rows["question_id"])[0]
    first_of_session = ~rows["question_id"].duplicated().to_numpy()
    n = np.bincount(session).astype(np.float64)
    total, squares = (np.bincount(session, each) for each in (deviation, deviation**2))
    columns = np.zeros((len(rows), 4))  # a session's sums are at its first vote
    columns[first_of_session] = np.column_stack(
        [(total**2 - squares) / 2, n * (n - 1) / 2, squares, n]
    )
    sums = bootstrap.totals(rows, columns)
    n_pairs = int(sums[0, 1])
    if n_pairs == 0 or sums[0, 2] == 0:
        reason = "no session has two votes"
        if n_pairs:
            reason = "all votes between two systems are the same"
        return WithinSessions(Estimate(np.nan, n_pairs, None, reason), np.nan)
    statistics = ratio(ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 2], sums[:, 3]))
    value = float(statistics[0])
    interval = bootstrap.interval(statistics, rows, bounds=CORRELATION)
    effect = 1 + (float((n**2).sum() / n.sum()) - 1) * value
    return WithinSessions(Estimate(value, n_pairs, interval), effect)


def deviations(rows: pd.DataFrame) -> FloatArray:
    """The deviation of each vote, (n,)."""
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    share = np.choose(rows["preferred"].to_numpy(np.intp), (0.5, 1.0, 0.0))
    won = pd.Series(np.where(first < second, share, 1 - share))
    of_pair = won.groupby([np.minimum(first, second), np.maximum(first, second)])
    deviation: FloatArray = (won - of_pair.transform("mean")).to_numpy()
    return deviation
