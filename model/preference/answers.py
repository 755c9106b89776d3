"""The answered questions of a release, as tensors, and the weight of each participant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsfiq.answer_rules import HIGHEST_SCORE, contradicts
from hsfiq.atomic_files import sha256_of
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.kinds.rows import Part
from hsfiq.model.preference.answer_model import AnswerTensors
from hsfiq.releases import folder
from hsfiq.releases.splits import verify_no_leak

PRIOR_ANSWERS = 20.0
"""Answers of the average participant that are added to each participant's own."""


@dataclass(frozen=True, slots=True)
class Question:
    """An answered question; `preferred` is 0 for a tie, and `scores` are from 1 to 5."""

    question_id: str
    participant: str
    sets: tuple[folder.ReleasedSet, folder.ReleasedSet]
    preferred: int
    scores: tuple[int, int]
    part: Part

    @property
    def images(self) -> set[str]:
        return {image for set_ in self.sets for image in (set_.reference, *set_.images)}


@dataclass(frozen=True, slots=True)
class ReleaseAnswers:
    """The answers of a release, in its order."""

    about: Mapping[str, Any]  # what a checkpoint records about the release
    questions: tuple[Question, ...]
    has_splits: bool
    held_out: frozenset[tuple[str | None, str | None]]  # triplets without a training question

    def part(self, name: Part) -> list[Question]:
        return [question for question in self.questions if question.part == name]


def read_answers(release: Path) -> ReleaseAnswers:
    """Read a release, and its split if it has one; without a split, all is for training.

    UnreadableInput if an answer is invalid, the scale has another number of points than the answer
    model, or a triplet or a participant is in both parts; NothingToDo without questions.
    """
    folder.require_readable(release)
    require_standard_scale(release)
    sets = {released.set_id: released for released in folder.read_sets(release)}
    about = about_release(release)
    has_splits = "split" in about or (release / folder.SPLITS).is_file()
    parts = verify_no_leak(release) if has_splits else None
    questions: list[Question] = []
    queries, training_queries = set[str](), set[str]()
    for row in folder.read_preferences(release):
        for key, set_id in (("set_1", row.set_1), ("set_2", row.set_2)):
            if set_id not in sets:
                where = f"{release / folder.PREFERENCES}: question {row.question_id}"
                raise UnreadableInput(
                    where, f"its {key} {set_id} is not in {folder.SETS}", folder.EXPORT_AGAIN
                )
        question = Question(
            question_id=row.question_id,
            participant=row.participant_id,
            sets=(sets[row.set_1], sets[row.set_2]),
            preferred=row.preferred,
            scores=(row.score_1, row.score_2),
            part="train" if parts is None else parts[row.question_id],
        )
        questions.append(question)
        queries.add(row.query_id)
        if question.part == "train":
            training_queries.add(row.query_id)
    triplets = {
        query_id: (query.reference, query.target)
        for query_id, query in folder.read_queries(release).items()
    }
    held_out = frozenset(triplets[query] for query in queries)
    held_out -= {triplets[query] for query in training_queries}
    return ReleaseAnswers(about, tuple(questions), has_splits, held_out)


def require_standard_scale(release: Path) -> None:
    points = folder.points_of(folder.manifest_of(release)) or HIGHEST_SCORE
    if points != HIGHEST_SCORE:
        raise UnreadableInput(
            str(release / folder.MANIFEST),
            f"the scale has {points} points, but the answer model needs {HIGHEST_SCORE}",
            "retrain on releases of studies with the standard number of points",
        )


def about_release(release: Path) -> dict[str, Any]:
    """What a checkpoint records about a release, with the sha256 of the tables that were read."""
    manifest = folder.manifest_of(release)
    keys = ("name", "version", "kind", "simulated", "split", "content_sha256")
    tables = (folder.QUERIES, folder.SETS, folder.PREFERENCES, folder.SPLITS)
    return {
        **{key: manifest[key] for key in keys if key in manifest},
        "sha256": {
            file: sha256_of(release / file) for file in tables if (release / file).is_file()
        },
    }


def with_images(
    questions: Sequence[Question], available: Collection[str]
) -> tuple[list[Question], list[str]]:
    """The questions without missing images, and the ids of the others."""
    complete, incomplete = [], []
    for question in questions:
        if question.images.issubset(available):
            complete.append(question)
        else:
            incomplete.append(question.question_id)
    return complete, incomplete


def answer_tensors(questions: Sequence[Question], weights: Mapping[str, float]) -> AnswerTensors:
    """The answers, weights scaled to a mean of 1 over questions; NothingToDo if all are 0."""
    participants = tuple(sorted({question.participant for question in questions}))
    index = {name: i for i, name in enumerate(participants)}
    unscaled = torch.tensor([weights[q.participant] for q in questions], dtype=torch.float64)
    if not unscaled.any():
        raise NothingToDo("all participants contradict themselves too often to have any weight")
    return AnswerTensors(
        preferred=torch.tensor([question.preferred for question in questions]),
        scores=torch.tensor([question.scores for question in questions]),
        people=torch.tensor([index[question.participant] for question in questions]),
        weights=unscaled / unscaled.mean(),
        participants=participants,
    )


def reliability_weights(
    questions: Sequence[Question], dropped: Mapping[str, int]
) -> dict[str, float]:
    """Weights from 0 to 1, by how seldom a participant's preference contradicts the scores.

    Random answers prefer the set with the lower score in half of the questions with different
    scores. So twice the share of contradictions estimates the share of random answers; the weight
    is the rest. Each share is shrunk towards the overall one by `PRIOR_ANSWERS` answers.

    Args:
        dropped: contradicting questions of each participant that the release's filter dropped.
    """
    people = sorted({question.participant for question in questions})
    contradicting = Counter({name: dropped.get(name, 0) for name in people})
    comparable = contradicting.copy()
    for question in questions:
        if question.preferred and question.scores[0] != question.scores[1]:
            comparable[question.participant] += 1
            contradicting[question.participant] += contradicts(question.preferred, *question.scores)
    share = contradicting.total() / max(1, comparable.total())
    return {
        name: max(
            0.0,
            1 - 2 * (contradicting[name] + PRIOR_ANSWERS * share)
            / (comparable[name] + PRIOR_ANSWERS),
        )
        for name in people
    }  # fmt: skip


def dropped_contradictions(release: Path) -> Counter[str]:
    return Counter(
        exclusion.participant_id
        for exclusion in folder.read_exclusions(release)
        if exclusion.rule == "contradicts"
    )
