"""`single`: the score of each set; `sets` has it, too, as in releases of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

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
from hsfiq.releases.schemas import COLUMNS, TEXT


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "scores": [
            answer_row(
                question,
                set_id=question.set_1,
                system=question.system_1,
                score=question.judged("score"),
            )
            for question in kept
        ],
        "sets": [
            row for question in kept for row in set_rows(question, [question.judged("score")])
        ],
    }


SINGLE = ReleaseKind(
    name="single",
    question_kind="single",
    about="human scores of retrieved sets, each shown alone,",
    main="scores",
    columns={
        "scores": {
            **ASKED,
            "set_id": TEXT,
            "system": TEXT,
            "score": pa.int8(),
            **ANSWERED,
        },
        "sets": COLUMNS["sets"],
    },
    descriptions={"scores": "one row a question: the set's score from 1, flags and times"},
    column_descriptions={"scores": {"item_id": ITEM}},
    tables=tables,
)
