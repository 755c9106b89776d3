"""The tables of the owner's extra questions: what was asked, and the answers in long form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsfiq.releases.rows import QuestionRow
from hsfiq.study.instrument.extra_questions import ExtraQuestion, parts_of
from hsfiq.study.instrument.questionnaire import Questionnaire

Rows = list[dict[str, Any]]

ASKED = {"after_each": "after each question"}
"""When the questions of each list are asked."""


def extra_tables(questionnaire: Questionnaire, kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    """The tables by name; none without extra questions."""
    if not questionnaire.after_each:
        return {}
    return {
        "fields": [
            {
                "field": question.name,
                "asked": asked,
                "type": question.type,
                "wording": question.text,
                "options": list(question.options) or None,
                "required": question.required,
            }
            for name, asked in ASKED.items()
            for question in getattr(questionnaire, name)
        ],
        "extra_answers": [
            {"question_id": row.question_id, "participant_id": row.participant_id, **answer}
            for row in kept
            if row.extra is not None
            for answer in answer_rows(questionnaire.after_each, row.extra)
        ],
    }


def answer_rows(
    questions: Sequence[ExtraQuestion], answers: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for question in questions:
        for number, text in parts_of(question, answers.get(question.name)) or [(None, None)]:
            yield {"field": question.name, "number": number, "value": text}
