"""`hsfiq evaluate` with --intervals, --compare, --per-query and --subset."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.benchmarks import key_of, subset_of
from tests.model.evaluation.helpers import (
    BEST_RUN,
    DRESS_RUN,
    MEMBERS,
    SHIRT_RUN,
    best_of_cirr,
    evaluate,
    filled,
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
    assert (figures["name"], other["name"], other["run"]) == ("a", "b", [str(runs[1])])
    assert other["recall@1"] == 1.0
    (comparison,) = figures["comparisons"]
    assert (comparison["run"], comparison["other"]) == ("a", "b")
    gap = comparison["figures"]["recall@1"]
    assert gap["difference"] == pytest.approx(figures["recall@1"] - 1.0)
    assert (gap["n_better"], gap["n_worse"]) == (0, 5)
    assert gap["p"] == gap["p_holm"] < 0.5
    assert figures["comparison_method"]["n_permutations"] == 9999
    text = hsfiq("evaluate", "fashioniq", *named).out
    assert "a less b" in text
    assert str(runs[0]) not in text
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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put(tmp_path_factory.mktemp("run") / "run.json", SHIRT_RUN | DRESS_RUN)


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_figures_of_the_chosen_queries(data: Path, run: Path, tmp_path: Path) -> None:
    labels = write(
        tmp_path / "labels.csv",
        "query_id,label\nshirt.val.0,hard\nshirt.val.1,easy\nshirt.val.3,hard\ndress.val.0,hard\n",
    )
    figures = result("fashioniq", data, run, "--subset", f"{labels}:hard")
    # Targets at 2 and 5 of the shirts, at 6 of the dress.
    assert figures["subset"] == f"{labels}:hard"
    assert figures["n_queries"] == 3
    assert figures["categories"]["shirt"]["recall@1"] == 0.0
    assert figures["categories"]["shirt"]["recall@5"] == 1.0
    assert figures["categories"]["dress"]["recall@5"] == 0.0
    assert figures["corpus"]["size"] == 120  # all candidates stay
    all_labels = result("fashioniq", data, run, "--subset", labels)
    assert all_labels["categories"]["shirt"]["recall@1"] == pytest.approx(1 / 3)
    text = evaluate("fashioniq", data, run, "--subset", f"{labels}:hard").out
    assert f"captions forward, subset {labels}:hard: " in text


def test_notes_count_the_whole_split(data: Path, run: Path, tmp_path: Path) -> None:
    """The note on other numbers of triplets than published is about the file, not the subset."""
    ids = write(tmp_path / "ids.txt", "shirt.val.0\ndress.val.0\n")
    notes = result("fashioniq", data, run, "--subset", ids)["notes"]
    assert any("shirt val have 4 triplets" in note for note in notes)


def test_a_category_without_chosen_queries(data: Path, run: Path, tmp_path: Path) -> None:
    ids = write(tmp_path / "ids.txt", "shirt.val.1\nlasco.7\n")
    figures = result("fashioniq", data, run, "--subset", ids)
    assert (figures["n_queries"], figures["recall@1"]) == (1, 1.0)
    assert "categories" not in figures
    assert "no query of dress is in the subset" in figures["notes"]
    assert any("1 of 2 queries in the subset's file are not in" in n for n in figures["notes"])


def test_both_caption_orders_of_a_triplet(data: Path, tmp_path: Path) -> None:
    both = {f"{query}{end}": images for query, images in SHIRT_RUN.items() for end in ("", "~")}
    ids = write(tmp_path / "ids.txt", "shirt.val.1\n")
    options = ("--category", "shirt", "--captions", "both", "--subset", ids)
    figures = result("fashioniq", data, put(tmp_path / "both.json", both), *options)
    assert (figures["n_queries"], figures["recall@1"]) == (2, 1.0)


def test_queries_of_circus_by_reference_and_text(data: Path, run: Path, tmp_path: Path) -> None:
    """M-BEIR ends the text with a full stop; both shirts with s0 have the same captions."""
    labels = write(
        tmp_path / "circus.csv",
        "query_id,aggregate_label,query_text,query_image_ref\n"
        "7:1,unresolved,Is red and has dots.,mbeir_images/fashioniq_images/s0.jpg\n"
        "7:2,unresolved,Is blue.,mbeir_images/fashioniq_images/s2.jpg\n",
    )
    figures = result("fashioniq", data, run, "--subset", f"{labels}:shortcut_free")
    assert (figures["n_queries"], figures["recall@5"]) == (2, 1.0)
    assert any("1 of 2 queries" in note for note in figures["notes"])


def test_circo_and_cirr(tmp_path: Path) -> None:
    circo = write_circo(tmp_path / "circo")
    lists = put(tmp_path / "circo.json", {str(i): list(range(201, 251)) for i in range(2)})
    queries = [{"query_id": "circo_q_test_1"}, {"query_id": "circo_q_test_7"}]
    labels = write(tmp_path / "q.jsonl", "".join(json.dumps(query) + "\n" for query in queries))
    assert result("circo", circo, lists, "--subset", labels)["n_queries"] == 1
    cirr = write_cirr(tmp_path / "cirr")
    run = put(
        tmp_path / "cirr.json",
        {str(10 + i): filled([MEMBERS[6 * i + 1]], MEMBERS) for i in range(4)},
    )
    ids = write(tmp_path / "ids.txt", "12\n")
    assert result("cirr", cirr, run, "--subset", ids)["n_queries"] == 1


def test_what_is_refused(data: Path, run: Path, tmp_path: Path) -> None:
    ids = write(tmp_path / "ids.txt", "12060\n")
    line = refusal(evaluate("fashioniq", data, run, "--subset", ids))
    assert "ids.txt: line 1: none of 1 query is of FashionIQ val; ids look like" in line
    cirr = write_cirr(tmp_path / "cirr")
    refused = refusal(evaluate("cirr", cirr, run, "--split", "test1", "--subset", ids))
    assert "--subset: the targets of test1 are withheld" in refused
    refused = refusal(evaluate("cirr", cirr, run, "--submission", tmp_path / "o", "--subset", ids))
    assert "--submission: needs all queries" in refused
    assert "there is no such file" in refusal(evaluate("fashioniq", data, run, "--subset", "x.csv"))


@pytest.mark.shared
@pytest.mark.parametrize("name", ["fashioniq", "cirr", "circo"])
def test_reference_and_text_identify_queries(shared: Path, tmp_path: Path, name: str) -> None:
    """Every tenth query as M-BEIR writes it: a capital, a full stop, the image's path."""
    benchmark = getattr(benchmarks, name)(shared / "data" / name)
    queries = [query for part in benchmark.parts for query in part.queries]
    keys = {key_of(query.reference, query.text) for query in queries}
    # CIRCUS counts 6,003, 4,170 and 220 queries: M-BEIR makes one of those with the same content.
    assert len(keys) == {"fashioniq": 6003, "cirr": 4175, "circo": 220}[name]
    rows = [
        {
            "query_text": f"{query.text[:1].upper()}{query.text[1:].rstrip('.')}.",
            "query_img_path": f"mbeir_images/{query.reference.rjust(12, '0')}.jpg",
        }
        for query in queries[::10]
    ]
    labels = write(tmp_path / "l.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    chosen, notes = subset_of(benchmark, str(labels))
    ids = [query.query_id for part in chosen.parts for query in part.queries]
    assert {query.query_id for query in queries[::10]} <= set(ids)
    assert len(ids) <= len(rows) + 10
    assert notes == []
