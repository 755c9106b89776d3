"""`hsfiq analyze`: its inputs, its figures and categories of queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given

from hsfiq import analysis
from hsfiq.analysis.analyze import BETWEEN, CHOSEN_PAIRS, WITHIN, Analysis, analyze, categories
from hsfiq.analysis.data.metrics import Recall, ScoreColumn
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import position_bias, preference_rates
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    few,
    make_release,
    studies,
    values_of,
    write_release,
)
from tests.analysis.test_details import nulls_without_reason

STUDY = [Question(1, (4, 2)), Question(2, (1, 3), participant="p2")]


def test_a_folder_gives_release_metrics_and_bootstrap(tmp_path: Path) -> None:
    folder = write_release(make_release(STUDY), tmp_path / "hp")
    scores = tmp_path / "mine.csv"
    ids = make_release(STUDY).sets["set_id"]
    pd.DataFrame({"set_id": ids, "score": range(len(ids))}).to_csv(scores, index=False)
    inputs = analysis.load_inputs(
        folder, ["recall@5", "mine"], [scores], unit="row", n_resamples=7, seed=3
    )
    assert [str(metric) for metric in inputs.metrics] == ["recall@5", "mine"]
    assert list(inputs.metrics[1].values(inputs.release)) == [0, 1, 2, 3]
    bootstrap = inputs.bootstrap
    assert (bootstrap.unit, bootstrap.n_resamples) == ("row", 7)
    assert bootstrap.seed == 3


def test_one_metric_and_one_file_need_no_list(tmp_path: Path) -> None:
    release = make_release(STUDY)
    scores = tmp_path / "mine.csv"
    pd.DataFrame({"set_id": release.sets["set_id"], "score": 1.0}).to_csv(scores, index=False)
    for metric in ("recall@5", Recall(5)):
        assert analysis.load_inputs(release, metric).metrics == (Recall(5),)
    for file in (scores, str(scores)):
        assert list(analysis.load_inputs(release, "mine", file).release.scores) == ["mine"]
    report = analysis.report(release, metrics="recall@5", bootstrap=bootstrap_of(release, 5))
    assert list(report.analysis.metrics) == ["recall@5"]


def test_a_release_in_memory_gets_further_scores_files(tmp_path: Path) -> None:
    release = make_release(STUDY)
    scores = tmp_path / "mine.csv"
    pd.DataFrame({"set_id": release.sets["set_id"], "score": 1.0}).to_csv(scores, index=False)
    assert analysis.load_inputs(release, [Recall(5)], [scores]).release.scores["mine"] == scores
    assert not release.scores


def test_only_one_part_of_the_split_is_kept(tmp_path: Path) -> None:
    folder = write_release(make_release(STUDY), tmp_path / "hp")
    questions = make_release(STUDY).preferences["question_id"]
    split = pd.DataFrame({"question_id": questions, "part": ["train", "test"]})
    split.to_parquet(folder / "splits.parquet")
    inputs = analysis.load_inputs(folder, ["recall@5"], part="test")
    assert list(inputs.release.preferences["question_id"]) == [questions.iloc[1]]
    report = analysis.report(folder, ["recall@5"], part="test")
    assert report.analysis.release.part == "test"
    assert report.analysis.release.n_questions == 1


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(UnreadableInput) as error_info:
        analysis.load_inputs(make_release(STUDY), ["recall@5"], part="validation")
    assert error_info.value.where == "part"


CATEGORY_STUDY = [
    Question(1, (4, 2), participant="p1", values=(2, 1)),
    Question(2, (4, 5), participant="p1", values=(2, 1)),
    Question(1, (5, 1), participant="p2", values=(3, 0)),
    Question(2, (1, 2), participant="p2", values=(0, 1)),
]


def with_categories(named: list[str | None]) -> Release:
    release = make_release(CATEGORY_STUDY)
    release.queries["category"] = named
    return release


def test_each_category_is_a_release_of_its_own(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    result = categories(release, {"oracle": utilities}, bootstrap_of(release, 50))
    assert list(result.figures) == ["dress", "shirt", "toptee"]
    assert result.note == BETWEEN
    of_query = release.queries.set_index("query_id")["category"]
    for name, figures in result.figures.items():
        preferences = release.preferences[release.preferences["query_id"].map(of_query) == name]
        sets = release.sets[release.sets["query_id"].map(of_query) == name]
        assert (figures.n_questions, figures.n_participants) == (400, 10)
        assert figures.spearman["oracle"].rho == spearman(sets, utilities).rho
        plain = preference_rates(preferences, utilities)
        for rate in ("ge", "symmetric", "tie_half"):
            assert getattr(figures.preference["oracle"], rate).rate == getattr(plain, rate).rate
        assert figures.position_bias.rate == position_bias(preferences).rate
        ci = figures.spearman["oracle"].ci
        assert ci.n_clusters == 10
        assert ci.low < figures.spearman["oracle"].rho < ci.high


@pytest.mark.parametrize(
    ("named", "note"),
    [
        (["shirt", "shirt", "dress", "dress"], BETWEEN),
        (["shirt", "dress", "shirt", "dress"], WITHIN),
        (["shirt", "shirt", None, ""], None),
    ],
)
def test_the_note_says_whether_participants_differ(
    named: list[str | None], note: str | None
) -> None:
    release = with_categories(named)
    result = categories(release, {"m": values_of(CATEGORY_STUDY)}, bootstrap_of(release, 5))
    assert result.note == note
    assert set(result.figures) == {name for name in named if name}


def test_without_categories_there_is_a_reason() -> None:
    release = make_release(CATEGORY_STUDY)
    bootstrap = bootstrap_of(release, 5)
    result = categories(release, {}, bootstrap).to_json()
    assert result == {"categories": None, "reason": "the release names no categories"}
    empty = categories(with_categories([None] * 4), {}, bootstrap)
    assert empty.reason == "no question has a category"


RATE = {"rate", "n", "coverage"}


def strict(analysis: Analysis) -> dict[str, Any]:
    """The result as a strict JSON reader gets it: NaN and numpy numbers would be errors."""
    written: dict[str, Any] = json.loads(json.dumps(analysis.to_json(), allow_nan=False))
    return written


SAME = Question(0, (5, 1), ("ebcda", "abcde"), target="e", values=(None, None))


@few
@given(studies)
@example([SAME, replace(SAME, participant="p2")])  # every resample has the same rho
def test_the_json_keys_that_other_tools_read(study: list[Question]) -> None:
    small = make_release(study)
    bootstrap = bootstrap_of(small, 50)
    result = strict(analyze(small, [Recall(5), Recall(1)], bootstrap))
    assert nulls_without_reason(result) == [".release.part"]  # none was taken
    assert set(result) == {
        *("release", "notes", "human_score", "position_bias", "metrics", "comparisons"),
        *("metric_ranks", "shared_triplets", "verdicts", "answer"),
    }
    release = result["release"]
    assert {"name", "kind", "n_questions", "n_sets", "n_participants"} <= set(release)
    assert release["n_sets"] == 2 * release["n_questions"] == 2 * len(study)
    assert {"W", "p"} <= set(result["human_score"]["normality"])
    assert {"rate", "n", "p"} <= set(result["position_bias"])
    assert list(result["metrics"]) == ["recall@5", "recall@1"]
    for metric in result["metrics"].values():
        assert {"W", "p"} <= set(metric["normality"])
        assert {"rho", "p", "n"} <= set(metric["spearman"])
        assert {"ci", "ci_method", "independent_ci"} <= set(metric["spearman"])
        assert set(metric["within_participant"]) == {"mean", "centred"}
        for rate in ("ge", "gt", "symmetric", "tie_half"):
            assert set(metric["preference_rate"][rate]) >= {*RATE, "ci", "ci_method"}
    assert set(result["metrics"]["recall@5"]["preference_rate"]["given_tie"]) == {"recall@1"}


def test_an_empty_release_gives_reasons() -> None:
    analysis = analyze(make_release([]), [Recall(5)])
    result = strict(analysis)
    assert result["release"]["n_participants"] == 0
    assert result["position_bias"]["reason"] == "no question has a preference"
    assert result["metrics"]["recall@5"]["preference_rate"]["ge"]["rate"] is None
    assert "no answers" in analysis_text(analysis)


def test_a_single_metric_has_no_given_tie() -> None:
    result = strict(analyze(make_release([Question(1)]), [Recall(5), Recall(5)]))
    assert "given_tie" not in result["metrics"]["recall@5"]["preference_rate"]


def test_no_metric_is_not_an_error() -> None:
    assert strict(analyze(make_release([Question(1)]), []))["metrics"] == {}


def test_an_unknown_name_among_others_is_an_error() -> None:
    with pytest.raises(UnreadableInput, match="no such metric"):
        analyze(make_release([Question(1)]), [Recall(5), ScoreColumn("recal")])


def test_simulated_answers_say_so() -> None:
    for simulated in (True, False):
        analysis = analyze(make_release([Question(1)], simulated=simulated), [Recall(5)])
        assert strict(analysis)["release"]["simulated"] is simulated
        assert ("SIMULATED" in analysis_text(analysis)) is simulated


def test_pairs_chosen_for_a_scorer_are_noted() -> None:
    release = make_release([Question(1), Question(2)])
    assert analyze(release, [Recall(5)], bootstrap_of(release, 5)).notes == ()
    chosen = replace(release, is_chosen=True)
    analysis = analyze(chosen, [Recall(5)], bootstrap_of(chosen, 5))
    assert analysis.notes == (CHOSEN_PAIRS,)
    assert "NOTE: The pairs were chosen because" in analysis_text(analysis)


def test_all_intervals_come_from_the_given_bootstrap() -> None:
    release = make_release(simulate(np.random.default_rng(3), 6, 8))
    bootstrap = Bootstrap.of_release(release, unit="row", n_resamples=70, seed=5)
    result = strict(analyze(release, [Recall(5), Recall(1)], bootstrap))
    methods = list(values_of_key(result, "ci_method"))
    assert len(methods) > 10
    for method in methods:
        assert method["n_resamples"] == (0 if "clustered" in method["method"] else 70)
        assert method["seed"] == 5
    assert result["position_bias"]["ci_method"]["unit"] == "row"
    within = result["metrics"]["recall@5"]["within_participant"]
    assert within["mean"]["ci_method"]["unit"] == "participant"


def values_of_key(value: object, key: str) -> Iterator[dict[str, Any]]:
    """All objects under this key, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from values_of_key(inner, key)


