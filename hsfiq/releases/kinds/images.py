"""`images`: the level of each image of a set, and `qrels.txt` of all answers together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.kinds.columns import ANSWERED, ASKED, IDS, SCORE, SET_COLUMNS, SYSTEM
from hsfiq.releases.kinds.kind import ReleaseKind, Rows, answer_row, set_rows
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import POINTS, TEXT, WHOLE, Column, Table
from hsfiq.releases.writing.further import FurtherFile, Kept

SET = Column("set_id", TEXT, "the set", refers_to="sets.set_id")
JUDGEMENTS = Table(
    "judgements",
    "one row a question: the set, flags and times",
    (*ASKED, SET, SYSTEM, *ANSWERED),
    key=("question_id",),
)
RELEVANCE = Table(
    "relevance",
    "one row an image of a question's set: its level, from 0 (does not fit)",
    (
        *IDS,
        SET,
        SYSTEM,
        Column("rank", WHOLE, "of the image in the set, from 1", lowest=1),
        Column("image_id", TEXT, "the image"),
        Column("relevance", POINTS, "the level, from 0", "levels", lowest=0),
    ),
    key=("question_id", "rank"),
)
UNSCORED_SETS = Table(
    "sets",
    "one row a retrieved set as judged: its images, best first; sets have no score",
    (*SET_COLUMNS, replace(SCORE, null="images were judged, and not the set: always")),
    key=("set_id",),
)


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "judgements": [
            answer_row(question, set_id=question.set_1, system=question.system_1)
            for question in kept
        ],
        "relevance": [row for question in kept for row in image_rows(question)],
        "sets": [row for question in kept for row in set_rows(question, [None])],
    }


def image_rows(question: QuestionRow) -> Iterator[dict[str, Any]]:
    """A row for each image, best first."""
    (retrieved,), shown = question.sets, question.judged("relevance")
    order = question.orders[0] or range(len(shown))
    level_of = dict(zip(order, shown, strict=True))
    for place, image_id in enumerate(retrieved.image_ids):
        yield {
            "question_id": question.question_id,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "set_id": question.set_1,
            "system": question.system_1,
            "rank": place + 1,
            "image_id": image_id,
            "relevance": level_of[place],
        }


class Qrels:
    """TREC's lines `query 0 image level`, with the median level (the lower one of two).

    How often each level was given to each image is in memory until the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.levels: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)

    def add(self, kept: Kept) -> None:
        for question in kept.questions:
            for row in image_rows(question):
                self.levels[row["query_id"], row["image_id"]][row["relevance"]] += 1

    def close(self) -> list[str]:
        for names in self.levels:
            broken = [name for name in names if name.split() != [name]]
            if broken:
                return [f"no qrels.txt: the id {broken[0]!r} has a blank, which separates columns"]
        with self.path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(
                f"{query} 0 {image} {median_low(sorted(given.elements()))}\n"
                for (query, image), given in self.levels.items()
            )
        return []


def qrels(_session: Session, _study: Study, folder: Path) -> list[FurtherFile]:
    return [Qrels(folder / "qrels.txt")]


IMAGES_RELEASE = ReleaseKind(
    name="images",
    question_kind="images",
    about="human judgements of each image of a retrieved set",
    main="judgements",
    own_tables=(JUDGEMENTS, RELEVANCE, UNSCORED_SETS),
    tables=tables,
    files=qrels,
    sets_are="sets with judged images",
)
