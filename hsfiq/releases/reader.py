"""Reading the tables of a release folder as typed records, for `hsfiq` and `hsfiq.model`.

Only the columns in use are read; `hsfiq.releases.schemas` lists all of them. A table that is
missing, unreadable or invalid raises `UnreadableInput`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.answer_rules import LOWEST_SCORE
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.ids import set_id
from hsfiq.releases.manifest import NAME_A_RELEASE, points_of

Part = Literal["train", "test", "unused"]

PARTS: tuple[Part, ...] = get_args(Part)
QUERIES, SETS, PREFERENCES = "queries.parquet", "sets.parquet", "preferences.parquet"
TURNS, VOTES = "turns.parquet", "votes.parquet"
EXCLUSIONS, SPLITS = "exclusions.parquet", "splits.parquet"

EXPORT_AGAIN = "export the release again"
EXPORT_WITH_SPLIT = "export the release again, with --split"


@dataclass(frozen=True, slots=True)
class ReleasedQuery:
    """A query with its triplet. `reference` is None or `text` empty if the query has none.

    `target` is None if it is unknown.
    """

    query_id: str
    triplet_id: str
    dataset: str
    reference: str | None
    target: str | None
    text: str


@dataclass(frozen=True, slots=True)
class ReleasedSet:
    """A retrieved set, its images best first, with the reference and the text of its query."""

    set_id: str
    query_id: str
    reference: str
    text: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleasedPreference:
    """An answered question: its sets' ids, their Likert scores, the preferred set (0 = tie)."""

    question_id: str
    participant_id: str
    query_id: str
    set_1: str
    set_2: str
    score_1: int
    score_2: int
    preferred: int


@dataclass(frozen=True, slots=True)
class ReleasedExclusion:
    """A dropped question's participant, and the rule that dropped the question."""

    participant_id: str
    rule: str


def read_queries(release: Path) -> dict[str, ReleasedQuery]:
    columns = ("query_id", "triplet_id", "dataset", "reference_id", "target_id", "text")
    rows = read_rows(release / QUERIES, columns, nullable=("reference_id", "target_id"))
    return {row["query_id"]: ReleasedQuery(*(row[name] for name in columns)) for row in rows}


def read_sets(release: Path) -> list[ReleasedSet]:
    """Read the retrieved sets of a release, for a scorer; `NothingToDo` if it has none.

    Those of a release of searches are the lists of its turns: see `read_lists`.
    `UnreadableInput` if a query has no reference or no text: scorers need both.
    """
    if is_of_searches(release):
        return read_lists(release)
    queries = read_queries(release)
    path = release / SETS
    sets = []
    for row in read_rows(path, ("set_id", "query_id", "image_ids")):
        query = queries.get(row["query_id"])
        if query is None:
            what = f"set {row['set_id']} is of query {row['query_id']}, which {QUERIES} lacks"
            raise UnreadableInput(str(path), what, EXPORT_AGAIN)
        reference = query.reference
        if reference is None or not query.text:
            raise UnreadableInput(
                f"{release / QUERIES}: query {query.query_id}",
                f"has no {'text' if reference else 'reference image'}",
                "a scorer needs both for every query of the release",
            )
        sets.append(
            ReleasedSet(
                row["set_id"], query.query_id, reference, query.text, tuple(row["image_ids"])
            )
        )
    if not sets:
        raise NothingToDo(f"{release}: the release has no sets")
    return sets


def is_of_searches(release: Path) -> bool:
    return (release / TURNS).is_file()


def read_lists(release: Path) -> list[ReleasedSet]:
    """Read the lists of searches, each with the reference and the text of its turn.

    The id of a list is that of its search and the turn's number. A turn without a list is left
    out, and so is one whose text the study's owner has struck, or is about a participant's own
    picture, which the release does not have.
    """
    if (release / VOTES).is_file():
        what = "is the release of an arena, which has two lists a turn"
        raise UnreadableInput(str(release), what, "score a release of searches or of sets")
    columns = ("question_id", "turn", "query_id", "reference_id", "text", "image_ids")
    lists = [
        ReleasedSet(
            set_id(row["question_id"], row["turn"]),
            row["query_id"],
            row["reference_id"],
            row["text"],
            tuple(row["image_ids"]),
        )
        for row in read_rows(release / TURNS, columns, nullable=("text", "reference_id"))
        if row["text"] is not None and row["reference_id"] is not None and row["image_ids"]
    ]
    if not lists:
        raise NothingToDo(f"{release}: the release has no list with a text")
    return lists


def read_preferences(release: Path) -> list[ReleasedPreference]:
    path, points = release / PREFERENCES, points_of(release)
    columns = (
        *("question_id", "participant_id", "query_id", "set_1", "set_2"),
        *("score_1", "score_2", "preferred"),
    )
    preferences = []
    for row in read_rows(path, columns):
        where = f"{path}: question {row['question_id']}"
        if row["preferred"] not in (0, 1, 2):
            raise UnreadableInput(
                where, f"preferred is {row['preferred']}, not 1, 2 or 0", EXPORT_AGAIN
            )
        for name in ("score_1", "score_2"):
            if not LOWEST_SCORE <= row[name] <= points:
                what = f"{name} is {row[name]}, not from {LOWEST_SCORE} to {points}"
                raise UnreadableInput(where, what, EXPORT_AGAIN)
        preferences.append(ReleasedPreference(*(row[name] for name in columns)))
    return preferences


def read_exclusions(release: Path) -> list[ReleasedExclusion]:
    rows = read_rows(release / EXCLUSIONS, ("participant_id", "rule"))
    return [ReleasedExclusion(row["participant_id"], row["rule"]) for row in rows]


def read_parts(release: Path) -> dict[str, Part]:
    """Read the part of each question, by id, of a release that was exported with `--split`."""
    path = release / SPLITS
    parts: dict[str, Part] = {}
    for row in read_rows(path, ("question_id", "part"), remedy=EXPORT_WITH_SPLIT):
        question, part = row["question_id"], row["part"]
        if part not in PARTS:
            what = f"question {question} has part {part!r}"
            raise UnreadableInput(str(path), what, EXPORT_WITH_SPLIT)
        if question in parts:
            raise UnreadableInput(str(path), f"holds question {question} twice", EXPORT_WITH_SPLIT)
        parts[question] = part
    return parts


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    nullable: Collection[str] = (),
    remedy: str = NAME_A_RELEASE,
) -> list[dict[str, Any]]:
    """Read columns of a Parquet file as rows; only the `nullable` ones may contain nulls."""
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file", remedy)
    try:
        with pq.ParquetFile(path) as file:
            for name in columns:
                if name not in file.schema_arrow.names:
                    raise UnreadableInput(str(path), f"has no column {name}", remedy)
            table = file.read(columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        what = f"cannot be read ({' '.join(str(error).split())})"
        raise UnreadableInput(str(path), what, remedy) from error
    for name in columns:
        if name not in nullable and table[name].null_count:
            raise UnreadableInput(str(path), f"column {name} holds nulls", remedy)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
