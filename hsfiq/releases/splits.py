"""Splits for training: the part of each question of a release, and the proof that nothing leaks.

What is held out is drawn by triplet, by participant or both (design section 4.5). A triplet with
its captions in the other order, or with any other text, is the same triplet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import (
    EXPORT_AGAIN,
    EXPORT_WITH_SPLIT,
    PARTS,
    QUERIES,
    SPLITS,
    Part,
    read_parts,
    read_preferences,
    read_queries,
)
from hsfiq.releases.rows import QuestionRow

By = Literal["triplet", "participant", "both"]

WAYS: tuple[By, ...] = get_args(By)


@dataclass(frozen=True, slots=True)
class Split:
    """What is held out for testing: which share of the triplets, the participants or each.

    Raises:
        UnreadableInput: the share does not lie between 0 and 1.
    """

    by: By
    seed: int = 0
    test_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.test_share < 1:
            raise UnreadableInput("--test-share", f"{self.test_share} is no share between 0 and 1")


@dataclass(frozen=True, slots=True)
class DrawnSplit:
    """The part of each question, by its id, in the release's order; and what is held out."""

    split: Split
    parts: dict[str, Part]
    triplets: frozenset[str]
    participants: frozenset[str]

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `splits`."""
        return [{"question_id": question, "part": part} for question, part in self.parts.items()]

    def facts(self) -> dict[str, Any]:
        """What the manifest says of the split."""
        counts = Counter(self.parts.values())
        return asdict(self.split) | {
            "n": {part: counts[part] for part in PARTS},
            "held_out_triplets": len(self.triplets),
            "held_out_participants": len(self.participants),
        }


# ---------------------------------------------------------------------------------------- drawing


def draw_split(questions: Sequence[QuestionRow], split: Split) -> DrawnSplit:
    """Put each question into a part.

    Test questions are of what is held out, train questions are not; with `both`, what is held
    out in one respect alone is unused, since it would leak into either part.

    Raises:
        NothingToDo: there are fewer than two triplets or participants, or a part would be empty.
    """
    triplets: frozenset[str] = frozenset()
    participants: frozenset[str] = frozenset()
    if split.by != "participant":
        triplets = held_out((stem(it.query.triplet_id) for it in questions), "triplet", split)
    if split.by != "triplet":
        participants = held_out((it.participant_id for it in questions), "participant", split)
    parts: dict[str, Part] = {}
    for it in questions:
        by_triplet = stem(it.query.triplet_id) in triplets
        by_participant = it.participant_id in participants
        if split.by == "both" and by_triplet != by_participant:
            parts[it.question_id] = "unused"
        else:
            parts[it.question_id] = "test" if by_triplet or by_participant else "train"
    for part in ("train", "test"):
        if part not in parts.values():
            raise NothingToDo(
                f"--split {split.by}: no question is left to {part}; "
                "choose another --test-share or --split-seed"
            )
    return DrawnSplit(split, parts, triplets, participants)


def held_out(ids: Iterable[str], what: str, split: Split) -> frozenset[str]:
    """Draw the share of these ids that is nearest to the one asked for.

    Each id has a place in the draw that depends on the seed and itself alone. So the order of
    the rows does not matter, and a study that grows keeps nearly all that it has held out.

    Raises:
        NothingToDo: there are fewer than two ids, or the share holds out none or all of them.
    """
    known = sorted(set(ids))
    if len(known) < 2:
        raise NothingToDo(f"--split {split.by}: a split needs two {what}s, and there is one")
    n_held = round(split.test_share * len(known))
    if n_held in (0, len(known)):
        left = "test" if n_held == 0 else "train"
        raise NothingToDo(
            f"--test-share: {split.test_share} of {len(known)} {what}s leaves none to {left}"
        )
    places = {id_: Random(f"split:{split.seed}:{what}:{id_}").random() for id_ in known}  # noqa: S311 (a seeded draw)
    return frozenset(sorted(known, key=places.__getitem__)[:n_held])


def stem(id_: str) -> str:
    """The id of the triplet, whichever of its queries this id names.

    >>> stem("shirt.val.12~"), stem("shirt.val.12#3"), stem("shirt.val.12")
    ('shirt.val.12', 'shirt.val.12', 'shirt.val.12')
    """
    while (parted := split_query_id(id_))[1] and parted[0]:
        id_ = parted[0]
    return id_


# ---------------------------------------------------------------------------------------- reading


def verify_no_leak(release: Path) -> dict[str, Part]:
    """Read a release's split and make sure that nothing stands in train and in test.

    Neither the manifest's counts nor the way the parts were drawn is believed: the triplet and
    the participant of each question are looked up in the tables. A triplet is known by its id
    and by its queries', whatever the order of the captions.

    Args:
        release: the folder, as `hsfiq export --split` writes it.

    Returns:
        The part of every question, by its id.

    Raises:
        UnreadableInput: a triplet or a participant is in both parts (the first is named), the
            release has no split, or its tables do not fit together.
    """
    by = split_by(release)
    parts = read_parts(release)
    queries = read_queries(release)
    answers = read_preferences(release)
    where = str(release / SPLITS)
    require_same({answer.question_id for answer in answers}, parts.keys(), where)
    triplets: list[tuple[str, str]] = []
    participants: list[tuple[str, str]] = []
    for answer in answers:
        question = answer.question_id
        query = queries.get(answer.query_id)
        if query is None:
            raise UnreadableInput(
                str(release / QUERIES), f"lacks query {answer.query_id}", EXPORT_AGAIN
            )
        stems = {stem(query.query_id), stem(query.triplet_id)}
        triplets += [(triplet, question) for triplet in sorted(stems)]
        participants.append((answer.participant_id, question))
    if by != "participant":
        require_one_part("triplet", triplets, parts, where)
    if by != "triplet":
        require_one_part("participant", participants, parts, where)
    return parts


def split_by(release: Path) -> By:
    """What the release's manifest says that the split goes by."""
    split = (read_manifest(release) or {}).get("split")
    said = split.get("by") if isinstance(split, dict) else None
    for by in WAYS:
        if said == by:
            return by
    raise UnreadableInput(str(release / MANIFEST), "tells of no split", EXPORT_WITH_SPLIT)


def require_same(asked: AbstractSet[str], split: AbstractSet[str], where: str) -> None:
    """Every question of the release has a part, and no other question has one."""
    if asked - split:
        raise UnreadableInput(where, f"lacks question {min(asked - split)}", EXPORT_WITH_SPLIT)
    if split - asked:
        what = f"question {min(split - asked)} is not in the release"
        raise UnreadableInput(where, what, EXPORT_WITH_SPLIT)


def require_one_part(
    what: str, members: Iterable[tuple[str, str]], parts: Mapping[str, Part], where: str
) -> None:
    """No triplet, or no participant, has one question to train on and another to test on.

    Args:
        what: triplet or participant.
        members: its id and a question of it, for each question.
        parts: by question id.
        where: what the message names.
    """
    first: dict[str, dict[Part, str]] = {}
    for id_, question in members:
        found = first.setdefault(id_, {})
        found.setdefault(parts[question], question)
        if "train" in found and "test" in found:
            raise UnreadableInput(
                where,
                f"{what} {id_} leaks: question {found['train']} is in train, "
                f"question {found['test']} in test",
                EXPORT_WITH_SPLIT,
            )
