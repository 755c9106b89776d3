"""Bradley-Terry strengths of systems, from how often each was preferred to each other.

P(i is preferred to j) = exp(s_i) / (exp(s_i) + exp(s_j)); a tie counts as half a win for both. The
strengths s are on the log scale and centred at 0, so a difference of 1 means odds of 2.72. They
exist if every system beat every other one at least once, directly or through others (Ford 1957);
otherwise the likelihood has no maximum.
"""

from __future__ import annotations

from collections.abc import Sequence

import evalica
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.errors import first_few
from hsfiq.analysis.resampling.bootstrap import Bootstrap

TOLERANCE = 1e-9  # of the fit
MAX_STEPS = 10_000
EQUAL = 1e-6
"""Log-strengths that differ by at most this are equal: a fit ends this close to its optimum."""


def count_wins(
    first: NDArray[np.intp], second: NDArray[np.intp], share: FloatArray, n_systems: int
) -> FloatArray:
    """Count how often system i was preferred to system j: [i, j] of (n_systems, n_systems).

    The sides are (n,) system numbers; `share` (n,) is 1 if the first won, 0 if not, 0.5 for a tie.
    """
    wins = np.zeros((n_systems, n_systems))
    np.add.at(wins, (first, second), share)
    np.add.at(wins, (second, first), 1 - share)
    return wins


def resampled_wins(
    rows: pd.DataFrame,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    share: FloatArray,
    n_systems: int,
    bootstrap: Bootstrap,
) -> FloatArray:
    """Count wins in each resample, (length, n_systems, n_systems); see `count_wins`."""
    systems = np.arange(n_systems)
    wins = np.empty((bootstrap.length, n_systems, n_systems))
    for system in systems:  # one winner at a time: all pairs at once would need much memory
        won = np.where(first == system, share, 0.0)[:, None] * (second[:, None] == systems)
        won += np.where(second == system, 1 - share, 0.0)[:, None] * (first[:, None] == systems)
        wins[:, system] = bootstrap.totals(rows, won)
    return wins


def log_strengths(wins: FloatArray) -> FloatArray:
    """Fit centred log-strengths, (n_systems,), to `count_wins`; all NaN if they do not exist."""
    n_systems = len(wins)
    if n_systems < 2 or connected_components(wins > 0, connection="strong")[0] > 1:
        return np.full(n_systems, np.nan)
    winners, losers = np.nonzero(wins)
    fitted = evalica.bradley_terry(
        winners.tolist(),
        losers.tolist(),
        [evalica.Winner.X] * len(winners),
        weights=wins[winners, losers].tolist(),
        tolerance=TOLERANCE,
        limit=MAX_STEPS,
    )
    strengths: FloatArray = np.log(fitted.scores.reindex(np.arange(n_systems)).to_numpy())
    strengths -= strengths.mean()
    return strengths


def resampled_log_strengths(wins: FloatArray) -> FloatArray:
    """`log_strengths` of many resamples (b, n_systems, n_systems) at once, (b, n_systems).

    By Newman's iteration (2023, eq. 27).
    """
    strengths = np.full(wins.shape[:2], np.nan)
    unfinished = np.flatnonzero(_all_connected(wins))
    strengths[unfinished] = 0.0
    for _ in range(MAX_STEPS):
        if not len(unfinished):
            break
        won, power = wins[unfinished], np.exp(strengths[unfinished])
        for system in range(wins.shape[1]):  # one after the other: all at once may oscillate
            shared = 1 / (power[:, [system]] + power)
            gained = (won[:, system] * power * shared).sum(axis=1)
            power[:, system] = gained / (won[:, :, system] * shared).sum(axis=1)
        stepped = np.log(power)
        stepped -= stepped.mean(axis=1, keepdims=True)
        moved = np.abs(stepped - strengths[unfinished]).max(axis=1)
        strengths[unfinished] = stepped
        unfinished = unfinished[moved > TOLERANCE]
    return strengths


def why_undefined(wins: FloatArray, names: Sequence[str]) -> str | None:
    """Explain why strengths do not exist; None if they do. See `count_wins` for `wins`."""
    if len(names) < 2:
        return f"strengths need 2 systems; there {'is 1' if names else 'is none'}"
    n_parts, part = connected_components(wins > 0, directed=False)
    if n_parts > 1:
        first = [name for name, number in zip(names, part, strict=True) if number == part[0]]
        return f"nothing compares {first_few(first)} with the other systems"
    n_groups, group = connected_components(wins > 0, connection="strong")
    for number in range(n_groups):
        inside = group == number
        if n_groups > 1 and not wins[np.ix_(~inside, inside)].any():
            best = [name for name, is_inside in zip(names, inside, strict=True) if is_inside]
            return f"{first_few(best)} never lost to the other systems, so no strength is the best"
    return None


def kendall_tau(first: FloatArray, second: FloatArray) -> FloatArray:
    """Kendall's tau-b of strengths (..., n_systems); NaN if one is undefined or all are equal."""
    upper = np.triu_indices(first.shape[-1], 1)

    def signs(strengths: FloatArray) -> FloatArray:
        differences = (strengths[..., :, None] - strengths[..., None, :])[..., *upper]
        return np.where(np.abs(differences) <= EQUAL, 0.0, np.sign(differences))

    x, y = signs(first), signs(second)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: FloatArray = (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return tau


def _all_connected(wins: FloatArray) -> BoolArray:
    """Whether wins lead from every system to every other one, (b, n, n) -> (b,)."""
    reached = (wins > 0) | np.eye(wins.shape[1], dtype=bool)
    for _ in range(wins.shape[1].bit_length()):  # each squaring doubles the length of the chains
        reached = (reached.astype(np.float64) @ reached) > 0
    return np.asarray(reached.all(axis=(1, 2)) & (wins.shape[1] > 1))
