"""Splits for training and testing: drawing them, and verifying that nothing leaks.

Triplets, participants or both are held out. All queries of a triplet, such as with its captions in
the other order, belong to the same triplet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.releases.kinds import RELEASE_KINDS
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import (
    EXPORT_AGAIN,
    EXPORT_WITH_SPLIT,
    PARTS,
    QUERIES,
    SPLITS,
    Part,
    read_parts,
    read_queries,
    read_rows,
)
from hsfiq.releases.rows import QuestionRow

SplitBy = Literal["triplet", "participant", "both"]

SPLITS_BY: tuple[SplitBy, ...] = get_args(SplitBy)


@dataclass(frozen=True, slots=True)
class Split:
    """The options of a split: what is held out for testing, and its share, between 0 and 1."""

    by: SplitBy
    seed: int = 0
    test_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.test_share < 1:
            raise UnreadableInput("--test-share", f"{self.test_share} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class DrawnSplit:
    """A split: the part of each question by its id, and the held-out triplets and participants."""

    split: Split
    parts: dict[str, Part]
    triplets: frozenset[str]
    participants: frozenset[str]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `splits`."""
        return [{"question_id": question, "part": part} for question, part in self.parts.items()]

    def summary(self) -> dict[str, Any]:
        """Return the split as the manifest describes it."""
        counts = Counter(self.parts.values())
        return asdict(self.split) | {
            "n": {part: counts[part] for part in PARTS},
            "held_out_triplets": len(self.triplets),
            "held_out_participants": len(self.participants),
        }


# ---------------------------------------------------------------------------------------- drawing


def draw_split(questions: Sequence[QuestionRow], split: Split) -> DrawnSplit:
    """Put each question into a part.

    Questions with a held-out triplet or participant are test questions, the others are train
    questions. By `both`, a question with only one of the two held out is unused, since it would
    leak into the other part.

    Raises:
        NothingToDo: there are fewer than two triplets or participants, or a part would be empty.
    """
    known = {question.query.triplet_id for question in questions}
    triplet_ids = {id_: triplet_of(id_, known) for id_ in known}
    triplets: frozenset[str] = frozenset()
    participants: frozenset[str] = frozenset()
    if split.by != "participant":
        triplets = held_out(triplet_ids.values(), "triplet", split)
    if split.by != "triplet":
        ids = (question.participant_id for question in questions)
        participants = held_out(ids, "participant", split)
    parts: dict[str, Part] = {}
    for question in questions:
        is_held_out = {
            triplet_ids[question.query.triplet_id] in triplets,
            question.participant_id in participants,
        }
        if split.by == "both" and len(is_held_out) == 2:
            parts[question.question_id] = "unused"
        else:
            parts[question.question_id] = "test" if True in is_held_out else "train"
    for part in ("train", "test"):
        if part not in parts.values():
            raise NothingToDo(
                f"no question is left to {part}",
                where=f"--split {split.by}",
                remedy="choose another --test-share or --split-seed",
            )
    return DrawnSplit(split, parts, triplets, participants)


def held_out(ids: Iterable[str], noun: str, split: Split) -> frozenset[str]:
    """Draw the ids to hold out, as close to the share as possible.

    The ids are sorted by a random number that depends only on the seed and the id. So the order of
    the rows does not matter, and if the study grows, nearly all held-out ids stay held out.

    Raises:
        NothingToDo: there are fewer than two ids, or the share holds out none or all of them.
    """
    known = sorted(set(ids))
    if len(known) < 2:
        raise NothingToDo(
            f"a split needs two {noun}s, and there is one", where=f"--split {split.by}"
        )
    n_held_out = round(split.test_share * len(known))
    if n_held_out in (0, len(known)):
        empty = "test" if n_held_out == 0 else "train"
        raise NothingToDo(
            f"{split.test_share} of {len(known)} {noun}s leaves none to {empty}",
            where="--test-share",
        )
    ranks = {id_: Random(f"split:{split.seed}:{noun}:{id_}").random() for id_ in known}  # noqa: S311 (a seeded draw)
    return frozenset(sorted(known, key=ranks.__getitem__)[:n_held_out])


