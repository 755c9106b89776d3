"""Spearman's rho of a study of 6,100 sets, resampled 10,000 times, against scipy.

Theirs is `scipy.stats.bootstrap` with `spearmanr`, percentiles, one resample after the other, of
the single sets: it knows no clusters. Ours resamples the 61 participants; cases beside it resample
participants and triplets at once, and single sets as theirs does. Each of ours is held against its
slow twin: some of the same resamples written out row by row and given to `spearmanr`. Theirs with a
statistic over an axis is timed too. It and the cases beside ours have fewer resamples without
`--full`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from benchmarks.coverage import QUESTIONS, Scores, simulate, table
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spearman import resampled_spearman

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.bootstrap import Unit

PARTICIPANTS = 61
RESAMPLES = 10_000
PART = 1000
TWINS = 200
BATCH = 100
CLOSE = 1e-12


def run(seed: int, full: bool) -> dict[str, Any]:
    """Resample both ways; the ratio is that of the participants."""
    return measure(seed, RESAMPLES, RESAMPLES if full else PART)


def measure(seed: int, resamples: int, part: int) -> dict[str, Any]:
    """Compare the two on so many resamples, scipy's vectorised way on `part` of them."""
    values, scores = simulate(np.random.default_rng(seed), PARTICIPANTS, QUESTIONS)
    rows = table(PARTICIPANTS, QUESTIONS)
    rows["query_id"] = rows["query_id"].to_numpy()[
        np.random.default_rng(seed).permutation(len(rows))
    ]
    theirs, _ = timed(lambda: scipys(values, scores, resamples, seed))
    vectorised, _ = timed(lambda: scipys_vectorised(values, scores, part, seed))
    cases = [
        compare(unit, rows, (values, scores), timed_on, seed, theirs / resamples)
        for unit, timed_on in (
            ("participant", resamples),
            ("participant-triplet", part),
            ("row", part),
        )
    ]
    return {
        "name": "bootstrap",
        "ratio": cases[0]["ratio"],
        "ours": cases[0]["ours"],
        "theirs": round(theirs, 3),
        "unit": "s",
        "equal": all(case["equal"] for case in cases),
        "n": len(rows),
        "resamples": resamples,
        "theirs_vectorised": round(vectorised * resamples / part, 3),
        "theirs_vectorised_measured_on": part,
        "cases": cases,
    }


def compare(
    unit: Unit, rows: pd.DataFrame, study: Scores, resamples: int, seed: int, theirs: float
) -> dict[str, Any]:
    """Time ours from the rows to the interval, and hold it against its slow twin.

    Args:
        unit: what is resampled.
        rows: whom and what the study is of.
        study: the metric and the scores.
        resamples: how many.
        seed: of the draws.
        theirs: seconds that scipy took for one resample.
    """

    def work() -> tuple[Bootstrap, NDArray[np.float64]]:
        draws = Bootstrap.of_rows(rows, unit=unit, n_resamples=resamples, seed=seed)
        drawn = resampled_spearman(draws, rows, *study)
        draws.interval(drawn, rows)
        return draws, drawn

    ours, (draws, drawn) = timed(work)
    slow = twin(draws, rows, study)
    far = float(np.abs(np.array(slow) - drawn[: len(slow)]).max())
    return {
        "case": unit,
        "ratio": round(theirs * resamples / ours, 1),
        "ours": round(ours, 3),
        "resamples": resamples,
        "equal": far <= CLOSE,
        "compared": len(slow),
        "furthest": far,
    }


def twin(draws: Bootstrap, rows: pd.DataFrame, study: Scores) -> list[float]:
    """The rho of the first resamples, each written out row by row."""
    values, scores = study
    # Single rows are drawn by their place, and ours goes over them by rising value.
    order = np.argsort(values, kind="stable") if draws.unit == "row" else np.arange(len(rows))
    found: list[float] = []
    for block in draws.weights(rows.iloc[order]):
        for weights in block[: TWINS - len(found)]:
            drawn = np.repeat(order, weights.astype(int))
            found.append(float(stats.spearmanr(values[drawn], scores[drawn]).statistic))
        if len(found) == TWINS:
            break
    return found


def scipys(
    values: NDArray[np.float64], scores: NDArray[np.float64], resamples: int, seed: int
) -> object:
    """The interval of scipy, one resample after the other."""
    return stats.bootstrap(
        (values, scores),
        lambda one, other: stats.spearmanr(one, other).statistic,
        paired=True,
        vectorized=False,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    )


def scipys_vectorised(
    values: NDArray[np.float64], scores: NDArray[np.float64], resamples: int, seed: int
) -> object:
    """The interval of scipy from a statistic that takes many resamples at once."""

    def statistic(
        one: NDArray[np.float64], other: NDArray[np.float64], axis: int
    ) -> NDArray[np.float64]:
        ranks = [stats.rankdata(side, axis=axis) for side in (one, other)]
        x, y = (side - side.mean(axis=axis, keepdims=True) for side in ranks)
        found: NDArray[np.float64] = (x * y).sum(axis=axis) / np.sqrt(
            (x**2).sum(axis=axis) * (y**2).sum(axis=axis)
        )
        return found

    return stats.bootstrap(
        (values, scores),
        statistic,
        paired=True,
        vectorized=True,
        batch=BATCH,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one run, and what it gave."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
