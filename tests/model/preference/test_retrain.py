"""Retraining: its steps, files and answers, and scorers that did not see the reference."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import FeatureCache, TokenSource
from hsfiq.model.preference import retrain
from hsfiq.model.preference.answers import Question, ReleaseAnswers, answer_tensors, read_answers
from hsfiq.model.preference.retrain import DoneFolds, cross_fitted_scores, folds_of
from hsfiq.model.preference.training import (
    Retraining,
    draw_negative,
    set_scores,
    split_parameters,
    without_held_out,
)
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import load_scorer
from hsfiq.model.scorer.scorer import trained_parameters
from hsfiq.releases.folder import ReleasedSet
from tests.model.preference.helpers import QUICK, Answered, report_of, retrain_shared, rewrite, rows
from tests.model.scorer.helpers import CPU, ONE_PROCESS, Drawn, files_below, in_processes

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


@torch.no_grad()
def literal(retraining: Retraining, released_set: ReleasedSet) -> float:
    """A set's score, image by image."""
    encoder = retraining.scorer.encoder
    query = encoder.compose(
        retraining.tokens.tokens([released_set.reference]), [normalise(released_set.text)]
    )[0]
    return fmean(
        max((vector @ query).item() for vector in encoder.gallery(token)[0])
        for token in (retraining.tokens.tokens([image]) for image in released_set.images)
    )


def test_the_scores_of_sets_are_means_over_images(retraining: Retraining) -> None:
    places = torch.tensor([5, 0, 17])
    expected = [
        [literal(retraining, released_set) for released_set in retraining.questions[i].sets]
        for i in (5, 0, 17)
    ]
    retraining.scorer.eval()
    literally = torch.tensor(expected)
    torch.testing.assert_close(retraining.sets(places), literally, atol=1e-5, rtol=0)
    questions = [retraining.questions[i] for i in places.tolist()]
    scores = set_scores(questions, retraining.scorer, retraining.inference)
    torch.testing.assert_close(scores.float(), literally, atol=1e-5, rtol=0)


def test_a_steps_loss_is_the_answers_likelihood(retraining: Retraining) -> None:
    answers = retraining.fit()
    (slope, bias), scores = answers.preferences.values.tolist(), answers.scores.values.tolist()
    edges = [-math.inf, *scores[1:5], math.inf]
    expected = {"preference": 0.0, "score": 0.0}
    places = [3, 9, 30]
    for place in places:
        question = retraining.questions[place]
        first, second = (literal(retraining, set_) for set_ in question.sets)
        share = 1 / (1 + math.exp(-(slope * (first - second) + bias)))
        expected["preference"] -= math.log(share if question.preferred == 1 else 1 - share) / 3
        offset = scores[5 + answers.participants.index(question.participant)]
        for score, level in zip((first, second), question.scores, strict=True):
            cumulative = [
                1 / (1 + math.exp(scores[0] * score + offset - edge)) for edge in edges[1:-1]
            ]
            cumulative = [0.0, *cumulative, 1.0]
            expected["score"] -= math.log(cumulative[level] - cumulative[level - 1]) / 6
    before = {name: parameter.clone() for name, parameter in retraining.parameters.items()}
    losses = retraining.step(torch.tensor(places), answers, iter(()))
    with torch.no_grad():
        for name, parameter in retraining.parameters.items():
            parameter.copy_(before[name])
    expected["loss"] = expected["preference"] + QUICK.score_weight * expected["score"]
    assert losses == pytest.approx(expected, abs=1e-4)


def test_negatives_are_any_image_of_the_pool_but_the_target() -> None:
    pool = ["a", "b", "c", "d"]
    for target in pool:
        first, second, third = (image for image in pool if image != target)
        drawn = [draw_negative(pool, target, u) for u in (0.0, 0.32, 0.34, 0.65, 0.67, 0.999999)]
        assert drawn == [first, first, second, second, third, third]