def simulate(rng: np.random.Generator, n_participants: int, n_questions: int) -> list[Question]:
    """Answers that follow a hidden quality, with which recall correlates."""
    study = []
    for participant in range(n_participants):
        for _ in range(n_questions):
            quality = rng.normal(size=2)
            images = ["tbcde" if rng.random() < 0.3 + 0.1 * q else "abcde" for q in quality]
            low, high = (int(score) for score in np.clip(np.round(quality + 3), 1, 5))
            answer = 1 if quality[0] > quality[1] else 2
            study.append(Question(answer, (low, high), tuple(images), "t", f"p{participant}"))
    return study


def test_a_complete_study_of_6100_sets() -> None:
    release = make_release(simulate(np.random.default_rng(8), 61, 50), folder=Path("whole"))
    analysis = analyze(release, [Recall(5)])
    result = strict(analysis)
    assert result["release"]["n_sets"] == 6_100
    assert result["release"]["n_participants"] == 61
    for variable in (result["human_score"], result["metrics"]["recall@5"]):
        assert variable["normality"]["approximate"] is True
        assert variable["normality"]["second"]["p"] < 1e-3
    assert 0.1 < result["metrics"]["recall@5"]["spearman"]["rho"] < 0.4
    assert result["metrics"]["recall@5"]["preference_rate"]["symmetric"]["rate"] > 0.6
    assert "K2" in analysis_text(analysis, tables=True)