def triplet_of(id_: str, known: Collection[str]) -> str:
    """Return the id of the triplet with this id, or of the query with this id.

    What ends like a query's suffix belongs to the id itself unless the rest is a known id.

    >>> triplet_of("shirt.val.12~", {"shirt.val.12"}), triplet_of("item#3", {"item#2", "item#3"})
    ('shirt.val.12', 'item#3')
    """
    while (parted := split_query_id(id_))[1] and parted[0] in known:
        id_ = parted[0]
    return id_


# -------------------------------------------------------------------------------------- verifying


def verify_no_leak(release: Path) -> dict[str, Part]:
    """Read the part of each question by its id, and verify that nothing is in both train and test.

    The triplet and the participant of each question are looked up in the tables; the manifest's
    counts are not used. A triplet is identified by its own id and by its queries' ids.

    Raises:
        UnreadableInput: a triplet or a participant is in both parts, the release has no split, or
            its tables are inconsistent.
    """
    by = split_by(release)
    parts = read_parts(release)
    queries = read_queries(release)
    answers = read_answers(release)
    where = str(release / SPLITS)
    require_same({answer["question_id"] for answer in answers}, parts.keys(), where)
    known = {*queries, *(query.triplet_id for query in queries.values())}
    triplets: list[tuple[str, str]] = []
    participants: list[tuple[str, str]] = []
    for answer in answers:
        question, query = answer["question_id"], queries.get(answer["query_id"])
        if query is None:
            raise UnreadableInput(
                str(release / QUERIES), f"lacks query {answer['query_id']}", EXPORT_AGAIN
            )
        ids = sorted({triplet_of(query.query_id, known), triplet_of(query.triplet_id, known)})
        triplets += [(triplet, question) for triplet in ids]
        participants.append((answer["participant_id"], question))
    if by != "participant":
        require_one_part("triplet", triplets, parts, where)
    if by != "triplet":
        require_one_part("participant", participants, parts, where)
    return parts


def read_answers(release: Path) -> list[dict[str, Any]]:
    """Read each answer's question, participant and query, of a release of any kind."""
    kind = (read_manifest(release) or {}).get("kind", "")
    main = RELEASE_KINDS[kind].main if kind in RELEASE_KINDS else "preferences"
    return read_rows(release / f"{main}.parquet", ("question_id", "participant_id", "query_id"))


def split_by(release: Path) -> SplitBy:
    """Read from the manifest what is held out; `UnreadableInput` if the release has no split."""
    split = (read_manifest(release) or {}).get("split")
    named = split.get("by") if isinstance(split, dict) else None
    for by in SPLITS_BY:
        if named == by:
            return by
    raise UnreadableInput(str(release / MANIFEST), "describes no split", EXPORT_WITH_SPLIT)


def require_same(released: AbstractSet[str], split: AbstractSet[str], where: str) -> None:
    """Require that the questions of the release and of the split are the same."""
    if released - split:
        raise UnreadableInput(where, f"lacks question {min(released - split)}", EXPORT_WITH_SPLIT)
    if split - released:
        what = f"question {min(split - released)} is not in the release"
        raise UnreadableInput(where, what, EXPORT_WITH_SPLIT)


def require_one_part(
    noun: str, members: Iterable[tuple[str, str]], parts: Mapping[str, Part], where: str
) -> None:
    """Require that no triplet, or no participant, has questions in both train and test.

    `members` are the id of each question's triplet or participant, with the question's id.
    """
    questions: dict[str, dict[Part, str]] = {}
    for id_, question in members:
        first = questions.setdefault(id_, {})
        first.setdefault(parts[question], question)
        if "train" in first and "test" in first:
            what = (
                f"{noun} {id_} leaks: question {first['train']} is in train, "
                f"question {first['test']} in test"
            )
            raise UnreadableInput(where, what, EXPORT_WITH_SPLIT)