def test_fixed_parameters(retraining: Retraining, answered: Answered, out: Path) -> None:
    assert set(retraining.held) == {"encoder.patches"}
    first, second = (checkpoints.read(path).tensors("scorer") for path in (answered.init, out))
    unchanged = {name for name, tensor in first.items() if tensor.equal(second[name])}
    assert unchanged == {"encoder.patches"}
    assert all(parameter.requires_grad for parameter in retraining.held.values())
    for fixed, message in (
        (("encoder.eyes",), "no parameter's name"),
        (("enc",), "leaves no para"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            split_parameters(dict(retraining.scorer.named_parameters()), fixed)


def test_files_that_a_retraining_writes(answered: Answered, out: Path) -> None:
    loaded = load_scorer(out, None, CPU)
    init = checkpoints.read(answered.init)
    assert loaded.checkpoint.about["init_sha256"] == init.sha256 != loaded.checkpoint.sha256
    assert loaded.checkpoint.about["release"]["name"] == "drawn-hp"
    report = report_of(out)
    parts = [row["part"] for row in rows(answered.release, "splits")]
    assert report["simulated"]
    assert report["n_train"] == parts.count("train")
    held_out = report["held_out"]
    assert held_out["n_questions"] == parts.count("test")
    names = {figure["name"] for figure in held_out["figures"]}
    assert names == {"spearman.rho", "tie_half", "brier", "ece"}
    assert [epoch["loss"] for epoch in report["epochs"]] == sorted(
        (epoch["loss"] for epoch in report["epochs"]), reverse=True
    )
    fitted = json.loads((out / "answer_model.json").read_text())["after"]
    assert len(fitted["offsets"]) == 3
    card = (out / "README.md").read_text()
    assert init.sha256 in card
    assert "simulated" in card


def test_report_equals_the_scores_of_the_checkpoints(answered: Answered, out: Path) -> None:
    """The report's figures equal those computed from the saved scorers."""
    questions = read_answers(answered.release).part("test")
    tokens = FeatureCache.open(answered.cache, load_scorer(out, None, CPU).scorer.encoder)
    files = {path.stem: path for path in answered.pictures.iterdir()}
    tokens.fill(files, device=CPU)
    figures = {figure["name"]: figure for figure in report_of(out)["held_out"]["figures"]}
    for moment, path in (("before", answered.init), ("after", out)):
        scorer = load_scorer(path, None, CPU).scorer
        inference = Inference(scorer.encoder, tokens, ONE_PROCESS)
        sets = set_scores(questions, scorer, inference)
        right = [
            0.5 if first == second else float((first > second) == (question.preferred == 1))
            for question, (first, second) in zip(questions, sets.tolist(), strict=True)
        ]
        assert figures["tie_half"][moment]["value"] == pytest.approx(fmean(right))
        slope, bias = (
            json.loads((out / "answer_model.json").read_text())[moment][key]["value"]
            for key in ("slope", "side_bias")
        )
        errors = [
            (1 / (1 + math.exp(-(slope * (first - second) + bias))) - (question.preferred == 1))
            ** 2
            for question, (first, second) in zip(questions, sets.tolist(), strict=True)
        ]
        assert figures["brier"][moment]["value"] == pytest.approx(fmean(errors), abs=1e-6)


def test_same_retraining_gives_same_weights(answered: Answered, out: Path, tmp_path: Path) -> None:
    second = answered.retrain(tmp_path / "again")
    assert second.sha256 == checkpoints.read(out).sha256
    before = files_below(out)
    assert answered.retrain(out).sha256 == second.sha256
    assert files_below(out) == before
    other_seed = answered.retrain(tmp_path / "other", replace(QUICK, seed=2))
    assert other_seed.sha256 != second.sha256


def test_held_out_answers_are_not_trained_on(answered: Answered, out: Path, release: Path) -> None:
    test = {row["question_id"] for row in rows(release, "splits") if row["part"] == "test"}

    def turn(row: dict[str, Any]) -> None:
        if row["question_id"] in test:
            row["preferred"] = 3 - row["preferred"]
            row["score_1"], row["score_2"] = row["score_2"], row["score_1"]

    rewrite(release, "preferences", turn)
    changed = answered.retrain(release.with_name("out"), release=release)
    assert changed.sha256 == checkpoints.read(out).sha256
    assert report_of(changed.path.parent)["held_out"] != report_of(out)["held_out"]


def test_triplets_are_mixed_in(answered: Answered, drawn: Drawn, out: Path, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=1)
    mixed = answered.retrain(tmp_path / "mixed", replace(settings, mix=1.0), data=drawn.data)
    separate = answered.retrain(tmp_path / "apart", settings, data=drawn.data)
    assert mixed.sha256 != separate.sha256
    first = report_of(tmp_path / "mixed")
    assert first["epochs"][0]["triplet"] > 0
    assert first["epochs"][0]["loss"] == pytest.approx(
        first["epochs"][0]["preference"]
        + settings.score_weight * first["epochs"][0]["score"]
        + first["epochs"][0]["triplet"]
    )
    assert "triplet" not in report_of(tmp_path / "apart")["epochs"][0]
    assert first["retrieval"]["n_triplets"] == len(drawn.data.val)
    names = {figure["name"] for figure in first["retrieval"]["figures"]}
    assert names == {"recall@1", "recall@5"}
    assert report_of(out)["retrieval"] is None


def test_held_out_triplets_are_not_mixed_in(drawn: Drawn) -> None:
    first = drawn.data.train[0]
    answers = ReleaseAnswers(
        {}, (), has_splits=True, held_out=frozenset({(first.reference, first.target)})
    )
    remaining = without_held_out(drawn.data, answers)
    assert first in drawn.data.train
    assert first not in remaining.train
    assert len(remaining.train) == len(drawn.data.train) - 1


def test_without_a_split_nothing_is_held_out(answered: Answered, release: Path) -> None:
    (release / "splits.parquet").unlink()
    manifest = json.loads((release / "manifest.json").read_text())
    del manifest["split"]
    (release / "manifest.json").write_text(json.dumps(manifest))
    out = release.with_name("out")
    answered.retrain(out, replace(QUICK, epochs=1), release=release)
    report = report_of(out)
    assert report["n_train"] == 150
    assert report["held_out"] is None
    assert "no split" in report["reason"]


def test_images_that_are_missing(answered: Answered, release: Path, tmp_path: Path) -> None:
    pictures = shutil.copytree(answered.pictures, tmp_path / "pictures")
    missing = read_answers(release).part("train")[0].sets[0].images[0]
    next(pictures.glob(f"{missing}.*")).unlink()
    poorer = replace(answered, pictures=pictures)
    poorer.retrain(tmp_path / "out", replace(QUICK, epochs=1))
    lacking = [
        question.question_id
        for question in read_answers(release).questions
        if missing in question.images
    ]
    report = report_of(tmp_path / "out")
    assert sorted(report["left_out"]) == sorted(lacking)
    assert report["n_train"] + report["held_out"]["n_questions"] == 150 - len(lacking)
    for path in pictures.iterdir():
        path.unlink()
    with pytest.raises(NothingToDo, match="no training question has all its images"):
        poorer.retrain(tmp_path / "none")


def test_a_leak_is_refused(answered: Answered, release: Path) -> None:
    """A triplet is in both parts: the first test question is moved to train."""
    parts = rows(release, "splits")
    query = {row["question_id"]: row["query_id"] for row in rows(release, "preferences")}
    test = next(row["question_id"] for row in parts if row["part"] == "test")
    train = next(row["question_id"] for row in parts if row["part"] == "train")

    def plant(row: dict[str, Any]) -> None:
        if row["question_id"] == train:
            row["query_id"] = query[test]

    rewrite(release, "preferences", plant)
    with pytest.raises(UnreadableInput, match="leaks"):
        answered.retrain(release.with_name("out"), release=release)
    assert not release.with_name("out").exists()


def test_a_participant_in_both_parts_is_refused(answered: Answered, release: Path) -> None:
    """Split by participant, and one held-out answer is moved to train."""
    by_person = {row["question_id"]: row["participant_id"] for row in rows(release, "preferences")}
    people = sorted(set(by_person.values()))
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    manifest["split"]["by"] = "participant"
    (release / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    def part(row: dict[str, Any]) -> None:
        row["part"] = "test" if by_person[row["question_id"]] == people[0] else "train"

    rewrite(release, "splits", part)
    answered.retrain(release.with_name("sound"), replace(QUICK, epochs=1), release=release)
    planted = next(name for name, person in by_person.items() if person == people[0])

    def plant(row: dict[str, Any]) -> None:
        if row["question_id"] == planted:
            row["part"] = "train"

    rewrite(release, "splits", plant)
    with pytest.raises(UnreadableInput, match="leaks"):
        answered.retrain(release.with_name("out"), release=release)
    assert not release.with_name("out").exists()


def test_two_processes_equal_one(answered: Answered, drawn: Drawn, tmp_path: Path) -> None:
    """The batches of 9 leave one question over, fewer than there are processes."""
    settings = replace(QUICK, epochs=1, batch=9, folds=2, mix=0.5)
    data = drawn.first(10)
    alone, together = tmp_path / "alone", tmp_path / "together"
    answered.retrain(alone, settings, data=data)
    in_processes(2, retrain_shared, answered, settings, data, together)
    first, second = (checkpoints.read(each).tensors("scorer") for each in (alone, together))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if not name.endswith("k.bias"):  # its gradient is 0 but for rounding, which AdamW scales up
            assert (tensor - second[name]).abs().max() < 2e-4, name
    ours, theirs = report_of(alone), report_of(together)
    assert ours["n_train"] == theirs["n_train"]
    assert ours["epochs"][0] == pytest.approx(theirs["epochs"][0], abs=1e-4)
    assert {path.suffix for path in alone.iterdir()} == {path.suffix for path in together.iterdir()}
    assert len(list(together.iterdir())) == len(list(alone.iterdir()))
