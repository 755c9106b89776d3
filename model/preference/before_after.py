"""The scorer before and after its retraining, and what the report says of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hsfiq.model.preference.data import Answers, Question
from hsfiq.model.preference.fit import Retrained, set_scores
from hsfiq.model.preference.material import Material
from hsfiq.model.preference.response_model import AnswerModel
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.distributed import World
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.training.validation import ranks

if TYPE_CHECKING:
    from hsfiq.model.preference.report import Judge, Moment


@dataclass(frozen=True, slots=True)
class View:
    """What a scorer makes of the held-out questions and of the validation triplets.

    Attributes:
        sets: [Q, 2] scores.
        ranks: the targets', by corpus; nothing without triplets.
    """

    sets: Tensor
    ranks: dict[str, Tensor]


def view(material: Material, loaded: Loaded, inference: Inference, dtype: torch.dtype) -> View:
    """Score everything that the report needs; `inference` is of the questions' images."""
    found: dict[str, Tensor] = {}
    if material.triplets is not None:
        world = World(loaded.scorer.encoder.temperature.device)
        found = ranks(
            material.triplets.data,
            Inference(loaded.scorer, material.triplets.tokens, world, dtype),
            loaded.recipe.pooling,
            without_reference=loaded.recipe.dataset == "cirr",
        )
    sets = torch.zeros(0, 2)
    if material.held_out:
        sets = set_scores(material.held_out, loaded.scorer, inference)
    return View(sets, found)


def held_out(
    release: Path,
    answers: Answers,
    material: Material,
    before: View,
    after: View,
    retrained: Retrained,
    seed: int,
) -> dict[str, Any]:
    """The report on the held-out part; null with a reason where there can be none."""
    reason = None
    if not answers.has_splits:
        reason = "the release has no split: export it with --split"
    elif not material.held_out:
        reason = "no held-out question has all its images"
    elif find_spec("pandas") is None:
        reason = "the statistics are not installed: pip install 'hsfiq[analysis]'"
    if reason is not None:
        return {"held_out": None, "reason": reason}
    from hsfiq.model.preference.report import held_out_report  # noqa: PLC0415 (an extra)

    judges: dict[Moment, Judge] = {
        "before": judge(material.held_out, before.sets, retrained.before),
        "after": judge(material.held_out, after.sets, retrained.after),
    }
    asked = [it.question_id for it in answers.part("test")]
    return {"held_out": held_out_report(release, asked, judges, seed)}


def judge(questions: Sequence[Question], sets: Tensor, model: AnswerModel) -> Judge:
    """What a scorer says of questions by the scores of their sets, [Q, 2]."""
    from hsfiq.model.preference.report import Judge  # noqa: PLC0415 (an extra)

    scores = {
        set_.set_id: score
        for question, both in zip(questions, sets.tolist(), strict=True)
        for set_, score in zip(question.sets, both, strict=True)
    }
    shares = model.margins(sets).sigmoid().tolist()
    names = (it.question_id for it in questions)
    return Judge(scores, dict(zip(names, shares, strict=True)))


def retrieval(recipe: Recipe, before: View, after: View, seed: int) -> dict[str, Any]:
    """The report on validation triplets; null with a reason where there are none."""
    if not before.ranks or find_spec("pandas") is None:
        return {"retrieval": None, "retrieval_reason": "measured where --data names triplets"}
    from hsfiq.model.preference.report import retrieval as measured  # noqa: PLC0415 (an extra)

    found: dict[Moment, dict[str, list[int]]] = {
        "before": {corpus: it.tolist() for corpus, it in before.ranks.items()},
        "after": {corpus: it.tolist() for corpus, it in after.ranks.items()},
    }
    return {"retrieval": measured(found, recipe.val_recall, seed)}
