"""`single`: the score of each set; `sets` has it, too, as in releases of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.releases.kinds.columns import ANSWERED, ASKED, SCORE, SETS, SYSTEM
from hsfiq.releases.kinds.kind import ReleaseKind, Rows, answer_row, set_rows
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import TEXT, Column, Table

SCORES = Table(
    "scores",
    "one row a question: the set's score from 1, flags and times",
    (
        *ASKED,
        Column("set_id", TEXT, "the set", refers_to="sets.set_id"),
        SYSTEM,
        SCORE,
        *ANSWERED,
    ),
    key=("question_id",),
)


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


SINGLE_RELEASE = ReleaseKind(
    name="single",
    question_kind="single",
    about="human scores of retrieved sets, each shown alone,",
    main="scores",
    own_tables=(SCORES, SETS),
    tables=tables,
)
