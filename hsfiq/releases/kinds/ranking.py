"""`ranking`: the rank that each set was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from hsfiq.ids import set_id
from hsfiq.releases.kinds.kind import (
    ANSWERED,
    ASKED,
    ITEM,
    ReleaseKind,
    Rows,
    answer_row,
    set_rows,
)
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import COLUMNS, TEXTS


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "rankings": [
            answer_row(
                question,
                set_ids=[
                    set_id(question.question_id, side) for side in range(1, len(question.sets) + 1)
                ],
                systems=[retrieved.system for retrieved in question.sets],
                ranks=question.judged("ranks"),
            )
            for question in kept
        ],
        "sets": [row for question in kept for row in ranked_sets(question)],
    }


def ranked_sets(question: QuestionRow) -> Iterator[dict[str, Any]]:
    ranks = question.judged("ranks")
    for row, rank in zip(set_rows(question, [None] * len(ranks)), ranks, strict=True):
        del row["score"]
        yield row | {"rank": rank}


SETS = {name: kind for name, kind in COLUMNS["sets"].items() if name != "score"}

RANKING = ReleaseKind(
    name="ranking",
    question_kind="ranking",
    about="human rankings of retrieved sets",
    main="rankings",
    columns={
        "rankings": {
            **ASKED,
            "set_ids": TEXTS,
            "systems": TEXTS,
            "ranks": pa.list_(pa.int32()),
            **ANSWERED,
        },
        "sets": SETS | {"rank": pa.int8()},
    },
    descriptions={
        "rankings": "one row a question: its sets as shown and their ranks, flags and times",
        "sets": "one row a retrieved set as judged: its images, best first, and its rank",
    },
    column_descriptions={
        "rankings": {
            "item_id": ITEM,
            "set_ids": "in the order shown, as are systems and ranks",
            "ranks": "1 is the best; tied sets have the same rank",
        },
    },
    tables=tables,
    sets_are="ranked sets",
)
