"""The requests of a preview's page: as a participant's, but nothing is written.

Every function reads in one session that never commits, and returns its reply with the place that
the browser's cookie remembers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import UnknownBrowser, read_assignment
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.preview.links import PreviewPlace
from hsfiq.collect.answers import Skip, given_answer, require_storable
from hsfiq.collect.page import Preview, preview_of
from hsfiq.collect.participants import require_language
from hsfiq.collect.protocol import (
    CheckPayload,
    CheckReply,
    JudgedSubmitPayload,
    LanguagePayload,
    Opening,
    QuestionnairePayload,
    SkipPayload,
    SubmitPayload,
    SubmitReply,
    View,
)
from hsfiq.collect.stages import Position
from hsfiq.collect.steps import asked_question
from hsfiq.db.tables import Check, Study
from hsfiq.errors import Forbidden
from hsfiq.study.config import config_of
from hsfiq.study.instrument import read_answers


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a preview's page, within its session."""

    services: Services
    session: Session
    preview: Preview
    place: PreviewPlace

    def view_of(self, position: Position) -> View:
        return self.services.views.view(self.session, self.preview.participant, position)

    def view_at(self, place: PreviewPlace) -> View:
        return self.view_of(self.preview.position(place.reached))

    def after(self, reached: int) -> PreviewPlace:
        """The place after so many steps; a step that was done before does not lead back."""
        return self.place.after(min(max(reached, self.place.reached), self.preview.last))


@contextmanager
def visiting(services: Services, place: PreviewPlace) -> Iterator[Visit]:
    with services.database.reading() as session:
        study = session.get(Study, place.study_id)
        if study is None:
            raise UnknownBrowser("the study of this preview is not there any more")
        preview = preview_of(session, study, place.batch, place.language or None)
        yield Visit(services, session, preview, place)


def opening(services: Services, place: PreviewPlace) -> Opening:
    with visiting(services, place) as visit:
        position = visit.preview.position(place.reached)
        first = services.views.opening(visit.session, visit.preview.participant, position)
        return {**first, "study": {**first["study"], "is_preview": True}}


def show(services: Services, place: PreviewPlace, number: int | None) -> tuple[View, PreviewPlace]:
    with visiting(services, place) as visit:
        if number is None:
            return visit.view_at(place), place
        return visit.view_of(visit.preview.position_at(place.reached, number)), place


def choose_language(
    services: Services, place: PreviewPlace, payload: LanguagePayload
) -> tuple[View, PreviewPlace]:
    with visiting(services, place) as visit:
        require_language(visit.preview.participant.study, payload["language"])
    return show(services, replace(place, language=payload["language"]), payload["number"])


def consent(services: Services, place: PreviewPlace, *, agrees: bool) -> tuple[View, PreviewPlace]:
    """Go on from the consent page, or show what somebody sees who declines."""
    with visiting(services, place) as visit:
        if agrees:
            after = visit.after(visit.preview.before.index("consent") + 1)
            return visit.view_at(after), after
        visit.preview.participant.status = "screened-out"
        progress = visit.preview.position(0).progress
        return visit.view_of(Position("declined", progress)), place


def finish_practice(services: Services, place: PreviewPlace) -> tuple[View, PreviewPlace]:
    with visiting(services, place) as visit:
        after = visit.after(len(visit.preview.before))
        return visit.view_at(after), after


def submit(
    services: Services,
    place: PreviewPlace,
    payload: SubmitPayload | JudgedSubmitPayload | SkipPayload,
) -> tuple[SubmitReply, PreviewPlace]:
    """Check an answer as a participant's is checked, and go on without it."""
    with visiting(services, place) as visit:
        participant = visit.preview.participant
        assignment = read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "question"
        )
        step = visit.preview.question(assignment.key)
        reached = visit.preview.place_of(step)
        if reached > place.reached:
            raise Forbidden("this question comes later")
        question = asked_question(visit.session, step)
        answer = given_answer(question, participant.study, payload, datetime.now(UTC))
        if not isinstance(answer, Skip):
            require_storable(answer, participant.study)
        after = visit.after(reached + 1)
        following = visit.preview.position_after(after.reached, step)
        return {"revision": assignment.revision + 1, "view": visit.view_of(following)}, after


def check(
    services: Services, place: PreviewPlace, payload: CheckPayload
) -> tuple[CheckReply, PreviewPlace]:
    with visiting(services, place) as visit:
        assignment = read_assignment(
            services.signer, visit.preview.participant.token_hash, payload["assignment"], "check"
        )
        current = visit.preview.position(place.reached).step
        if current is None or current.check_id != assignment.key:
            raise Forbidden("this sum cannot be answered now")
        expected = visit.session.get_one(Check, assignment.key).expected
        passed = payload["given"].strip() == expected
        after = visit.after(place.reached + 1) if passed else place
        return {"passed": passed, "view": visit.view_at(after)}, after


def answer_questionnaire(
    services: Services, place: PreviewPlace, payload: QuestionnairePayload
) -> tuple[View, PreviewPlace]:
    with visiting(services, place) as visit:
        participant = visit.preview.participant
        read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "questionnaire"
        )
        questions = config_of(participant.study).questionnaire.at_end
        read_answers(questions, payload["answers"])
        after = visit.after(visit.preview.last)
        return visit.view_at(after), after


def next_step(services: Services, place: PreviewPlace) -> tuple[View, PreviewPlace]:
    """Go on without an answer."""
    with visiting(services, place) as visit:
        after = visit.after(place.reached + 1)
        return visit.view_at(after), after


def restart(services: Services, place: PreviewPlace) -> tuple[View, PreviewPlace]:
    with visiting(services, place) as visit:
        first = place.after(0)
        return visit.view_at(first), first
