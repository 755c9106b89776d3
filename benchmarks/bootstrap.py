"""Spearman's rho of a study of 6,100 sets, resampled 10,000 times, compared with scipy.

Theirs is `scipy.stats.bootstrap` with `spearmanr`, percentiles, one resample after the other, of
single sets: it has no clusters. Ours resamples the 61 participants; further cases resample
participants and triplets together, and single sets as scipy does. Each of ours is compared with a
slow reference: some of the same resamples written out row by row and given to `spearmanr`. Scipy
with a vectorised statistic is timed too. It and the further cases have fewer resamples without
`--full`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spearman import resampled_spearman

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.bootstrap import Unit

PARTICIPANTS, QUESTIONS = 61, 50
RESAMPLES = 10_000
PART = 1000
REFERENCES = 200
BATCH = 100
CLOSE = 1e-12
SLOPE, SLOPE_SPREAD, OFFSET_SPREAD = 0.5, 0.35, 0.4

Scores = tuple[np.ndarray, np.ndarray]


def run(seed: int, full: bool) -> dict[str, Any]:
    """Resample with both; the ratio is that of the participants."""
    return measure(seed, RESAMPLES, RESAMPLES if full else PART)


def measure(seed: int, resamples: int, part: int) -> dict[str, Any]:
    """Compare both on `resamples`; scipy's vectorised method on `part` of them."""
    values, scores = simulate(np.random.default_rng(seed), PARTICIPANTS, QUESTIONS)
    rows = table(PARTICIPANTS, QUESTIONS)
    rows["query_id"] = rows["query_id"].to_numpy()[
        np.random.default_rng(seed).permutation(len(rows))
    ]
    theirs, _ = timed(lambda: scipy_bootstrap(values, scores, resamples, seed))
    vectorised, _ = timed(lambda: scipy_vectorised(values, scores, part, seed))
    sizes: dict[Unit, int] = {"participant": resamples, "participant-triplet": part, "row": part}
    cases = [
        compare(unit, rows, (values, scores), size, seed, theirs / resamples)
        for unit, size in sizes.items()
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
    """Time ours from the rows to the interval, and compare it with the slow reference.

    `theirs` is what scipy took for one resample, in seconds.
    """

    def work() -> tuple[Bootstrap, NDArray[np.float64]]:
        draws = Bootstrap.of_rows(rows, unit=unit, n_resamples=resamples, seed=seed)
        drawn = resampled_spearman(draws, rows, *study)
        draws.interval(drawn, rows)
        return draws, drawn

    ours, (draws, drawn) = timed(work)
    slow = reference_rhos(draws, rows, study)
    largest_difference = float(np.abs(np.array(slow) - drawn[: len(slow)]).max())
    return {
        "case": unit,
        "ratio": round(theirs * resamples / ours, 1),
        "ours": round(ours, 3),
        "resamples": resamples,
        "equal": largest_difference <= CLOSE,
        "compared": len(slow),
        "furthest": largest_difference,
    }


def reference_rhos(draws: Bootstrap, rows: pd.DataFrame, study: Scores) -> list[float]:
    """The rho of the rows as they are and of the first resamples, each written out row by row."""
    values, scores = study
    # Single rows are drawn by their place, and ours goes over them by rising value.
    order = np.argsort(values, kind="stable") if draws.unit == "row" else np.arange(len(rows))
    rhos: list[float] = []
    for block in draws.weights(rows.iloc[order]):
        for weights in block[: REFERENCES - len(rhos)]:
            drawn = np.repeat(order, weights.astype(int))
            rhos.append(float(stats.spearmanr(values[drawn], scores[drawn]).statistic))
        if len(rhos) == REFERENCES:
            break
    return rhos


def scipy_bootstrap(
    values: NDArray[np.float64], scores: NDArray[np.float64], resamples: int, seed: int
) -> object:
    """The interval of scipy, one resample after the other."""
    return stats.bootstrap(
        (values, scores),
        lambda first, second: stats.spearmanr(first, second).statistic,
        paired=True,
        vectorized=False,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    )


def scipy_vectorised(
    values: NDArray[np.float64], scores: NDArray[np.float64], resamples: int, seed: int
) -> object:
    """The interval of scipy from a statistic that takes many resamples at once."""

    def statistic(
        first: NDArray[np.float64], second: NDArray[np.float64], axis: int
    ) -> NDArray[np.float64]:
        ranks = [stats.rankdata(side, axis=axis) for side in (first, second)]
        x, y = (side - side.mean(axis=axis, keepdims=True) for side in ranks)
        rhos: NDArray[np.float64] = (x * y).sum(axis=axis) / np.sqrt(
            (x**2).sum(axis=axis) * (y**2).sum(axis=axis)
        )
        return rhos

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
    """Seconds of one run, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def simulate(rng: np.random.Generator, participants: int, questions: int) -> Scores:
    """A study: the metric and the human scores, each (participants x questions x 2,)."""
    n = 2 * questions
    slopes = rng.normal(SLOPE, SLOPE_SPREAD, size=(participants, 1))
    offsets = rng.normal(0, OFFSET_SPREAD, size=(participants, 1))
    values = rng.normal(size=(participants, n))
    latent = 3 + offsets + slopes * values + rng.normal(size=(participants, n))
    return values.ravel(), np.clip(np.round(latent), 1, 5).ravel()


def table(participants: int, questions: int) -> pd.DataFrame:
    """Participant and query of each row of `simulate`, two rows per question."""
    n = participants * questions
    return pd.DataFrame(
        {
            "participant_id": np.repeat(
                [f"p{number:04}" for number in range(participants)], 2 * questions
            ),
            "query_id": np.repeat([f"q{number:06}" for number in range(n)], 2),
        }
    )
