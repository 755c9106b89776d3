"""`ranking`: the rank that each set was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hsfiq.ids import set_id
from hsfiq.releases.kinds.columns import ANSWERED, ASKED, SET_COLUMNS
from hsfiq.releases.kinds.kind import ReleaseKind, Rows, answer_row, set_rows
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import POINTS, TEXTS, WHOLES, Column, Table

RANKINGS = Table(
    "rankings",
    "one row a question: its sets as shown and their ranks, flags and times",
    (
        *ASKED,
        Column("set_ids", TEXTS, "in the order shown", refers_to="sets.set_id"),
        Column("systems", TEXTS, "in the order shown; null in it if systems were not named"),
        Column(
            "ranks",
            WHOLES,
            "in the order shown; 1 is the best, and tied sets have the same rank",
            lowest=1,
        ),
        *ANSWERED,
    ),
    key=("question_id",),
)
RANKED_SETS = Table(
    "sets",
    "one row a retrieved set as judged: its images, best first, and its rank",
    (
        *SET_COLUMNS,
        Column("rank", POINTS, "1 is the best; tied sets have the same rank", lowest=1),
    ),
    key=("set_id",),
)


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


RANKING_RELEASE = ReleaseKind(
    name="ranking",
    question_kind="ranking",
    about="human rankings of retrieved sets",
    main="rankings",
    own_tables=(RANKINGS, RANKED_SETS),
    tables=tables,
    sets_are="ranked sets",
)
