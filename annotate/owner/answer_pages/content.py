"""What the pages show: all answers of a participant, and all answers about one item."""

from __future__ import annotations

from operator import attrgetter

from sqlalchemy.orm import Session

from hsfiq.annotate.owner import actions
from hsfiq.annotate.pages import render
from hsfiq.collect.checks import check_results
from hsfiq.collect.history import find_question, item_answers, question_history
from hsfiq.collect.participants import (
    by_name_or_platform_id,
    changes_of,
    people_with_same_queries,
    rule_text,
)
from hsfiq.collect.progress import answers_of, participants_of
from hsfiq.collect.review import flags_of, patterns_of
from hsfiq.collect.stages import answers_at_end
from hsfiq.db.search_tables import SearchUpload
from hsfiq.errors import Refused
from hsfiq.study.config import config_of
from hsfiq.study.instrument import in_words


def participant_page(session: Session, study_name: str, name: str) -> str:
    """A participant's figures and answers, in the order of the questions; or `Refused`."""
    study = actions.study_named(session, study_name)
    person = by_name_or_platform_id(session, study, name)
    (row,) = participants_of(session, study, [person.id])
    answers = answers_of(session, study, people_with_same_queries(study, person.id))
    own = sorted(
        (answer for answer in answers if answer.participant == person.name),
        key=attrgetter("position"),
    )
    return render(
        "owner_participant.html",
        title=person.name,
        study=study,
        row=row,
        changes=[(change, rule_text(change)) for change in changes_of(session, person)],
        patterns=patterns_of(answers, person.name),
        flags=flags_of(session, study, [person.id]).get(person.id, ()),
        checks=list(check_results(session, study, [person.id])),
        questions=[question_history(session, study, answer.question_id) for answer in own],
        at_end=in_words(config_of(study).questionnaire.at_end, answers_at_end(session, person)),
    )


def question_page(session: Session, study_name: str, name: str) -> str:
    """A question with its pictures, and everybody's answers about the same sets; or `Refused`."""
    study = actions.study_named(session, study_name)
    question = question_history(session, study, name)
    if question is None:
        raise Refused(f"study {study.name} has no question {name[:80]!r}")
    return render(
        "owner_question.html",
        title=question.question_id,
        study=study,
        question=question,
        answers=item_answers(session, study, name),
    )


def uploaded_picture(session: Session, study_name: str, name: str) -> SearchUpload | None:
    """The picture that a participant uploaded for this question, if there is one; or `Refused`."""
    key = find_question(session, actions.study_named(session, study_name), name)
    return None if key is None else session.get(SearchUpload, key)
