"""The paired permutation test of two metrics, grouped by query, compared with a loop.

A human score and two metrics for each of 10 systems' sets of 610 queries, as ranks. A permutation
swaps the metrics' ranks cell by cell; its statistic is the mean over the queries of the first
metric's correlation less the second's. The loop does what published code does: for each permutation
and query it swaps and computes both correlations with scipy, in the second case with numpy, which
checks less. Both methods get the same swaps. Ours is timed on all permutations, including drawing
them; without `--full` the loop is timed on a part and its time scaled to all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from hsfiq.analysis.resampling.permutation import (
    PairedSums,
    Swaps,
    cell_sums,
    grouped_test,
    p_value,
    standard_ranks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Correlate = Callable[[np.ndarray, np.ndarray], float]

QUERIES, SYSTEMS = 610, 10
PERMUTATIONS, PART = 1000, 25
CLOSE = 1e-12


def run(seed: int, full: bool) -> dict[str, Any]:
    """Run both tests; the ratio is to the loop with scipy."""
    return compare(seed, QUERIES, PERMUTATIONS, PERMUTATIONS if full else PART)


def compare(seed: int, queries: int, permutations: int, part: int) -> dict[str, Any]:
    """Compare both methods, the loop on `part` of the permutations."""
    tables = draw(np.random.default_rng(seed), queries)
    swaps = Swaps(permutations, seed)
    ours, test = min(
        (timed(lambda: grouped_test(*tables, swaps)) for _ in range(3)), key=lambda run: run[0]
    )
    kept = np.all([np.ptp(table, axis=1) > 0 for table in tables], axis=0)
    scores, first, second = (standard_ranks(table[kept]) for table in tables)
    masks = np.concatenate(list(swaps.masks(*scores.shape)))[:part]
    sums = cell_sums(scores, first, second)
    cases = []
    for name, correlate in LOOPS.items():
        theirs, drawn = timed(lambda: loop(scores, first, second, masks, correlate))  # noqa: B023
        theirs *= permutations / len(masks)
        observed = mean_difference(scores, first, second, correlate)
        cases.append(
            {
                "case": f"a loop with {name}",
                "ratio": round(theirs / ours, 1),
                "ours": round(ours, 4),
                "theirs": round(theirs, 2),
                "equal": equal(sums, masks, observed, drawn),
            }
        )
    return {
        "name": "permutation",
        **{key: cases[0][key] for key in ("ratio", "ours", "theirs")},
        "unit": "s",
        "equal": all(case["equal"] for case in cases),
        "queries": queries,
        "systems": SYSTEMS,
        "permutations": permutations,
        "theirs_measured_on": len(masks),
        "difference": test.difference,
        "p": test.p,
        "cases": cases,
    }


def draw(rng: np.random.Generator, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores from 1 to 5, a metric of many values and one of few, each (queries, systems)."""
    quality = rng.normal(size=(queries, SYSTEMS))
    scores, many, few = (quality + rng.normal(size=quality.shape) for _ in range(3))
    return np.clip(np.rint(scores + 3), 1, 5), many, np.rint(few)


def loop(
    scores: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    masks: np.ndarray,
    correlate: Correlate,
) -> np.ndarray:
    """The mean difference under each permutation, one after the other."""
    return np.array(
        [
            mean_difference(
                scores, np.where(mask, second, first), np.where(mask, first, second), correlate
            )
            for mask in masks
        ]
    )


def mean_difference(
    scores: np.ndarray, first: np.ndarray, second: np.ndarray, correlate: Correlate
) -> float:
    """Correlate query by query, and average the differences."""
    differences = []
    for human, x, y in zip(scores, first, second, strict=True):
        differences.append(correlate(human, x) - correlate(human, y))
    return float(np.mean(differences))


LOOPS: dict[str, Correlate] = {
    "scipy.stats.pearsonr": lambda x, y: stats.pearsonr(x, y).statistic,
    "numpy.corrcoef": lambda x, y: np.corrcoef(x, y)[0, 1],
}


def equal(sums: PairedSums, masks: np.ndarray, observed: float, drawn: np.ndarray) -> bool:
    """Whether ours gives the same difference, under each permutation too, and the same p."""
    ours = sums.differences(masks)
    return bool(
        abs(sums.difference() - observed) < CLOSE
        and np.abs(ours - drawn).max() < CLOSE
        and p_value(sums.difference(), ours) == p_value(observed, drawn)
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
