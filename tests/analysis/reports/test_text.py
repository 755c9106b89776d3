"""An analysis as text for the terminal."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given

from hsfiq import analysis as analysis_package
from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.reports.document import folded
from hsfiq.analysis.reports.text import FOOTNOTE, analysis_text
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
    text = analysis_text(analyze(make_release(STUDY), [Recall(5), Recall(1)]))
    lines = text.splitlines()
    assert "6 questions, 12 sets, 2 participants" in lines[0]
    assert "P(set 1 preferred) = 0.6000 [0.0000, 1.0000], n = 5, 1 human tie" in lines[1]
    assert "binomial p = 1, sign-flip test p = 1" in lines[2]
    assert "95%, Student's t, bootstrap variance; unit: participant, 2,000 resamples" in lines[3]
    assert "2 clusters are few" in lines[4]
    rows = {line.split("  ")[2]: line.split()[-6:] for line in lines if line.startswith("    ")}
    assert rows["ge"] == ["0.6667", "[0.0000,", "1.0000]", "3", "50.0%", "0.5000"]
    assert any("2 sets: p1.form_1.5.1, p1.form_1.5.2" in line for line in lines)
    assert any("gt where recall@1 ties" in line and "no pair has" in line for line in lines)
    assert text.endswith(FOOTNOTE)
    assert "nan" not in text


@few
@given(studies)
def test_any_study_can_be_printed(study: list[Question]) -> None:
    release = make_release(study)
    analysis = analyze(
        release,
        [Recall(5), Recall(2)],
        bootstrap_of(release, 50),
        in_detail=len(study) % 3 == 0,
        margin=0.05,
    )
    text = analysis_text(analysis)
    assert "nan" not in text
    assert "equivalence " in text
    assert max(map(len, text.splitlines())) <= 100
    assert not any(line != line.rstrip() for line in text.splitlines())
    rho = analysis.metrics["recall@5"].spearman.rho
    assert math.isnan(rho) or f"rho = {rho:.4f}" in text


def test_there_is_no_footnote_without_metrics() -> None:
    assert FOOTNOTE not in analysis_text(analyze(make_release(STUDY), []))


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
    assert "1 question, 2 retrieved sets, 1 participant" in report.to_html()
    assert "1 question, 2 sets, 1 participant" in analysis_text(report.analysis)


def test_long_lines_are_folded() -> None:
    text = "  " + " ".join(["word"] * 60)
    lines = folded(text).split("\n")
    assert max(map(len, lines)) <= 100
    assert all(line.startswith("    word") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == text.strip()
    assert folded("x" * 120) == "x" * 120
