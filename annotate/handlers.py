"""The requests of a participant's page: one function for each.

A function first writes what is needed in one short transaction, and raises `Refused` if the request
cannot be accepted; nothing is stored then. The view in its reply is read after the commit, so it
can only show what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hsfiq.annotate.cookies import Signer, read_assignment, required_participant, signer_of
from hsfiq.annotate.images.copies import WebCopies, cache_folder
from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.views import ViewBuilder
from hsfiq.answer_rules import SHORTEST_REASON, WHITE_SPACE, Answer, ImageStates, Times
from hsfiq.collect import participants, responses
from hsfiq.collect.checks import answer_check
from hsfiq.collect.protocol import (
    AnswerPayload,
    CheckPayload,
    CheckReply,
    ImagesPayload,
    Opening,
    SkipPayload,
    SubmitPayload,
    SubmitReply,
    View,
)
from hsfiq.collect.responses import Skip
from hsfiq.collect.stages import (
    Position,
    asks_reason,
    current_position,
    decide,
    position_after,
    position_at,
)
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Question
from hsfiq.errors import Forbidden, Refused

Cookies = Mapping[str, str]


class Reassigned(Forbidden):
    """The participant was away for so long that the question was reassigned."""


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    signer: Signer
    images: ImageStore

    @classmethod
    def of(cls, database: Database) -> Services:
        images = ImageStore(WebCopies(cache_folder(database)))
        return cls(database, signer_of(database), images)

    @property
    def views(self) -> ViewBuilder:
        return ViewBuilder(self.images, self.signer)


def opening(services: Services, cookies: Cookies) -> Opening:
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        position = current_position(session, participant, datetime.now(UTC))
    with services.database.reading() as session:
        return services.views.opening(session, participant, position)


def show(services: Services, cookies: Cookies, number: int | None) -> View:
    """The view of a question, or of the current step if no number is given."""
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        if number is None:
            position = current_position(session, participant, now)
        else:
            position = position_at(session, participant, number, now)
    return view_of(services, participant, position)


def submit(
    services: Services, cookies: Cookies, payload: SubmitPayload | SkipPayload
) -> SubmitReply:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        assignment = read_assignment(
            services.signer, participant.token, payload["assignment"], "question"
        )
        question = session.get_one(Question, assignment.key)
        if question.reassigned:
            raise Reassigned("this question has been reassigned to somebody else")
        images = image_states(payload["images"], participant.study.k)
        answer: Answer | Skip
        if "skip" in payload:
            answer = Skip(images, served_at=question.served_at, submitted_at=now)
        else:
            answer = answer_of(question, participant, payload["answer"], images, now)
        response = responses.submit(
            session,
            participant,
            question.id,
            answer,
            expected_revision=assignment.revision,
            submit_key=payload["submit_key"],
        )
        revision = response.revision
        position = position_after(session, participant, question.id, now)
    return {"revision": revision, "view": view_of(services, participant, position)}


def image_states(payload: ImagesPayload, k: int) -> ImageStates:
    """The states of the images; `Refused` unless they are of two sets of k images."""
    sets = [tuple(states) for states in payload["sets"]]
    if [len(states) for states in sets] != [k, k]:
        raise Refused(f"images: must be of two sets of {k} images")
    return ImageStates(payload["reference"], (sets[0], sets[1]))


def answer_of(
    question: Question,
    participant: Participant,
    payload: AnswerPayload,
    images: ImageStates,
    now: datetime,
) -> Answer:
    """The answer with the states of its images, and its times by the server's clock.

    The page reports durations. None can be longer than the time since the question was served, so
    a longer one (the computer slept, its clock was changed) is cut to that.
    """
    reason = (payload["reason"] or "").strip(WHITE_SPACE)
    if asks_reason(question, participant) and len(reason) < SHORTEST_REASON:
        raise Refused(f"this question asks for a reason of {SHORTEST_REASON} characters or more")
    served_at, since = question.served_at, payload["seconds_since_first_interaction"]
    elapsed = max((now - served_at).total_seconds(), 0.0) if served_at else 0.0
    times = Times(
        served_at=served_at,
        first_interaction_at=(
            None if since is None else now - timedelta(seconds=min(since, elapsed))
        ),
        submitted_at=now,
        active_seconds=round(min(payload["active_seconds"], elapsed), 3),
    )
    return Answer(
        payload["score_1"],
        payload["score_2"],
        payload["preferred"],
        payload["irrelevant"],
        None if payload["reason"] is None else reason,
        times,
        images,
    )


def consent(services: Services, cookies: Cookies, *, agrees: bool) -> View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        decide(session, participant, agrees=agrees, now=now)
        position = current_position(session, participant, now)
    return view_of(services, participant, position)


def finish_practice(services: Services, cookies: Cookies) -> View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        if current_position(session, participant, now).stage == "practice":
            participants.finish_practice(participant, now=now)
        position = current_position(session, participant, now)
    return view_of(services, participant, position)


def check(services: Services, cookies: Cookies, payload: CheckPayload) -> CheckReply:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        assignment = read_assignment(
            services.signer, participant.token, payload["assignment"], "check"
        )
        passed = answer_check(session, participant, assignment.key, payload["given"], now=now)
        position = current_position(session, participant, now)
    return {"passed": passed, "view": view_of(services, participant, position)}


def view_of(services: Services, participant: Participant, position: Position) -> View:
    with services.database.reading() as session:
        return services.views.view(session, participant, position)
