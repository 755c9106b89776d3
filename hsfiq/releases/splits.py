"""Splits for training and testing: drawing them, and verifying that nothing leaks.

Triplets, participants or both are held out. All queries of a triplet, such as with its captions in
the other order, belong to the same triplet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.kinds import RELEASE_KINDS
from hsfiq.kinds.rows import Part, QueryRow, Questions
from hsfiq.releases.folder import (
    EXPORT_AGAIN,
    EXPORT_WITH_SPLIT,
    MANIFEST,
    PARTS,
    QUERIES,
    SPLITS,
    read_manifest,
    read_parts,
    read_queries,
    read_rows,
)

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
    """The held-out triplets and participants: what a question's part depends on.

    `triplet_ids` has the triplet of each triplet id of the questions.
    """

    split: Split
    triplet_ids: Mapping[str, str]
    triplets: frozenset[str]
    participants: frozenset[str]

    def parts_of(self, questions: Questions) -> list[Part]:
        """The parts of questions that the split was drawn from."""
        queries, people = questions.values("query"), questions.values("participant_id")
        return [self.part_of(*each) for each in zip(queries, people, strict=True)]

    def part_of(self, query: QueryRow, participant_id: str) -> Part:
        """The part of a question by its query and its participant.

        Questions with a held-out triplet or participant are test questions, the others are train
        questions. By `both`, a question with only one of the two held out is unused, since it would
        leak into the other part.
        """
        by_triplet = self.triplet_ids[query.triplet_id] in self.triplets
        by_participant = participant_id in self.participants
        if self.split.by == "both" and by_triplet != by_participant:
            return "unused"
        return "test" if by_triplet or by_participant else "train"

    def summary(self, counts: Mapping[Part, int]) -> dict[str, Any]:
        """Return the manifest's description of the split; `counts` are the questions of each part.

        Raises:
            NothingToDo: a part would be empty.
        """
        for part in ("train", "test"):
            if not counts.get(part):
                raise NothingToDo(
                    f"no question is left for {part}",
                    where=f"--split {self.split.by}",
                    remedy="choose another --test-share or --split-seed",
                )
        return asdict(self.split) | {
            "n": {part: counts.get(part, 0) for part in PARTS},
            "held_out_triplets": len(self.triplets),
            "held_out_participants": len(self.participants),
        }


# ---------------------------------------------------------------------------------------- drawing


def draw_split(parts: Iterable[Questions], split: Split) -> DrawnSplit:
    """Draw the held-out ids. The questions, in parts, are read once.

    Raises:
        NothingToDo: there are fewer than two triplets or participants.
    """
    known: set[str] = set()
    people: set[str] = set()
    for questions in parts:
        known.update(query.triplet_id for query in questions.queries().values())
        people |= questions.participants()
    triplet_ids = {id_: triplet_of(id_, known) for id_ in known}
    triplets: frozenset[str] = frozenset()
    participants: frozenset[str] = frozenset()
    if split.by != "participant":
        triplets = held_out(triplet_ids.values(), "triplet", split)
    if split.by != "triplet":
        participants = held_out(people, "participant", split)
    return DrawnSplit(split, triplet_ids, triplets, participants)


def held_out(ids: Iterable[str], noun: str, split: Split) -> frozenset[str]:
    """Draw the ids to hold out, as close to the share as possible.

    The ids are sorted by a random number that depends only on the seed and the id. Therefore the
    order of the rows has no effect, and if the study grows, nearly all held-out ids stay held out.

    Raises:
        NothingToDo: there are fewer than two ids, or the share holds out none or all of them.
    """
    known = sorted(set(ids))
    if len(known) < 2:
        raise NothingToDo(f"a split needs at least two {noun}s", where=f"--split {split.by}")
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

    An ending like a query's suffix belongs to the id itself unless the rest is a known id.

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
    """Read the held-out ids from the manifest; `UnreadableInput` if the release has no split."""
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
