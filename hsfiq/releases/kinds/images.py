"""`images`: the level of each image of a set, and `qrels.txt` of all answers together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import Any

import pyarrow as pa
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.kinds.kind import (
    ANSWERED,
    ASKED,
    ITEM,
    Files,
    ReleaseKind,
    Rows,
    answer_row,
    set_rows,
)
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import COLUMNS, TEXT


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


def qrels(_session: Session, _study: Study, kept: Sequence[QuestionRow]) -> Files:
    """TREC's lines `query 0 image level`, with the median level (the lower one of two)."""
    levels: dict[tuple[str, str], list[int]] = defaultdict(list)
    for question in kept:
        for row in image_rows(question):
            levels[row["query_id"], row["image_id"]].append(row["relevance"])
    for names in levels:
        broken = [name for name in names if name.split() != [name]]
        if broken:
            return {}, [f"no qrels.txt: the id {broken[0]!r} has a blank, which separates columns"]
    lines = (f"{query} 0 {image} {median_low(given)}\n" for (query, image), given in levels.items())
    return {"qrels.txt": "".join(lines).encode()}, []


IMAGES = ReleaseKind(
    name="images",
    question_kind="images",
    about="human judgements of each image of a retrieved set",
    main="judgements",
    columns={
        "judgements": {**ASKED, "set_id": TEXT, "system": TEXT, **ANSWERED},
        "relevance": {
            "question_id": TEXT,
            "participant_id": TEXT,
            "query_id": TEXT,
            "set_id": TEXT,
            "system": TEXT,
            "rank": pa.int32(),
            "image_id": TEXT,
            "relevance": pa.int8(),
        },
        "sets": COLUMNS["sets"],
    },
    descriptions={
        "judgements": "one row a question: the set, flags and times",
        "relevance": "one row an image of a question's set: its level, from 0 (does not fit)",
        "sets": "one row a retrieved set as judged: its images, best first; sets have no score",
    },
    column_descriptions={
        "judgements": {"item_id": ITEM},
        "relevance": {"rank": "of the image in the set, from 1"},
    },
    tables=tables,
    files=qrels,
    sets_are="sets with judged images",
)
