"""Scores of training questions by scorers that were not trained on them.

A scorer separates the sets of its own training questions better than those of others. An answer
model that is fitted to these scores expects too much of the scorer: its slope is too high. So the
questions are divided into folds by their reference images, the scorer is retrained without each
fold in turn, and scores it (cross-fitting, as in Chernozhukov et al. 2018).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.model.checkpoints.checkpoint import to_json
from hsfiq.model.preference.answers import Question, answer_tensors
from hsfiq.model.preference.training_loop import Retraining, set_scores
from hsfiq.model.runtime.seeds import generator

FILE = "cross_fitting.json"
"""In the run's folder until the run has ended: the scores of the folds that are done."""


@dataclass(frozen=True, slots=True)
class DoneFolds:
    """The folds that a run has scored, kept in its folder, so that a killed run goes on."""

    path: Path
    provenance: Mapping[str, Any]

    def read(self) -> dict[int, list[list[float]]]:
        """The scores by fold; none if the file is absent, damaged or of another run."""
        try:
            content = json.loads(self.path.read_bytes())
            if content["provenance"] != self.provenance:
                return {}
            return {int(fold): scores for fold, scores in content["folds"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def write(self, folds: Mapping[int, list[list[float]]]) -> None:
        content = {"provenance": self.provenance, "folds": folds}
        with explained_write_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, to_json(content))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def cross_fitted_scores(
    retraining: Retraining, weights: Mapping[str, float], done: DoneFolds
) -> Tensor | None:
    """The scores of each question's sets by a scorer that was retrained without its fold.

    [Q, 2] float64, or None if there are too few references for two folds. The scorer is left with
    its initial weights.
    """
    questions = retraining.questions
    places = folds_of(questions, retraining.settings.folds, retraining.settings.seed)
    if len(places) < 2:
        return None
    initial = {name: value.detach().clone() for name, value in retraining.parameters.items()}
    scores = done.read()
    retraining.distributed.wait()  # until every process has read what the first one will replace
    for fold, own in enumerate(places):
        if fold in scores:
            continue
        outside = set(own)
        others = [each for place, each in enumerate(questions) if place not in outside]
        part = retraining.on(others, answer_tensors(others, weights))
        part.train()
        part.scorer.eval()
        own_scores = set_scores([questions[place] for place in own], part.scorer, part.inference)
        with torch.no_grad():
            for name, value in initial.items():
                retraining.parameters[name].copy_(value)
        scores[fold] = own_scores.tolist()
        if retraining.distributed.is_first:
            done.write(scores)
    result = torch.zeros(len(questions), 2, dtype=torch.float64)
    for fold, own in enumerate(places):
        result[own] = torch.tensor(scores[fold], dtype=torch.float64)
    return result


def folds_of(questions: Sequence[Question], n_folds: int, seed: int) -> list[list[int]]:
    """The places of the questions in each fold; those of one reference image are in one fold."""
    by_reference: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        by_reference.setdefault(question.sets[0].reference, []).append(place)
    groups = [by_reference[name] for name in sorted(by_reference)]
    n_folds = min(n_folds, len(groups))
    folds: list[list[int]] = [[] for _ in range(n_folds)]
    for row in torch.randperm(len(groups), generator=generator(seed, "folds")).tolist():
        if folds:
            min(folds, key=len).extend(groups[row])
    return [sorted(fold) for fold in folds]
