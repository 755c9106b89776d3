"""Cross-fitting: every question is scored by a scorer that was not trained on its reference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsfiq.model.features import TokenSource
from hsfiq.model.preference import retrain
from hsfiq.model.preference.answers import Question, answer_tensors, read_answers
from hsfiq.model.preference.retrain import DoneFolds, cross_fitted_scores, folds_of
from hsfiq.model.preference.training import Retraining, set_scores
from hsfiq.model.scorer.loading import load_scorer
from hsfiq.model.scorer.scorer import trained_parameters
from tests.model.preference.helpers import QUICK, Answered, report_of
from tests.model.training.helpers import CPU, ONE_PROCESS

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]

FOLDED = replace(QUICK, epochs=1, folds=3)


def begun(answered: Answered, questions: list[Question], tokens: TokenSource) -> Retraining:
    """A retraining from the first checkpoint."""
    loaded = load_scorer(answered.init, None, CPU)
    answers = answer_tensors(questions, weights_of(questions))
    return Retraining(
        loaded.scorer, loaded.recipe, FOLDED, questions, answers, tokens, ONE_PROCESS, torch.float32
    )


def weights_of(questions: list[Question]) -> dict[str, float]:
    return dict.fromkeys((question.participant for question in questions), 1.0)


@pytest.fixture(scope="module")
def questions(answered: Answered) -> list[Question]:
    return read_answers(answered.release).part("train")


@pytest.fixture(scope="module")
def apart(
    answered: Answered,
    questions: list[Question],
    retraining: Retraining,
    tmp_path_factory: pytest.TempPathFactory,
) -> Tensor:
    """The scores of all questions, each by a scorer that was trained on others: [Q, 2]."""
    done = DoneFolds(tmp_path_factory.mktemp("folds") / "done.json", {"run": 1})
    training = begun(answered, questions, retraining.tokens)
    initial = {name: value.clone() for name, value in trained_parameters(training.scorer).items()}
    scores = cross_fitted_scores(training, weights_of(questions), done)
    assert scores is not None
    for name, value in trained_parameters(training.scorer).items():
        assert value.equal(initial[name]), name
        assert value.requires_grad
    return scores


def test_a_fold_has_all_questions_of_its_references(questions: list[Question]) -> None:
    folds = folds_of(questions, 3, seed=5)
    assert sorted(place for fold in folds for place in fold) == list(range(len(questions)))
    references = [{questions[place].sets[0].reference for place in fold} for fold in folds]
    assert not references[0] & references[1]
    assert not (references[0] | references[1]) & references[2]
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 8
    assert folds_of(questions, 3, seed=6) != folds
    assert folds_of(questions, 0, seed=5) == []


def test_each_fold_is_scored_without_it(
    answered: Answered, questions: list[Question], retraining: Retraining, apart: Tensor
) -> None:
    for fold in folds_of(questions, FOLDED.folds, FOLDED.seed):
        others = [each for place, each in enumerate(questions) if place not in fold]
        training = begun(answered, others, retraining.tokens)
        training.train()
        training.scorer.eval()
        expected = set_scores(
            [questions[place] for place in fold], training.scorer, training.inference
        )
        assert apart[fold].equal(expected)


def test_a_killed_run_computes_only_the_folds_that_are_missing(
    answered: Answered,
    questions: list[Question],
    retraining: Retraining,
    apart: Tensor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed(Exception):
        pass

    done = DoneFolds(tmp_path / "out" / "done.json", {"run": 2})
    training = begun(answered, questions, retraining.tokens)
    scored: list[int] = []

    def killed_at_the_second(*arguments: object) -> Tensor:
        scored.append(1)
        if len(scored) == 2:
            raise Killed
        return set_scores(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(retrain, "set_scores", killed_at_the_second)
    with pytest.raises(Killed):
        cross_fitted_scores(training, weights_of(questions), done)
    assert list(done.read()) == [0]
    assert DoneFolds(done.path, {"run": 3}).read() == {}  # of another run
    again = begun(answered, questions, retraining.tokens)
    scores = cross_fitted_scores(again, weights_of(questions), done)
    assert scores is not None
    assert scores.equal(apart)
    assert len(scored) == 2 + 2


@pytest.mark.parametrize("content", ["", "[]", "{", '{"provenance": {"run": 4}}'])
def test_a_damaged_file_of_folds_is_not_used(tmp_path: Path, content: str) -> None:
    done = DoneFolds(tmp_path / "done.json", {"run": 4})
    assert done.read() == {}
    done.path.write_text(content)
    assert done.read() == {}


def test_the_final_answer_model_is_fitted_to_them(answered: Answered, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=3, lr=3e-3, folds=2)
    answered.retrain(tmp_path / "out", settings)
    fitted = json.loads((tmp_path / "out" / "answer_model.json").read_text())
    own, without = (fitted[name]["slope"]["value"] for name in ("after", "after_without_folds"))
    assert own < without  # trained hard on few answers, the scorer fits them too well
    measured = report_of(tmp_path / "out")["held_out"]["slopes"]
    assert measured["after"]["used"] == pytest.approx(own)
    assert measured["after_without_folds"]["used"] == pytest.approx(without)
    assert measured["after"]["held_out"] == measured["after_without_folds"]["held_out"]
    assert not (tmp_path / "out" / retrain.FILE).exists()
