"""Loading a release, metrics and resamples."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.data.metrics import Recall
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, bootstrap_of, make_release, write_release

STUDY = [Question(1, (4, 2)), Question(2, (1, 3), participant="p2")]


def test_a_folder_gives_release_metrics_and_bootstrap(tmp_path: Path) -> None:
    folder = write_release(make_release(STUDY), tmp_path / "hp")
    scores = tmp_path / "mine.csv"
    ids = make_release(STUDY).sets["set_id"]
    pd.DataFrame({"set_id": ids, "score": range(len(ids))}).to_csv(scores, index=False)
    inputs = analysis.load_inputs(
        folder, ["recall@5", "mine"], [scores], unit="row", n_resamples=7, seed=3, few_clusters=True
    )
    assert [str(metric) for metric in inputs.metrics] == ["recall@5", "mine"]
    assert list(inputs.metrics[1].values(inputs.release)) == [0, 1, 2, 3]
    bootstrap = inputs.bootstrap
    assert (bootstrap.unit, bootstrap.n_resamples) == ("row", 7)
    assert (bootstrap.seed, bootstrap.is_widened) == (3, True)


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
