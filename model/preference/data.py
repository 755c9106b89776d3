"""What a retraining reads of a release: questions with their sets and answers, and their part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.model.checkpoints.files import sha256_of
from hsfiq.model.preference.response_model import Judgements, numbered
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import (
    EXPORT_AGAIN,
    PREFERENCES,
    QUERIES,
    SETS,
    SPLITS,
    Part,
    ReleasedPreference,
    ReleasedSet,
    read_preferences,
    read_queries,
    read_sets,
)
from hsfiq.releases.splits import verify_no_leak


@dataclass(frozen=True, slots=True)
class Question:
    """An answered question.

    Attributes:
        question_id: the release's.
        participant: who answered.
        sets: set 1 and set 2.
        preferred: 1, 2, or 0 for a tie.
        scores: of set 1 and set 2, 1 to 5.
        part: "train", "test" or "unused"; "train" where the release has no splits.
    """

    question_id: str
    participant: str
    sets: tuple[ReleasedSet, ReleasedSet]
    preferred: int
    scores: tuple[int, int]
    part: Part

    @property
    def images(self) -> set[str]:
        """References and retrieved ones."""
        return {image for it in self.sets for image in (it.reference, *it.images)}


@dataclass(frozen=True, slots=True)
class Answers:
    """A release as a retraining sees it.

    Attributes:
        about: name, version, kind, origin and the sha256 of the tables that are read.
        questions: in the release's order.
        has_splits: whether it says which questions are held out.
        held_out: (reference, target) of the triplets that no question to train on is about.
    """

    about: Mapping[str, Any]
    questions: tuple[Question, ...]
    has_splits: bool
    held_out: frozenset[tuple[str, str | None]]

    def part(self, name: Part) -> list[Question]:
        """The questions of one part."""
        return [it for it in self.questions if it.part == name]


def read_answers(release: Path) -> Answers:
    """Read a release, and its split where it has one.

    Raises:
        UnreadableInput: the folder is no release, an answer cannot be, or a triplet or a
            participant stands in both parts.
        NothingToDo: it has no questions.
    """
    sets = {it.set_id: it for it in read_sets(release)}
    said = about(release)
    has_splits = "split" in said or (release / SPLITS).is_file()
    parts = verify_no_leak(release) if has_splits else None
    found: list[Question] = []
    taught, asked = set[str](), set[str]()
    for row in read_preferences(release):
        question = question_of(row, sets, parts, release)
        found.append(question)
        asked.add(row.query_id)
        if question.part == "train":
            taught.add(row.query_id)
    images = {name: (it.reference, it.target) for name, it in read_queries(release).items()}
    held_out = frozenset(images[it] for it in asked) - {images[it] for it in taught}
    return Answers(said, tuple(found), has_splits, held_out)


def question_of(
    row: ReleasedPreference,
    sets: Mapping[str, ReleasedSet],
    parts: Mapping[str, Part] | None,
    release: Path,
) -> Question:
    """One row of the preferences with its sets; without parts, it is to be trained on.

    Raises:
        UnreadableInput: naming the question.
    """
    for key, set_id in (("set_1", row.set_1), ("set_2", row.set_2)):
        if set_id not in sets:
            where = f"{release / PREFERENCES}: question {row.question_id}"
            raise UnreadableInput(where, f"its {key} {set_id} is not in {SETS}", EXPORT_AGAIN)
    return Question(
        question_id=row.question_id,
        participant=row.participant_id,
        sets=(sets[row.set_1], sets[row.set_2]),
        preferred=row.preferred,
        scores=(row.score_1, row.score_2),
        part="train" if parts is None else parts[row.question_id],
    )


def about(release: Path) -> dict[str, Any]:
    """What a checkpoint says of the release that it was trained on.

    Raises:
        UnreadableInput: the folder has no manifest that can be read.
    """
    manifest = read_manifest(release)
    if manifest is None:
        raise UnreadableInput(
            str(release / MANIFEST), "is no release's manifest", "name a folder of hsfiq export"
        )
    said = ("name", "version", "kind", "simulated", "split", "content_sha256")
    tables = [it for it in (QUERIES, SETS, PREFERENCES, SPLITS) if (release / it).is_file()]
    return {
        **{key: manifest[key] for key in said if key in manifest},
        "sha256": {file: sha256_of(release / file) for file in tables},
    }


def with_images(
    questions: Sequence[Question], there: frozenset[str]
) -> tuple[list[Question], list[str]]:
    """The questions all of whose images are there, and the ids of the others."""
    kept = [it for it in questions if it.images <= there]
    return kept, [it.question_id for it in questions if not it.images <= there]


def judgements(questions: Sequence[Question], weights: Mapping[str, float]) -> Judgements:
    """The answers of some questions as tensors.

    Args:
        questions: Q of them.
        weights: of the participants, whose mean over these questions is made 1.

    Raises:
        NothingToDo: all weights are 0.
    """
    participants, people = numbered([it.participant for it in questions])
    own = torch.tensor([weights[it.participant] for it in questions], dtype=torch.float64)
    if not own.any():
        raise NothingToDo("every participant contradicts themself too often to weigh anything")
    return Judgements(
        preferred=torch.tensor([it.preferred for it in questions]),
        scores=torch.tensor([it.scores for it in questions]),
        people=people,
        weights=own / own.mean(),
        participants=participants,
    )
