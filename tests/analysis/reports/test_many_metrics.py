"""A report of twelve metrics: charts stay readable, tables fit the page, LaTeX compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.reports.charts import (
    TRUETYPE,
    chart_files,
    draw,
    style_of,
    style_of_series,
    to_svg,
)
from hsfiq.analysis.reports.document import CM, PAGE, VENUES, Column, NumberCell, Table, venue_of
from hsfiq.analysis.reports.html import WIDE_TABLE
from hsfiq.analysis.reports.report import Report
from hsfiq.analysis.reports.tables import FittedTable, fit, to_latex
from hsfiq.errors import UnreadableInput
from tests.analysis.reports.helpers import check_latex, check_page, quick_bootstrap
from tests.analysis.studies import Question, make_release
from tests.drawings import shared_subset

pytestmark = pytest.mark.xdist_group("full report")

needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no pdflatex: install texlive"
)
N_METRICS = 12
PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[textwidth=5.5in,textheight=9in]{geometry}
\usepackage{booktabs}
\begin{document}
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Report:
    rng = np.random.default_rng(3)
    scores = rng.integers(1, 6, size=(48, 2))
    release = make_release(
        [
            Question(1 + int(first < second), (int(first), int(second)), participant=f"p{row % 6}")
            for row, (first, second) in enumerate(scores)
        ]
    )
    folder = tmp_path_factory.mktemp("scores")
    for number in range(N_METRICS):
        values = release.sets["score"] + (number + 1) * rng.normal(size=len(release.sets))
        table = pd.DataFrame({"set_id": release.sets["set_id"], "score": values})
        table.to_csv(folder / f"a metric_of & some length {number}.csv", index=False)
    files = sorted(folder.iterdir())
    names = [file.stem for file in files]
    return analysis.report(release, names, files, quick_bootstrap(release))


def test_series_look_different() -> None:
    styles = [style_of_series(index) for index in range(78)]
    assert len({(style.colour, style.mark, style.is_hollow) for style in styles}) == 78
    first, seventh = styles[0], styles[6]
    assert first.colour == seventh.colour
    assert first.mark != seventh.mark
    assert first.line != seventh.line


def test_charts_of_many_metrics_fit_a_page_and_captions_stay_short(many: Report) -> None:
    for chart in many.document.charts():
        width, height = chart.size
        assert height <= 1.5 * width, chart.name
        assert len(chart.caption) < 400, chart.name
    (matrix,) = (chart for chart in many.document.charts() if chart.name == "comparisons")
    assert "of 66 pairs of metrics" in matrix.caption
    texts = draw(matrix, simulated=False).axes[0].texts
    assert len(texts) == 2 * 66


def test_tables_fit_the_page(many: Report) -> None:
    for table in many.document.tables():
        parts = fit(table, WIDE_TABLE)
        names = [column.key for column in table.columns]
        shown = [column.key for part in parts for column in part.table.columns]
        assert set(names) == set(shown)
        assert all(len(part.table.rows) == len(table.rows) for part in parts)
        assert all(part.width <= WIDE_TABLE for part in parts), table.name
        by_lines = fit(table, WIDE_TABLE, 5)
        assert all(len(part.table.rows) <= 5 for part in by_lines)
        # The widths that parts have taken from the whole table are those of their own columns.
        assert all(part == FittedTable.of(part.table, part.line) for part in [*parts, *by_lines])
        check_latex(to_latex(table, simulated=True, venue=VENUES["acl"]))
    assert len(fit(tables(many)["participants"], WIDE_TABLE)) > 1
    check_page(many.to_html())


def tables(report: Report) -> dict:
    return {table.name: table for table in report.document.tables()}


@needs_latex
def test_latex_compiles_and_fits_the_text(many: Report, tmp_path: Path) -> None:
    texts = [to_latex(table, simulated=True) for table in many.document.tables()]
    assert too_wide(texts, tmp_path) == []


@needs_latex
def test_the_section_for_a_paper_compiles_and_fits_the_text(many: Report, tmp_path: Path) -> None:
    assert too_wide([many.files()["section.tex"].decode()], tmp_path) == []


LONG_NAMES = (
    "my_own_scorer_v2_retrained_on_what_was_collected_here",
    "clip-vit-large-patch14-336-zero-shot/laion.2b@main",
    "W" * 60,
)


@needs_latex
def test_long_names_are_broken_in_latex(tmp_path: Path) -> None:
    columns = (Column("metric", "Metric"), *(Column(f"n{n}", f"Number {n}") for n in range(6)))
    table = Table(
        "long",
        f"Of {LONG_NAMES[0]} and {LONG_NAMES[1]}.",
        columns,
        tuple((name, *[NumberCell(0.5, bounds=(0.4, 0.6))] * 6) for name in LONG_NAMES),
        note=f"More of {LONG_NAMES[1]}, {LONG_NAMES[2]} and {LONG_NAMES[0]}.",
    )
    assert too_wide([to_latex(table, simulated=True)], tmp_path) == []


def too_wide(texts: Iterable[str], folder: Path) -> list[str]:
    """By how many points lines of these texts are too wide, where LaTeX finds it."""
    text = "\\clearpage\n".join(texts)
    (folder / "all.tex").write_text(f"{PREAMBLE}{text}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout[-2000:]
    assert "Float too large" not in process.stdout
    widths = re.findall(r"Overfull .hbox \(([\d.]+)pt too wide\)", process.stdout)
    return [width for width in widths if float(width) > 1]


@pytest.mark.parametrize(
    ("style", "is_wide", "width"),
    [("iclr", False, 5.5), ("cvpr", False, 3.25), ("cvpr", True, 6.875), ("acl", False, 7.7 * CM)],
)
def test_pdf_figures_have_the_width_of_a_venue_and_embedded_fonts(
    many: Report, style: str, is_wide: bool, width: float
) -> None:
    chart = next(chart for chart in many.document.charts() if chart.is_wide == is_wide)
    venue = venue_of(style)
    content = chart_files(chart, simulated=True, venue=venue)["pdf"]
    assert content.startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", content)
    assert float(box[1]) == pytest.approx(72 * width, abs=0.01)
    assert b"/FontFile2" in content  # TrueType, embedded
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
    assert style_of(venue)["pdf.fonttype"] == TRUETYPE
    assert style_of(venue)["font.size"] == 8


def test_the_same_figure_is_written_twice_with_the_same_bytes(many: Report) -> None:
    chart = next(chart for chart in many.document.charts() if not chart.is_wide)
    first = chart_files(chart, simulated=True, venue=venue_of("cvpr"))
    shared_subset.cache_clear()
    assert chart_files(chart, simulated=True, venue=venue_of("cvpr")) == first
    assert first["svg"] == to_svg(chart, simulated=True)


def test_an_unknown_style_is_refused() -> None:
    assert venue_of(None) is PAGE
    with pytest.raises(UnreadableInput, match="no such style: nature"):
        venue_of("nature")


def test_an_empty_release_draws_nothing() -> None:
    release = make_release([])
    report = analysis.report(release, ["recall@5"], (), quick_bootstrap(release))
    assert list(report.document.charts()) == []
    assert report.figures() == {}
    assert not any(name.startswith("figures/") for name in report.files())
    assert "so nothing is drawn" in report.to_html()


def test_a_report_without_metrics_draws_only_what_needs_none() -> None:
    release = make_release([Question(1), Question(2, participant="p2")])
    report = analysis.report(release, [], (), quick_bootstrap(release))
    assert {chart.name for chart in report.document.charts()} == {"distribution", "participants"}


def test_best_metrics_come_first_in_the_matrix(many: Report) -> None:
    rhos = {name: metric.spearman.rho for name, metric in many.analysis.metrics.items()}
    best = max(rhos, key=lambda name: rhos[name])
    (matrix,) = (chart for chart in many.document.charts() if chart.name == "comparisons")
    assert f"{best} has the highest rho" in matrix.caption
    cells = [cell for row in tables(many)["comparisons"].rows for cell in row]
    assert any(isinstance(cell, NumberCell) for cell in cells)
