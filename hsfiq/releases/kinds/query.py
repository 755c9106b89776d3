"""`query`: what each annotator said of a query."""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.kinds.query import VERDICTS
from hsfiq.releases.kinds.columns import ANSWERED, ASKED
from hsfiq.releases.kinds.kind import ReleaseKind, Rows, answer_row
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import TEXT, Column, Table

QUERY_RATINGS = Table(
    "query_ratings",
    "one row a question: the verdict on the query, flags and times",
    (
        *ASKED,
        Column(
            "verdict",
            TEXT,
            "VALIDATED, INVALID_TEXT_QUERY, INVALID_IMAGE_QUERY, INVALID_TARGET_IMAGE or "
            "QUERY_TOO_BROAD (the rubric of CIRCUS)",
            values=VERDICTS,
        ),
        *ANSWERED,
    ),
    key=("question_id",),
)


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "query_ratings": [
            answer_row(question, verdict=question.judged("verdict")) for question in kept
        ]
    }


QUERY_RELEASE = ReleaseKind(
    name="query",
    question_kind="query",
    about="human judgements of whether queries are well formed,",
    main="query_ratings",
    own_tables=(QUERY_RATINGS,),
    tables=tables,
    sets_are="",
)
