"""The rows of the benchmark `fisd-drawn` that need no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fisd_drawn import LIKENESSES, case, markdown, read_lists
from hsfiq.drawn.fisd import draw_aspects, write_drawn_fisd
from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.fisd import Figures, fisd_figures


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figures]:
    folder = tmp_path_factory.mktemp("fisd") / "drawn"
    write_drawn_fisd(folder, 0, 6)
    benchmark, aspects = benchmarks.fisd(folder), draw_aspects(0, 6)
    return {
        name: fisd_figures(benchmark, read_lists(benchmark, aspects, likeness, 0), 0)
        for name, likeness in LIKENESSES.items()
    }


def test_only_the_exact_reading_answers_every_query(rows: dict[str, Figures]) -> None:
    exact, reference, text = (
        rows[name]["mean"] for name in ("exact reading", "reference alone", "text alone")
    )
    assert exact["with_reference.recall@1"].value == 1
    assert exact["with_reference.hard_negative_above_target"].value == 0
    assert reference["with_reference.recall@1"].value == 0
    assert reference["with_reference.reference_first"].value == 1
    for part in (reference, text):
        assert part["without_reference.recall@1"].value < 0.9


def test_the_tables_have_a_row_for_each_system(rows: dict[str, Figures], tmp_path: Path) -> None:
    cases = [case(name, figures) for name, figures in rows.items()]
    text = markdown({"note": "drawn", "triplets": 6, "cases": cases})
    assert text.count("| exact reading | 100.0 | 100.0 |") == 2
    assert "| 100.0 [100.0, 100.0] |" in text
