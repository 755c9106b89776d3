"""The report of a retraining: the scorer before and after, on held-out answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hsfiq.model.checkpoints import EARLIER_RELEASES, write_card
from hsfiq.model.preference.answer_model import AnswerModel, fit_preferences, with_errors
from hsfiq.model.preference.answers import Question, ReleaseAnswers, answer_tensors
from hsfiq.model.preference.training import Inputs, Retrained, set_scores
from hsfiq.model.recipes import Recipe
from hsfiq.model.scorer.inference import Inference, ranks
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.scorer.run import SCORES

if TYPE_CHECKING:
    from hsfiq.model.preference.report_statistics import Predictions


# A retraining in words: its model card, and the summary on the terminal.

SIMULATED = "The answers come from simulated annotators, so the figures say nothing about people."
HOW_TO_READ = (
    "Intervals are 95%, resampling participants (for recall, triplets). A difference is after - "
    "before; figures that got worse come first. `report.json` has accuracy by margin and the "
    "reliability table."
)
LIMITS = (
    "The scorer was trained on the answers of these annotators to the sets of these systems. It "
    "may not carry over to other annotators, systems or images. Its scores have a scale of their "
    "own."
)


def earlier_release_notes(provenance: Mapping[str, Any]) -> list[str]:
    """A note if figures on the held-out part may be too good because of earlier releases.

    Training on the same answers again is no risk: they have the same held-out part.
    """
    digest = provenance["release"]["content_sha256"]
    names = ", ".join(
        f"{earlier['name']} {earlier['version']} (content sha256 {str(sha256)[:12]})"
        for earlier in provenance[EARLIER_RELEASES]
        if (sha256 := earlier["content_sha256"]) != digest
    )
    if not names:
        return []
    note = (
        "Figures on the held-out part may be too good if the scorer was trained on the same "
        f"triplets or participants in an earlier release: {names}."
    )
    return [note]


def write_retraining_card(
    folder: Path,
    provenance: Mapping[str, Any],
    fitted: Mapping[str, Any],
    report: Mapping[str, Any],
) -> None:
    """Write the card; `fitted` is as in `answer_model.json`."""
    release, recipe = provenance["release"], provenance["recipe"]
    name = f"{release.get('name')} {release.get('version')}"
    settings = ", ".join(
        f"{key} {value}" for key, value in provenance["preference"].items() if key != "name"
    )
    bias = fitted["after"]["side_bias"]
    introduction = (
        f"{SCORES} Encoder `{recipe['encoder']}`, first trained by `{recipe['name']}`, then by "
        f"`preference` on {report['n_train']:,} answers."
    )
    write_card(
        folder,
        f"A scorer retrained on the answers of {name}",
        [introduction, *([SIMULATED] if report["simulated"] else [])],
        {
            "Before and after, on the held-out part": [
                *[line for note in report["notes"] for line in (note, "")],
                *figure_table(report),
                "",
                HOW_TO_READ,
            ],
            "Provenance": [
                f"- started from: sha256 `{provenance['init_sha256']}`",
                f"- release: {name}, content sha256 `{release.get('content_sha256')}`",
                f"- settings: {settings}",
                (
                    f"- side bias: {rounded(bias['value'])} logits for set 1 (standard error "
                    f"{rounded(bias['se'])}); offsets and thresholds are in `answer_model.json`"
                ),
            ],
            "Limits": [LIMITS],
        },
        tags=("relevance-score", "preference"),
    )


def figure_table(report: Mapping[str, Any]) -> Iterator[str]:
    """The figures as a Markdown table, or why there are none."""
    figures = figures_worst_first(report)
    if figures:
        yield "| figure | before | after | difference |"
        yield "|---|---|---|---|"
        for entry in figures:
            cells = (with_interval(entry[key]) for key in ("before", "after", "difference"))
            yield f"| {entry['name']} ({entry['better']} is better) | {' | '.join(cells)} |"
    if report["held_out"] is None:
        yield f"Agreement is not measured: {report['reason']}."


def summary_lines(report: Mapping[str, Any]) -> Iterator[str]:
    if report["simulated"]:
        yield SIMULATED
    yield from report.get("notes", ())  # absent from reports of earlier versions
    for entry in figures_worst_first(report):
        yield (
            f"{entry['name']} ({entry['better']} is better): {with_interval(entry['before'])} -> "
            f"{with_interval(entry['after'])}, difference {with_interval(entry['difference'])}"
        )
    if report["held_out"] is None:
        yield f"agreement is not measured: {report['reason']}"
    if report["n_left_out"]:
        yield f"{report['n_left_out']:,} questions lack an image and were left out"


def figures_worst_first(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of agreement, then of recall; all that got worse before all others."""

    def is_worse(entry: Mapping[str, Any]) -> bool:
        change = entry["difference"]["value"] or 0
        return bool(change < 0 if entry["better"] == "higher" else change > 0)

    groups = [report[key]["figures"] for key in ("held_out", "retrieval") if report[key]]
    figures = [entry for group in groups for entry in group]
    return sorted(figures, key=lambda entry: not is_worse(entry))


def with_interval(estimate: Mapping[str, Any]) -> str:
    """A value with its interval: "0.512 [0.466, 0.559]"."""
    ends = ", ".join(map(rounded, estimate["ci"]))
    return f"{rounded(estimate['value'])} [{ends}]"


def rounded(value: float | None) -> str:
    """Three decimals, or "undefined"."""
    return "undefined" if value is None else f"{value:.3f}"


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
