"""The held-out part of `report.json`: the scorer before and after its retraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hsfiq.model.preference.answers import Question, ReleaseAnswers, answer_tensors
from hsfiq.model.preference.inputs import Inputs
from hsfiq.model.preference.response_model import AnswerModel, fit_preferences, with_errors
from hsfiq.model.preference.training_loop import Retrained, set_scores
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.training.validation import ranks

if TYPE_CHECKING:
    from hsfiq.model.preference.report_statistics import Predictions


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """A scorer's scores of the held-out questions, and its ranks of the validation targets."""

    sets: Tensor  # [Q, 2]
    ranks: dict[str, Tensor]  # by corpus; empty without triplets


def score_held_out(inputs: Inputs, loaded: Loaded, inference: Inference) -> HeldOutScores:
    """Score what the report needs; `inference` is of the questions' images."""
    target_ranks: dict[str, Tensor] = {}
    if inputs.triplets is not None:
        target_ranks = ranks(
            inputs.triplets.data,
            inference.with_tokens(inputs.triplets.tokens),
            loaded.recipe.pooling,
            without_reference=loaded.recipe.dataset == "cirr",
        )
    sets = torch.zeros(0, 2)
    if inputs.held_out:
        sets = set_scores(inputs.held_out, loaded.scorer, inference)
    return HeldOutScores(sets, target_ranks)


def report_agreement(
    release: Path,
    answers: ReleaseAnswers,
    inputs: Inputs,
    before: HeldOutScores,
    after: HeldOutScores,
    retrained: Retrained,
    seed: int,
) -> dict[str, Any]:
    """Agreement with the held-out answers; null with a reason if it cannot be measured."""
    reason = None
    if not answers.has_splits:
        reason = "the release has no split: export it with --split"
    elif not inputs.held_out:
        reason = "no held-out question has all its images"
    elif find_spec("pandas") is None:
        reason = "the statistics are not installed: pip install 'hsfiq[analysis]'"
    if reason is not None:
        return {"held_out": None, "reason": reason}
    from hsfiq.model.preference.report_statistics import measure_agreement  # noqa: PLC0415

    test = [question.question_id for question in answers.part("test")]
    predictions = {
        "before": predict(inputs.held_out, before.sets, retrained.before),
        "after": predict(inputs.held_out, after.sets, retrained.final),
    }
    measured = measure_agreement(release, test, predictions, seed)
    models = {"before": (before, retrained.before), "after": (after, retrained.final)}
    if retrained.cross_fitted is not None:
        models["after_without_folds"] = (after, retrained.after)
    measured["slopes"] = {
        name: slopes(inputs.held_out, scores.sets, model)
        for name, (scores, model) in models.items()
    }
    return {"held_out": measured}


def slopes(questions: Sequence[Question], sets: Tensor, model: AnswerModel) -> dict[str, Any]:
    """The slope of the answer model, and the one that fits the held-out answers best.

    If the first is the higher one, the model is too sure of the scorer.
    """
    answers = answer_tensors(questions, dict.fromkeys((q.participant for q in questions), 1.0))
    best = fit_preferences(sets.double(), answers)
    return {"used": float(model.preferences.values[0]), "held_out": with_errors(best)[0]}


def predict(questions: Sequence[Question], sets: Tensor, model: AnswerModel) -> Predictions:
    """Predictions for questions, from the scores of their sets, [Q, 2]."""
    from hsfiq.model.preference.report_statistics import Predictions  # noqa: PLC0415 (an extra)

    scores = {
        released.set_id: score
        for question, both in zip(questions, sets.tolist(), strict=True)
        for released, score in zip(question.sets, both, strict=True)
    }
    shares = model.margins(sets).sigmoid().tolist()
    question_ids = (question.question_id for question in questions)
    return Predictions(scores, dict(zip(question_ids, shares, strict=True)))


def report_retrieval(
    recipe: Recipe, before: HeldOutScores, after: HeldOutScores, seed: int
) -> dict[str, Any]:
    """Recall on the validation triplets; null with a reason if there are none."""
    if not before.ranks or find_spec("pandas") is None:
        return {"retrieval": None, "retrieval_reason": "measured if --data names triplets"}
    from hsfiq.model.preference.report_statistics import measure_recall  # noqa: PLC0415 (an extra)

    target_ranks = {
        stage: {corpus: values.tolist() for corpus, values in scores.ranks.items()}
        for stage, scores in (("before", before), ("after", after))
    }
    return {"retrieval": measure_recall(target_ranks, recipe.val_recall, seed)}
