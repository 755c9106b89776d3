"""`hsfiq evaluate` with --intervals, --compare and --per-query."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.model.evaluation.helpers import (
    BEST_RUN,
    DRESS_RUN,
    MEMBERS,
    SHIRT_RUN,
    best_of_cirr,
    evaluate,
    hsfiq,
    put,
    refusal,
    result,
    write_circo,
    write_cirr,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    first = put(folder / "first.json", SHIRT_RUN | DRESS_RUN)
    return first, put(folder / "second.json", BEST_RUN)


def test_intervals_beside_the_figures(data: Path, runs: tuple[Path, Path]) -> None:
    plain = result("fashioniq", data, runs[0])
    figures = result("fashioniq", data, runs[0], "--intervals")
    method = figures.pop("ci_method")
    intervals = figures.pop("ci")
    assert set(intervals) == {"recall@1", "recall@5", "recall@10", "recall@50", "mean"}
    for name, (low, high) in intervals.items():
        assert low <= figures[name] <= high
    # Two shirts' queries share a reference: three clusters of shirts, two of dresses.
    assert (method["n_clusters"], method["n_resamples"]) == (5, 2000)
    for category in figures["categories"].values():
        assert set(category.pop("ci")) == set(intervals)
    assert figures == plain
    text = evaluate("fashioniq", data, runs[0], "--intervals").out
    assert "95% intervals (5 clusters" in text


def test_two_runs_are_compared(data: Path, runs: tuple[Path, Path]) -> None:
    named = ("--data", data, "--run", f"a={runs[0]}", "--run", f"b={runs[1]}", "--compare")
    figures = hsfiq("evaluate", "fashioniq", *named, "--json").result
    (other,) = figures["compared"]
    assert (other["run"], other["recall@1"]) == ([str(runs[1])], 1.0)
    (comparison,) = figures["comparisons"]
    assert (comparison["run"], comparison["other"]) == (str(runs[0]), str(runs[1]))
    gap = comparison["figures"]["recall@1"]
    assert gap["difference"] == pytest.approx(figures["recall@1"] - 1.0)
    assert (gap["n_better"], gap["n_worse"]) == (0, 5)
    assert gap["p"] == gap["p_holm"] < 0.5
    assert figures["comparison_method"]["n_permutations"] == 9999
    text = hsfiq("evaluate", "fashioniq", *named).out
    assert f"{runs[0]} less {runs[1]}" in text
    assert "better in 0, worse in 5" in text
    assert figures == hsfiq("evaluate", "fashioniq", *named, "--json").result


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        texts = list(csv.DictReader(file))
    numbers = [name for name in texts[0] if "@" in name or name == "mean"]
    return [row | {name: float(row[name]) for name in numbers} for row in texts]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_values_by_query(data: Path, runs: tuple[Path, Path], tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"values{suffix}"
    figures = result("fashioniq", data, runs[0], "--per-query", str(path))
    assert figures["per_query"] == str(path)
    rows = rows_of(path)
    assert len(rows) == 6
    for category in ("shirt", "dress"):
        own = [row for row in rows if row["part"] == category]
        for name in ("recall@1", "recall@50"):
            mean = sum(row[name] for row in own) / len(own)
            assert mean == figures["categories"][category][name]
    assert {row["cluster"] for row in rows} == {"s0", "s2", "s4", "d0", "d2"}
    assert {row["run"] for row in rows} == {str(runs[0])}
    again = evaluate("fashioniq", data, runs[0], "--per-query", str(path))
    assert "already exists" in refusal(again)


def test_queries_of_an_image_set_are_one_cluster(tmp_path: Path) -> None:
    data = write_cirr(tmp_path / "cirr")
    path, run = tmp_path / "values.jsonl", put(tmp_path / "run.json", best_of_cirr())
    figures = result("cirr", data, run, "--intervals", "--per-query", str(path))
    assert figures["ci_method"]["n_clusters"] == 4
    first = rows_of(path)[0]
    assert first["cluster"].split() == sorted(MEMBERS[:6])
    assert first["recall_subset@1"] == 1.0
    assert first["mean"] == 1.0


def test_undefined_values_stay_empty(tmp_path: Path) -> None:
    data = write_circo(tmp_path / "circo")
    run = put(tmp_path / "run.json", {"0": list(range(201, 221)), "1": list(range(201, 251))})
    figures = result("circo", data, run, "--intervals")
    assert None not in (figures["recall@50"], figures["map@10"])
    short = put(tmp_path / "short.json", {"0": [205, 206], "1": list(range(201, 251))})
    figures = result("circo", data, short, "--intervals")
    assert figures["map@5"] is None
    assert figures["ci"]["map@5"] == [None, None]


def test_incomparable_is_refused(data: Path, runs: tuple[Path, Path], tmp_path: Path) -> None:
    first = runs[0]
    command = ("evaluate", "fashioniq", "--data", data, "--compare", "--run", f"a={first}")
    assert "names a run twice" in refusal(hsfiq(*command, "--run", f"b={first}"))
    assert "needs two named runs" in refusal(hsfiq(*command))
    assert "use .csv" in refusal(evaluate("fashioniq", data, first, "--per-query", "x.txt"))
    lists = put(tmp_path / "lists.json", SHIRT_RUN)
    refused = refusal(hsfiq(*command, "--run", f"b={lists}"))
    assert "have no list" in refused
    cirr = write_cirr(tmp_path / "cirr")
    test_run = put(tmp_path / "test.json", {})
    refused = refusal(evaluate("cirr", cirr, test_run, "--split", "test1", "--intervals"))
    assert "withheld" in refused
