"""An analysis as text for the terminal."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given

from hsfiq import analysis as analysis_package
from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.reports.document import Column, Table, number_and_interval, number_cell
from hsfiq.analysis.reports.report import FOOTNOTE, analysis_text
from hsfiq.analysis.reports.text import folded, table_lines
from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from tests.analysis.studies import Question, bootstrap_of, few, make_release, studies

STUDY = [
    Question(1, scores=(5, 2), images=("abcde", "fghbc"), target="a"),
    Question(1, scores=(4, 1), images=("abcde", "fghbc"), target="a", participant="p2"),
    Question(2, scores=(2, 3), images=("fghbc", "abcde"), target="a"),
    Question(2, scores=(1, 2), images=("abcde", "abcdf"), target="a"),
    Question(0, scores=(3, 3), images=("abcde", "abcdf"), target="a"),
    Question(1, scores=(4, 3), images=("abcde", "abcdf"), target=None),
]


def test_the_figures_of_a_small_study() -> None:
    analysis = analyze(make_release(STUDY), [Recall(5), Recall(1)])
    text = analysis_text(analysis, tables=True)
    lines = text.splitlines()
    assert "no value for 2 sets: p1.form_1.5.1, p1.form_1.5.2" in lines[0]
    assert "6 questions, 2 people, 6 triplets (none judged by several people)" in lines[2]
    bias = lines[lines.index("Position bias") + 4].split()
    assert bias == ["0.6000", "[0.0000,", "1.0000]", "1.0000", "1.0000", "5", "2", "1"]
    rows = {tuple(line.split()[:2]): line.split()[-6:] for line in lines if "eq. 8" in line}
    assert rows["recall@5", "ge"] == ["0.6667", "[0.0000,", "1.0000]", "3", "50.0%", "0.5000"]
    assert "participants as clusters" in text
    assert FOOTNOTE not in text
    assert analysis_text(analysis, explain=True).endswith(FOOTNOTE)
    assert "nan" not in text


@few
@given(studies)
def test_any_study_can_be_printed(study: list[Question]) -> None:
    release = make_release(study)
    options = {"in_detail": len(study) % 3 == 0, "margin": 0.05}
    analysis = analyze(release, [Recall(5), Recall(2)], bootstrap_of(release, 50), **options)
    text = analysis_text(analysis, tables=True)
    assert "nan" not in text
    assert "Equivalence" in text
    assert max(map(len, text.splitlines())) <= 100
    assert not any(line != line.rstrip() for line in text.splitlines())
    rho = analysis.metrics["recall@5"].spearman.rho
    assert math.isnan(rho) or f"{rho:.4f}" in text


def test_a_table_says_why_figures_are_undefined_and_of_how_many_they_are() -> None:
    rows = (
        ("a", number_cell(0.5, n=12), number_cell(-0.25, n=7, style="signed")),
        ("b", number_cell(math.nan, "too few", n=1), number_cell(2.0, n=1)),
    )
    columns = (Column("name", "Name"), Column("x", "The first figure"), Column("y", "Second"))
    assert list(table_lines(Table("t", "A table", columns, rows, "A note."))) == [
        "  A table",
        "              The first",
        "    Name         figure   Second      n",
        "    a            0.5000  -0.2500  12, 7",
        "    b     undefined (a)   2.0000      1",
        "    A note.",
        "    (a) too few",
    ]


def test_wide_tables_are_divided_and_long_ones_are_left_out() -> None:
    columns = (Column("name", "Name"), *(Column(f"c{n}", f"Column {n}") for n in range(12)))
    row = ("a name", *(number_cell(n + 0.5) for n in range(12)))
    lines = list(table_lines(Table("t", "A table", columns, (row,))))
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if "." in line] == ["a", "a"]
    assert " ".join(lines).split().count("11.5000") == 1
    assert len(list(table_lines(Table("t", "A table", columns, (row,) * 25)))) == 2
    assert list(table_lines(Table("t", "A table", columns, ()))) == []


def test_an_undefined_figure_in_a_sentence_has_its_reason() -> None:
    without = ConfidenceInterval(
        math.nan, math.nan, 0.95, "t", "participant", 1, 9, 0, 0, None, "1 is too few"
    )
    assert number_and_interval(Estimate(0.5, 3, without)) == "0.500 (1 is too few)"
    assert number_and_interval(Estimate(math.nan, 0, None, "no vote")) == "undefined (no vote)"


PLURAL_OF_ONE = re.compile(
    r"(?<![\d.,])1 (?:human |metric |retrieved |simulated )?"
    r"(?:questions|sets|participants|people|annotators|answers|pairs|ties|triplets|scores|units|"
    r"clusters|resamples|things|queries)\b"
)


@pytest.mark.parametrize("simulated", [False, True])
def test_one_of_a_kind_is_in_the_singular(simulated: bool) -> None:
    release = make_release([Question(0, values=(1.0, 0.0))], simulated=simulated)
    bootstrap = bootstrap_of(release, 1)
    report = analysis_package.report(release, "recall@5", bootstrap=bootstrap)
    for text in (analysis_text(report.analysis), report.to_html()):
        assert PLURAL_OF_ONE.findall(text) == []
    assert "<li>1 question</li>" in report.to_html()
    assert "1 question, 1 " in analysis_text(report.analysis)


def test_long_lines_are_folded() -> None:
    text = "  " + " ".join(["word"] * 60)
    lines = folded(text).split("\n")
    assert max(map(len, lines)) <= 100
    assert all(line.startswith("    word") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == text.strip()
    assert folded("x" * 120) == "x" * 120


def test_an_undefined_pair_says_why_below_the_plot() -> None:
    study = [replace(question, participant="p1") for question in STUDY]
    lines = analysis_text(analyze(make_release(study), [Recall(5), Recall(1)])).splitlines()
    (place,) = (i for i, line in enumerate(lines) if line.startswith("recall@5 and recall@1"))
    assert lines[place].endswith("undefined")
    assert lines[place + 1] == "Undefined: a test needs more than one participant."
