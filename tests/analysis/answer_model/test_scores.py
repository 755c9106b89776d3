"""The model of the scores of a release, from the tables to text and page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from benchmarks import answer_model as benchmark
from hsfiq import analysis
from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.answer_model import AnswerModel, answer_model, fit_scores
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.cli import run
from tests.analysis.drawn_releases import BEST_FIRST
from tests.analysis.reports.helpers import check_page, quick_bootstrap
from tests.analysis.studies import Question, few, make_release, studies, write_release
from tests.analysis.test_details import nulls_without_reason


@pytest.fixture(scope="module")
def with_places(drawn: tuple[Release, pd.Series]) -> Release:
    release, _ = drawn
    places = release.preferences["question_id"].str.rsplit(".", n=1).str[-1].astype(int)
    return replace(release, preferences=release.preferences.assign(place=places))


@pytest.fixture(scope="module")
def model(with_places: Release) -> AnswerModel:
    return answer_model(with_places)


def test_the_systems_are_in_their_order_and_centred(model: AnswerModel) -> None:
    by_strength = sorted(model.systems, key=lambda name: -model.systems[name].value)
    assert by_strength == BEST_FIRST
    assert sum(each.value for each in model.systems.values()) == pytest.approx(0, abs=1e-12)
    for effect in (*model.systems.values(), model.side, model.place):
        assert effect.wald[0] < effect.value < effect.wald[1]
        excludes_0 = not effect.wald[0] <= 0 <= effect.wald[1]
        assert (effect.p < 0.05) == excludes_0
    assert sum(model.shares.values()) == pytest.approx(1)
    assert list(model.thresholds.values()) == sorted(model.thresholds.values())


def test_the_order_of_the_systems_names_does_not_matter(
    with_places: Release, model: AnswerModel
) -> None:
    turned = {name: name[::-1] for name in BEST_FIRST}
    columns = {side: with_places.preferences[side].map(turned) for side in ("system_1", "system_2")}
    other = answer_model(
        replace(with_places, preferences=with_places.preferences.assign(**columns))
    )
    for name, effect in model.systems.items():
        again = other.systems[turned[name]]
        assert (again.value, *again.wald) == pytest.approx((effect.value, *effect.wald), abs=2e-3)


def test_without_places_and_systems_the_rest_is_fitted(with_places: Release) -> None:
    bare = with_places.preferences.drop(columns=["place", "system_1", "system_2"])
    result = answer_model(replace(with_places, preferences=bare))
    assert result.systems == {}
    assert result.place.reason == "the release has no places, or they do not vary"
    assert math.isnan(result.place.value)
    assert not math.isnan(result.side.value)
    assert nulls_without_reason(result.to_json()) == []


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        ([], "the model needs 2 participants, and there is none"),
        ([Question(1)] * 3, "the model needs 2 participants, and there is 1"),
        ([Question(1, participant=name) for name in "ab"], "all scores are equal"),
    ],
)
def test_reasons(study: list[Question], reason: str) -> None:
    result = answer_model(make_release(study))
    assert result.reason == reason
    assert nulls_without_reason(result.to_json()) == []


def test_a_system_that_is_always_on_one_side_is_not_told_apart(with_places: Release) -> None:
    preferences = with_places.preferences.assign(system_1="one", system_2="two")
    result = answer_model(replace(with_places, preferences=preferences))
    assert str(result.reason).startswith("the sides or places on which systems were shown")


@settings(few, max_examples=10)
@given(studies)
def test_any_study_can_be_modelled_and_printed(study: list[Question]) -> None:
    release = make_release(study)
    result = analyze(release, [], quick_bootstrap(release), with_answer_model=True)
    json.dumps(result.to_json(), allow_nan=False)
    text = analysis_text(result)
    assert "What contributes to the scores" in text
    assert "nan" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_command_adds_the_model_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    study = [
        Question(
            1, (int(rng.integers(1, 6)), int(rng.integers(1, 6))), participant=f"p{number % 3}"
        )
        for number in range(30)
    ]
    folder = write_release(make_release(study), tmp_path / "hp")
    command = ["analyze", str(folder), "--metric", "recall@5", "--resamples", "20"]
    assert run(command) == 0
    assert "What contributes" not in capsys.readouterr().out
    assert run([*command, "--answer-model"]) == 0
    text = capsys.readouterr().out
    assert "60 scores of 3 participants about 30 triplets" in " ".join(text.split())
    assert "set 1 compared with set 2" in text
    report = analysis.report(folder, ["recall@5"], answer_model=True)
    check_page(report.to_html())
    tables = {table.name for table in report.document.tables()}
    assert {"answer_model", "answer_model_variance"} <= tables


def test_the_benchmarks_studies_have_the_parameters_they_name() -> None:
    design = benchmark.Design(40, 2)
    rows = benchmark.simulate(np.random.default_rng(3), design)
    assert len(rows) == 2 * 40 * benchmark.QUESTIONS
    assert rows.groupby("triplet")["participant"].nunique().eq(2).all()
    estimates = benchmark.estimates(fit_scores(rows))
    assert estimates["system best"][0] == pytest.approx(benchmark.SYSTEMS["best"], abs=0.15)
    assert estimates["side"][0] == pytest.approx(benchmark.SIDE, abs=0.25)
    assert estimates["sd participants"][0] == pytest.approx(benchmark.SD_PARTICIPANTS, abs=0.4)
