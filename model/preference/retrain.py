"""A retraining from end to end: release, images, tokens, training, report, checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsfiq.atomic_files import explained_write_errors, indented_json, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import (
    ANSWER_MODEL,
    EARLIER_RELEASES,
    LAST,
    Checkpoint,
    trained_on,
)
from hsfiq.model.data import TrainingData
from hsfiq.model.preference.answer_model import fit_answers
from hsfiq.model.preference.answers import (
    Question,
    ReleaseAnswers,
    answer_tensors,
    dropped_contradictions,
    read_answers,
    reliability_weights,
)
from hsfiq.model.preference.report import (
    earlier_release_notes,
    report_agreement,
    report_retrieval,
    score_held_out,
    write_retraining_card,
)
from hsfiq.model.preference.training import (
    NAME,
    Retrained,
    Retraining,
    Settings,
    prepare_inputs,
    set_scores,
)
from hsfiq.model.recipes import Recipe
from hsfiq.model.runtime import Distributed, generator
from hsfiq.model.scorer.inference import precision
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import Loaded, ScorerPaths, load_scorer
from hsfiq.model.scorer.run import ABOUT, content_sha256, jsonable
from hsfiq.model.scorer.scorer import trained_parameters

# Scores of training questions by scorers that were not trained on them.
#
# A scorer separates the sets of its own training questions better than those of others. An answer
# model that is fitted to these scores expects too much of the scorer: its slope is too high. So the
# questions are divided into folds by their reference images, the scorer is retrained without each
# fold in turn, and scores it (cross-fitting, as in Chernozhukov et al. 2018).

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
            write_whole(self.path, indented_json(content))

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


REPORT = "report.json"


def retrain(
    release: Path,
    out: Path,
    paths: ScorerPaths,
    settings: Settings,
    data: TrainingData | None,
    distributed: Distributed,
    callback: Callback,
) -> Checkpoint:
    """Retrain a scorer, unless the folder holds the same retraining; refuse another run's folder.

    Several processes share each batch of questions; the first one writes.

    `paths` are of the checkpoint to start from, images, weights and cache; `data` are triplets to
    measure recall on, and to mix in if `settings.mix` is above 0. `report.json` and the other files
    are beside the checkpoint. UnreadableInput for a split that leaks; NothingToDo if there is no
    question to train on.
    """
    if settings.mix and data is None:
        raise UnreadableInput("mix", "needs triplets to mix in", "give --data")
    answers = read_answers(release)
    loaded = load_scorer(paths.required("checkpoint"), paths.weights, distributed.device)
    provenance = provenance_of(answers, loaded, settings, data)
    earlier = same_retraining(out, provenance)
    if earlier is not None:
        return earlier
    inputs = prepare_inputs(release, paths, answers, loaded, data, distributed, callback)
    weights = {question.participant: 1.0 for question in inputs.train}
    if settings.reliability == "on":
        weights = reliability_weights(inputs.train, dropped_contradictions(release))
    retraining = Retraining(
        loaded.scorer,
        loaded.recipe,
        settings,
        inputs.train,
        answer_tensors(inputs.train, weights),
        inputs.tokens,
        distributed,
        training_dtype(loaded.recipe, distributed.device),
        inputs.triplets,
        epochs_told(settings, inputs.train, callback),
    )
    before = score_held_out(inputs, loaded, retraining.inference)
    done = DoneFolds(out / FILE, provenance)
    apart = cross_fitted_scores(retraining, weights, done)
    retrained = retraining.train()
    if apart is not None:
        model = fit_answers(apart, retraining.answers, settings.offset_sd)
        retrained = replace(retrained, cross_fitted=model)
    after = score_held_out(inputs, loaded, retraining.inference)
    report = {
        "simulated": bool(answers.about.get("simulated", False)),
        "notes": earlier_release_notes(provenance),
        "n_train": len(inputs.train),
        "n_left_out": len(inputs.left_out),
        "left_out": inputs.left_out,
        "epochs": retrained.epochs,
        **report_agreement(release, answers, inputs, before, after, retrained, settings.seed),
        **report_retrieval(loaded.recipe, before, after, settings.seed),
    }
    if distributed.is_first:
        write(out, provenance, loaded, retrained, report)
        done.remove()
    distributed.wait()
    return checkpoints.read(out)


def epochs_told(
    settings: Settings, questions: Sequence[Question], callback: Callback
) -> Callable[[], None]:
    """To be called after each epoch, also of a fold."""
    n_folds, done = len(folds_of(questions, settings.folds, settings.seed)), count(1)
    total = settings.epochs * (1 + n_folds if n_folds > 1 else 1)
    return lambda: callback.retraining(next(done), total)


def training_dtype(recipe: Recipe, device: torch.device) -> torch.dtype:
    """The dtype that the scorer was trained in; fp32 for fp16 on a CPU, which lacks it."""
    if recipe.precision == "fp16" and device.type == "cpu":
        return torch.float32
    return precision(recipe.precision, device)


def provenance_of(
    answers: ReleaseAnswers, loaded: Loaded, settings: Settings, data: TrainingData | None
) -> dict[str, Any]:
    """The identity of this retraining, as recorded in its checkpoint.

    Recipe, data, encoder and preprocessing are those of the scorer that it starts from.
    """
    triplets = None
    if data is not None:
        triplets = {"name": data.name, "n_train": len(data.train), "sha256": content_sha256(data)}
    inherited = ("recipe", "data", "encoder", "preprocessing")
    return jsonable(
        {
            **{key: loaded.checkpoint.about.get(key) for key in inherited},
            "init_sha256": loaded.checkpoint.sha256,
            "preference": settings.to_json(),
            EARLIER_RELEASES: trained_on(loaded.checkpoint),
            "release": dict(answers.about),
            "triplets": triplets,
        }
    )


def same_retraining(out: Path, provenance: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint of the same retraining, None if the folder holds no run; refuse another."""
    if not any((out / f"{name}.json").exists() for name in (checkpoints.BEST, LAST)):
        return None
    checkpoint = checkpoints.read(out)
    # Checkpoints of earlier versions do not record earlier releases.
    about = {EARLIER_RELEASES: [], **checkpoint.about}
    differing = [key for key, value in provenance.items() if about.get(key) != value]
    if differing:
        raise UnreadableInput(
            str(out), f"holds a run with other {', '.join(differing)}", "name another --out"
        )
    return checkpoint


def write(
    out: Path,
    provenance: Mapping[str, Any],
    loaded: Loaded,
    retrained: Retrained,
    report: Mapping[str, Any],
) -> None:
    """Write the files beside the checkpoint, then the checkpoint."""
    fitted = {"before": retrained.before.to_json(), "after": retrained.final.to_json()}
    if retrained.cross_fitted is not None:
        fitted["after_without_folds"] = retrained.after.to_json()
    with explained_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / ANSWER_MODEL, indented_json(fitted))
        write_whole(out / REPORT, indented_json(report))
        write_retraining_card(out, provenance, fitted, report)
    parts = {"scorer": trained_parameters(loaded.scorer)}
    checkpoints.save(out, LAST, {**provenance, **ABOUT}, parts)


def summary(checkpoint: Checkpoint) -> dict[str, Any]:
    """The output of `hsfiq train preference`: the checkpoint and its report."""
    path = checkpoint.path.with_name(REPORT)
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableInput(str(path), "cannot be read", "name another --out") from error
    return {
        "checkpoint": str(checkpoint.path),
        "sha256": checkpoint.sha256,
        "recipe": NAME,
        "init_sha256": checkpoint.about["init_sha256"],
        "release": checkpoint.about["release"],
        **report,
    }
