"""Intervals and paired tests of runs against literal twins, and the size of the test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.model.evaluation.comparison import (
    OVERALL,
    RESAMPLES,
    UNSETTLED,
    compare_runs,
    figure_intervals,
)
from hsfiq.model.evaluation.metrics import QueryRow

Rows = list[QueryRow]


def drawn_rows(seed: int, *, clusters: int = 12, shift: float = 0.0) -> Rows:
    """Queries of two parts, of unequal sizes, whose values depend on their cluster."""
    rng, easiness = np.random.default_rng(seed), np.random.default_rng(77)
    rows = []
    for part, n_clusters in (("dress", clusters), ("shirt", clusters // 2)):
        for cluster in range(n_clusters):
            easy = easiness.normal()
            own = rng.normal()
            for query in range(1 + cluster % 4):
                hit = float(easy + own + rng.normal() + shift > 0)
                values = {"recall@1": hit, "map@5": float(rng.random())}
                rows.append(QueryRow(f"{part}.{cluster}.{query}", part, str(cluster), values))
    return rows


def mean_of_parts(rows: Sequence[QueryRow], name: str) -> float:
    parts = dict.fromkeys(row.part for row in rows)
    own = [[row.values[name] for row in rows if row.part == part] for part in parts]
    return sum(sum(values) / len(values) for values in own) / len(own)  # type: ignore[arg-type]


def test_intervals_equal_their_twin() -> None:
    rows = drawn_rows(1)
    means: dict[str, list[float]] = {"dress": [], "shirt": [], OVERALL: []}
    streams = [np.random.default_rng((3, number)) for number in range(2)]
    for _ in range(RESAMPLES):
        drawn = []
        for part, n, stream in zip(("dress", "shirt"), (12, 6), streams, strict=True):
            own = [
                row
                for cluster in stream.integers(n, size=n)
                for row in rows
                if (row.part, row.cluster) == (part, str(cluster))
            ]
            means[part].append(mean_of_parts(own, "map@5"))
            drawn += own
        means[OVERALL].append(mean_of_parts(drawn, "map@5"))
    intervals = figure_intervals(rows, seed=3)
    for name, values in means.items():
        interval = intervals[name]["map@5"]
        assert (interval.low, interval.high) == pytest.approx(
            tuple(np.quantile(values, [0.025, 0.975]))
        )
    assert intervals[OVERALL]["map@5"].n_clusters == 18
    assert intervals["shirt"]["map@5"].n_clusters == 6


def test_the_test_equals_its_twin() -> None:
    first, second = drawn_rows(1, shift=0.5), drawn_rows(2)
    swaps = Swaps(n=99, seed=5)
    (comparison,) = compare_runs({"a": first, "b": second}, 0, swaps)
    clusters = list(dict.fromkeys((row.part, row.cluster) for row in first))
    (masks,) = swaps.masks(len(clusters))
    for name, figure in comparison.figures.items():
        observed = mean_of_parts(first, name) - mean_of_parts(second, name)
        extreme = 0
        for mask in masks:
            swapped = {cluster for cluster, flag in zip(clusters, mask, strict=True) if flag}
            mixed = [
                (b, a) if (a.part, a.cluster) in swapped else (a, b)
                for a, b in zip(first, second, strict=True)
            ]
            gap = mean_of_parts([a for a, _ in mixed], name)
            gap -= mean_of_parts([b for _, b in mixed], name)
            extreme += abs(gap) >= abs(observed) - 1e-12
        assert figure.difference == pytest.approx(observed)
        assert figure.p == (extreme + 1) / 100
        better = sum(a.values[name] > b.values[name] for a, b in zip(first, second, strict=True))  # type: ignore[operator]
        assert figure.n_better == better


def test_holm_is_over_all_pairs_of_runs() -> None:
    runs = {name: drawn_rows(seed, shift=seed) for seed, name in enumerate("abc")}
    comparisons = compare_runs(runs, 0)
    assert [each.run + each.other for each in comparisons] == ["ab", "ac", "bc"]
    p = sorted(
        (each.figures["recall@1"].p, each.figures["recall@1"].p_holm) for each in comparisons
    )
    assert p[0][1] == pytest.approx(3 * p[0][0])
    assert p[1][1] == pytest.approx(max(p[0][1], 2 * p[1][0]))
    assert p[2][1] == pytest.approx(max(p[1][1], p[2][0]))


def test_figures_that_lists_do_not_determine_are_undefined() -> None:
    rows = drawn_rows(1)
    rows[0].values["map@5"] = None
    intervals = figure_intervals(rows, 0)
    for name in (OVERALL, "dress"):
        assert math.isnan(intervals[name]["map@5"].low)
        assert intervals[name]["map@5"].reason == UNSETTLED
    assert intervals["shirt"]["map@5"].reason is None
    (comparison,) = compare_runs({"a": rows, "b": drawn_rows(2)}, 0)
    figure = comparison.figures["map@5"]
    assert math.isnan(figure.difference)
    assert math.isnan(figure.p)
    assert figure.to_json()["reason"] == UNSETTLED
    assert comparison.figures["recall@1"].reason is None


def test_one_cluster_gives_no_test() -> None:
    first, second = ([QueryRow("q", "x", "c", {"r": value})] for value in (1.0, 0.0))
    (comparison,) = compare_runs({"a": first, "b": second}, 0)
    figure = comparison.figures["r"]
    assert figure.difference == 1.0
    assert math.isnan(figure.p)
    assert "needs 2 clusters" in (figure.reason or "")
