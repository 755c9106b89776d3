"""The tables of the owner's extra questions: what was asked, and the answers in long form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsfiq.releases.rows import QuestionRow
from hsfiq.study.config import Questionnaire
from hsfiq.study.instrument import ExtraQuestion, parts_of

Rows = list[dict[str, Any]]

ASKED = {"after_each": "after each question", "at_end": "once, at the end"}
"""When the questions of each list are asked."""


def field_rows(questionnaire: Questionnaire) -> dict[str, Rows]:
    """The table of what was asked, by its name; none without extra questions."""
    if not questionnaire.after_each and not questionnaire.at_end:
        return {}
    rows = [
        {
            "field": question.name,
            "asked": asked,
            "type": question.type,
            "wording": question.text,
            "options": list(question.options) or None,
            "required": question.required,
            "min": question.bounds[0],
            "max": question.bounds[1],
            "other": question.other,
        }
        for name, asked in ASKED.items()
        for question in getattr(questionnaire, name)
    ]
    return {"fields": rows}


def answer_tables(
    questionnaire: Questionnaire,
    kept: Sequence[QuestionRow],
    at_end: Mapping[str, Mapping[str, Any]],
) -> dict[str, Rows]:
    """The tables of answers by name, of some of the questions kept, all of each participant.

    `at_end` has the answers to the questions at the end by participant. Those of participants of
    whom no question is kept are left out.
    """
    tables: dict[str, Rows] = {}
    if questionnaire.after_each:
        tables["extra_answers"] = [
            {"question_id": row.question_id, "participant_id": row.participant_id, **answer}
            for row in kept
            if row.extra is not None
            for answer in answer_rows(questionnaire.after_each, row.extra)
        ]
    if questionnaire.at_end:
        participants = dict.fromkeys(row.participant_id for row in kept)
        tables["participant_answers"] = [
            {"participant_id": participant, **answer}
            for participant in participants
            if participant in at_end
            for answer in answer_rows(questionnaire.at_end, at_end[participant])
        ]
    return tables


def answer_rows(
    questions: Sequence[ExtraQuestion], answers: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for question in questions:
        for number, text in parts_of(question, answers.get(question.name)) or [(None, None)]:
            yield {"field": question.name, "number": number, "value": text}
