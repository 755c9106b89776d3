"""The figures of benchmarks of statistics, on few studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import monitoring
from benchmarks.fisd_drawn import LIKENESSES, case, markdown, read_lists
from benchmarks.rounds import FISD, TABLE_6, WAYS, case_table, cases_of, finding_table, findings
from hsfiq.analysis.sessions.ranks import Rules
from hsfiq.drawn.fisd import draw_aspects, write_drawn_fisd
from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.fisd import Figures, fisd_figures
from tests.analysis.sessions.tables import Ranks, measured


def test_the_usual_interval_equals_its_twin() -> None:
    shares, _ = monitoring.study(np.random.default_rng(2), people=40)
    for rate in (0.5, 0.58, 0.6, 0.62):
        excluded = []
        for n in range(monitoring.FIRST_USUAL_LOOK, 41):
            interval = stats.t.interval(
                0.95, n - 1, shares[:n].mean(), shares[:n].std(ddof=1) / np.sqrt(n)
            )
            excluded.append(not interval[0] <= rate <= interval[1])
        assert monitoring.usual_excludes(shares, rate) == any(excluded)


def test_watched_studies_have_their_rate() -> None:
    shares, own = monitoring.study(np.random.default_rng(0), people=20_000)
    assert [shares.mean(), own] == pytest.approx([0.6, 0.6], abs=3e-3)
    single_questions, _ = monitoring.study(np.random.default_rng(0), people=500, questions=1)
    assert set(single_questions) == {0.0, 1.0}


def test_few_watched_studies() -> None:
    result = monitoring.measure(0, 10)
    assert result["highest_error"] <= 0.2
    assert len(result["cases"]) == len(monitoring.DESIGNS) + len(monitoring.RATES)
    text = monitoring.markdown(result)
    assert "| 0.65 |" in text
    assert "budget: " in text


QUERIES = [f"q{number}" for number in range(8)]


def ways(other: list[int]) -> dict[str, dict[str, Ranks]]:
    return {
        FISD: {query: [9, 3, 2, 2, 2] for query in QUERIES},
        "no history": {query: [9, *other[:3], other[3] + (query == "q0")] for query in QUERIES},
    }


def test_a_case_has_the_rounds_that_are_printed() -> None:
    first, _ = cases_of(measured(ways([3, 4, 4, 1]), Rules(ks=(1, 10))), "sprc")
    assert {n: each["value"] for n, each in first["mean rank"].items()} == {1: 9, 3: 2, 5: 2}
    assert first["Hits@10"].keys() == {5}
    assert "| sprc | FISD's protocol | 0.000" in case_table([first])[2]


def test_what_comes_out_otherwise_is_said() -> None:
    analyses = {
        "yes": measured(ways([3, 4, 4, 4]), Rules(ks=(1, 10))),
        "no": measured(ways([3, 1, 1, 1]), Rules(ks=(1, 10))),
        "not settled": measured(ways([3, 2, 2, 2]), Rules(ks=(1, 10))),
    }
    for expected, analysis in analyses.items():
        (line,) = findings(analysis, "sprc")
        assert line["as in FISD"] == expected
        assert finding_table([line])[2].endswith(f"| 2.93 / 2.39 | {expected} |")


def test_the_ablations_of_fisds_table_are_played() -> None:
    assert set(TABLE_6) < set(WAYS)
    assert next(iter(WAYS)) == FISD


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
    assert "[100.0, 100.0]" not in text  # without a spread, no interval
