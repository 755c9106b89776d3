"""Benchmarks of two methods, small: both give the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import analyze_scale, export_pandas, million_answers, mining, permutation, retrieve
from benchmarks.export_million import differences
from benchmarks.retrieve import Case
from hsfiq import cli
from hsfiq.analysis.resampling.permutation import cell_sums, standard_ranks
from tests.processes import forkserver_context


def test_the_command_and_the_twin_run_on_a_drawn_release() -> None:
    result = analyze_scale.measure(seed=1, sizes=(150,), twin_size=100, resamples=10)
    assert result["equal"]
    assert result["twin_resamples"] == 11  # the rows as they are come first
    (case,) = result["cases"]
    assert case["participants"] == 3
    assert case["cpu_seconds"] > 0
    assert case["within_goal"]


def test_both_methods_give_the_same_figures() -> None:
    result = permutation.compare(seed=3, queries=12, permutations=40, part=15)
    assert result["equal"]
    assert result["theirs_measured_on"] == 15
    assert result["ratio"] == result["cases"][0]["ratio"]
    assert len(result["cases"]) == 2


def test_other_swaps_are_not_equal() -> None:
    rng = np.random.default_rng(1)
    tables = [standard_ranks(table) for table in permutation.draw(rng, 12)]
    masks, other_masks = rng.integers(2, size=(2, 6, 12, permutation.SYSTEMS), dtype=np.bool_)
    correlate = permutation.LOOPS["numpy.corrcoef"]
    observed = permutation.mean_difference(*tables, correlate)
    drawn = permutation.loop(*tables, masks, correlate)
    assert permutation.equal(cell_sums(*tables), masks, observed, drawn)
    assert not permutation.equal(cell_sums(*tables), other_masks, observed, drawn)


@pytest.mark.parametrize("size", [3, 50, 600, 1300])
def test_both_methods_give_the_same_ranking(size: int) -> None:
    ours = retrieve.streamed(5, 30, size)
    assert ours.equal(retrieve.naive(5, 30, size))
    assert not ours.equal(retrieve.naive(6, 30, size))


def test_figures_of_fewer_candidates_are_scaled_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = SimpleNamespace(get_context=lambda _method: forkserver_context())
    monkeypatch.setattr(retrieve, "multiprocessing", forked)
    result = retrieve.measure(5, (Case(40, 600, 600), Case(40, 1200, 600)))
    assert result["equal"]
    assert [case["theirs_measured_on"] for case in result["cases"]] == [600, 600]
    assert result["theirs"] == result["cases"][1]["theirs_seconds"]


def test_both_sides_write_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million_answers, "QUERIES", 40)
    monkeypatch.setattr(million_answers, "IMAGES", 100)
    url = million_answers.make_database(tmp_path / "study.db", 500, seed=0)
    ours, theirs = tmp_path / "hsfiq", tmp_path / "pandas"
    theirs.mkdir()
    assert cli.run(["export", "--database", url, "--release", "hs", "--out", str(ours)]) == 0
    export_pandas.main(str(tmp_path / "study.db"), theirs)
    assert differences(ours, theirs) == []
    n_rows = {
        name: pq.read_metadata(ours / f"{name}.parquet").num_rows for name in ("sets", "exclusions")
    }
    assert n_rows["sets"] + 2 * n_rows["exclusions"] == 1000
    assert n_rows["exclusions"] > 0


def test_both_methods_give_the_same_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "VECTORS", 2)
    result = mining.mine(seed=5, queries=60, images=80, part=40, scored_part=20)
    assert result["equal"]
    assert result["theirs_measured_on"] == 40
    assert result["ratio"] == result["cases"][0]["ratio"]
    assert [case["case"] for case in result["cases"]] == [
        "qure-code, from scores",
        "qure, from scores",
        "qure-code, with scoring",
    ]


def test_sets_of_another_rule_are_not_equal() -> None:
    scores, targets = mining.realistic_scores(60, 80, torch.Generator().manual_seed(5))
    chosen, names = torch.arange(60), [str(image) for image in range(80)]
    drawn = mining.draw_in_chunks(scores, targets, mining.PAPER, torch.rand(60, 6))
    for rule, agree in ((mining.PAPER, True), (mining.PUBLISHED, False)):
        sets = [
            mining.published_set(scores[query], int(targets[query]), names, rule.threshold or 0)
            for query in range(60)
        ]
        assert mining.equal(scores, targets, chosen, mining.PAPER, sets, drawn, names) is agree
