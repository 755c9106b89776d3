"""`query`: what each annotator said of a query."""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.releases.kinds.kind import ANSWERED, ASKED, ITEM, ReleaseKind, Rows, answer_row
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import TEXT


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "query_ratings": [
            answer_row(question, verdict=question.judged("verdict")) for question in kept
        ]
    }


QUERY = ReleaseKind(
    name="query",
    question_kind="query",
    about="human judgements of whether queries are well formed,",
    main="query_ratings",
    columns={"query_ratings": {**ASKED, "verdict": TEXT, **ANSWERED}},
    descriptions={"query_ratings": "one row a question: the verdict on the query, flags and times"},
    column_descriptions={
        "query_ratings": {
            "item_id": ITEM,
            "verdict": "VALIDATED, INVALID_TEXT_QUERY, INVALID_IMAGE_QUERY, INVALID_TARGET_IMAGE "
            "or QUERY_TOO_BROAD (the rubric of CIRCUS)",
        }
    },
    tables=tables,
    sets_are="",
)
