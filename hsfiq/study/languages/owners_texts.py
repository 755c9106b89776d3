"""The owner's texts in study.toml that a language file may translate, in the structure of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hsfiq.study.config import StudyConfig
from hsfiq.study.instrument.extra_questions import ExtraQuestion
from hsfiq.study.instrument.questionnaire import Questionnaire
from hsfiq.study.instrument.wording import page_texts
from hsfiq.study.languages.standard import leaves, missing_texts
from hsfiq.study.query_form import QueryForm

LISTS = ("after_each", "at_end")


def owners_texts(config: StudyConfig) -> dict[str, Any]:
    """What `[wording]`, `[practice]` and `[questionnaire]` say in the study's first language."""
    texts: dict[str, Any] = {"page": page_texts(config.wording)}
    if config.practice.explanation.strip():
        texts["practice"] = {"explanation": config.practice.explanation}
    asked: dict[str, Any] = {"note": config.questionnaire.note} if config.questionnaire.note else {}
    for name in LISTS:
        if questions := getattr(config.questionnaire, name):
            asked[name] = {question.name: texts_of(question) for question in questions}
    return texts | ({"questionnaire": asked} if asked else {})


def texts_of(question: ExtraQuestion) -> dict[str, Any]:
    options = {"options": list(question.options)} if question.options else {}
    return {"text": question.text, **options}


def translated_questionnaire(
    questionnaire: Questionnaire, texts: Mapping[str, Any]
) -> Questionnaire:
    """The questions in a language, of whose file `texts` are; untranslated ones as they are."""
    own = texts.get("questionnaire", {})
    return Questionnaire(
        note=own.get("note", questionnaire.note),
        after_each=translated(questionnaire.after_each, own.get("after_each", {})),
        at_end=translated(questionnaire.at_end, own.get("at_end", {})),
    )


def translated(
    questions: Iterable[ExtraQuestion], texts: Mapping[str, Mapping[str, Any]]
) -> tuple[ExtraQuestion, ...]:
    return tuple(
        replace(
            question,
            text=texts.get(question.name, {}).get("text", question.text),
            options=tuple(texts.get(question.name, {}).get("options", question.options)),
        )
        for question in questions
    )


def untranslated_texts(
    config: StudyConfig, language: str, form: QueryForm, own: Mapping[str, Any]
) -> dict[str, Any]:
    """The texts, by dotted key, that are shown in another language; `own` are the file's.

    The owner's texts of study.toml are in the study's first language.
    """
    missing = missing_texts(language, form, config.design.kind, own)
    owners = dict(leaves(owners_texts(config)))
    if language == config.study.language:
        return {key: text for key, text in missing.items() if key not in owners}
    given = dict(leaves(own))
    return missing | {key: text for key, text in owners.items() if key not in given}
