"""The dashboard's tables: participants, latest answers, and one question's history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy.orm import Session

from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.images import add_images
from hsfiq.annotate.owner import actions
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.plots import empty, render_fragment
from hsfiq.annotate.pages import TEMPLATES, render
from hsfiq.annotate.searches import jpeg_response
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.checks import check_results
from hsfiq.collect.participants import (
    by_name_or_platform_id,
    changes_of,
    people_with_same_queries,
    rule_text,
)
from hsfiq.collect.progress import AnswerRow, ParticipantProgress, answers_of, participants_of
from hsfiq.collect.question_history import (
    QuestionHistory,
    find_question,
    item_answers,
    question_history,
)
from hsfiq.collect.review import Reason, flags_of, patterns_of
from hsfiq.collect.stages import answers_at_end
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchUpload
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of
from hsfiq.study.instrument import in_words

# What the pages show: all answers of a participant, and all answers about one item.


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
        kind=KINDS[study.kind],
        row=row,
        changes=[(change, rule_text(change)) for change in changes_of(session, person.id)],
        patterns=patterns_of(answers, person.name),
        flags=flags_of(session, study, [person.id]).get(person.id, ()),
        checks=list(check_results(session, study, [person.id])),
        questions=[question_history(session, study, answer.question_id) for answer in own],
        at_end=in_words(config_of(study).questionnaire.at_end, answers_at_end(session, person.id)),
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


# The pages' routes; everything under /owner is only for the owner.

Page = Callable[[Session, str, str], str]


def add_answer_pages(app: FastAPI, database: Database, images: ImageStore) -> None:
    """Add the routes; the login's middleware lets only the owner reach them."""

    def page(content: Page, study: str, name: str) -> Response:
        with database.reading() as session:
            try:
                return HTMLResponse(content(session, study, name))
            except Refused as error:
                missing = render("owner_missing.html", title="Not found", reason=str(error))
                return HTMLResponse(missing, status_code=404)

    @app.get(f"{OWNER}/participant")
    def participant(study: str, name: str) -> Response:
        return page(participant_page, study, name)

    @app.get(f"{OWNER}/question")
    def question(study: str, name: str) -> Response:
        return page(question_page, study, name)

    @app.get(f"{OWNER}/upload")
    def upload(study: str, name: str) -> Response:
        with database.reading() as session:
            return jpeg_response(uploaded_picture(session, study, name))

    add_images(app, f"{OWNER}/image", database, images)


LATEST = 12
LONGEST = 400
"""Characters of a reason or text on the dashboard; the release holds all of it."""


def participants_table(
    people: Sequence[ParticipantProgress],
    *,
    study: str,
    late: Collection[str],
    now: datetime,
    flags: Mapping[str, tuple[Reason, ...]] | None,
    has_any: bool,
) -> Markup:
    """The participants; clicking a name or an id copies it into the form below the table.

    The languages are a column if there are several, and so are reasons to look at somebody. The
    platform ids are the last column, which the page can hide; a study without any lacks it. Without
    `flags`, which are by name, the table has nothing that the participants' answers tell.
    """
    if not people:
        return empty("Nobody is found" if has_any else "Nobody has enrolled yet")
    return render_fragment(
        "participants.html",
        study=study,
        rows=people,
        late=late,
        now=now,
        with_answers=flags is not None,
        flags=flags or {},
        has_languages=len({person.language for person in people} - {None}) > 1,
        has_platform_ids=any(person.platform_id for person in people),
    )


def latest_answers_table(answers: Sequence[AnswerRow], now: datetime) -> Markup:
    """The newest answers; clicking an id shows the question's history."""
    never = datetime.min.replace(tzinfo=UTC)
    newest = sorted(answers, key=lambda a: a.submitted_at or never, reverse=True)[:LATEST]
    if not newest:
        return empty("No answer yet")
    return render_fragment("answers.html", answers=newest, now=now)


def history(question: QuestionHistory | None, name: str) -> Markup:
    """Everything about one question, oldest revision first; `name` is the id that was typed."""
    if question is None:
        return empty(f"This study has no question {shortened(name, 80)}")
    return render_fragment("history.html", question=question)


def notes_of(answer: AnswerRow) -> str:
    notes = [
        answer.skipped or "",
        "irrelevant" if answer.irrelevant else "",
        f"{answer.check} check" if answer.check else "",
        "not every image painted" if answer.are_painted is False and not answer.skipped else "",
        f"revised {answer.revisions - 1}x" if answer.revisions > 1 else "",
    ]
    return ", ".join(filter(None, notes))


def images_text(letters: str | None) -> str:
    """What a revision's participant had seen, by the letters that the database stores."""
    if letters is None:
        return "unknown"
    images = ImageStates.from_letters(letters)
    enlarged = f", {images.n_enlarged} enlarged" if images.n_enlarged else ""
    return f"{images.n_painted} of {len(images)} painted{enlarged}"


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


TEMPLATES.filters |= {
    "notes": notes_of,
    "images": images_text,
    "shortened": shortened,
}
