"""What a participant does: turns pages, answers, passes checks. One call is one request.

A call first writes what it has to in one short transaction; the view that it answers with is
read after the commit, so it can only show what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import required_participant
from hsfiq.annotate.images import Shelf
from hsfiq.annotate.payloads import answer_of
from hsfiq.annotate.signing import Signer, read_assignment, signer_of
from hsfiq.annotate.stages import decide, wants_reason
from hsfiq.annotate.thumbnails import Thumbnails, cache_folder
from hsfiq.annotate.views import Turn, Viewer, turn_past, turn_to, turn_to_current
from hsfiq.collect import participants, responses
from hsfiq.collect.checks import answer_check
from hsfiq.collect.protocol import (
    AnswerPayload,
    CheckPayload,
    CheckReply,
    Opening,
    SkipPayload,
    SubmitPayload,
    SubmitReply,
    View,
)
from hsfiq.collect.responses import Skip
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Question
from hsfiq.errors import Forbidden, Refused
from hsfiq.records import SHORTEST_REASON, Answer, Times

Cookies = Mapping[str, str]


class HandedOn(Forbidden):
    """The participant was away for so long that somebody else has got the question."""


@dataclass(frozen=True, slots=True)
class Site:
    """What every request needs: the database, the signer, the images."""

    database: Database
    signer: Signer
    shelf: Shelf

    @classmethod
    def over(cls, database: Database) -> Site:
        """The site of this database."""
        thumbnails = Thumbnails(cache_folder(database))
        return cls(database, signer_of(database), Shelf(thumbnails))

    @property
    def viewer(self) -> Viewer:
        """The builder of views."""
        return Viewer(self.shelf, self.signer)


def opening(site: Site, cookies: Cookies) -> Opening:
    """What the page gets when it opens.

    Raises:
        Unknown: the cookies name nobody.
    """
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        turn = turn_to_current(session, participant, datetime.now(UTC))
    with site.database.reading() as session:
        return site.viewer.opening(session, participant, turn)


def show(site: Site, cookies: Cookies, number: int | None) -> View:
    """The view of a question, or of the current step where no number is given.

    Raises:
        Refused: the cookies name nobody, or the question is not theirs to see now.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        if number is None:
            turn = turn_to_current(session, participant, now)
        else:
            turn = turn_to(session, participant, number, now)
    return view_of(site, participant, turn)


def submit(site: Site, cookies: Cookies, payload: SubmitPayload | SkipPayload) -> SubmitReply:
    """Keep an answer and give back its revision with what comes next.

    Raises:
        Refused: whatever stands against it; nothing is written then.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        assignment = read_assignment(
            site.signer, participant.token, payload["assignment"], "question"
        )
        answer = None if "skip" in payload else payload["answer"]
        response = responses.submit(
            session,
            participant,
            assignment.key,
            kept_answer(site, session, participant, assignment.key, answer, now),
            expected_revision=assignment.revision,
            submit_key=payload["submit_key"],
        )
        revision = response.revision
        turn = turn_past(session, participant, assignment.key, now)
    return {"revision": revision, "view": view_of(site, participant, turn)}


def consent(site: Site, cookies: Cookies, *, agrees: bool) -> View:
    """Keep whether the participant takes part; what to show now.

    Raises:
        Refused: the cookies name nobody, or they decline what they have agreed to.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        decide(session, participant, agrees=agrees, now=now)
        turn = turn_to_current(session, participant, now)
    return view_of(site, participant, turn)


def finish_practice(site: Site, cookies: Cookies) -> View:
    """Keep that the participant has been through the practice question; what to show now.

    Raises:
        Refused: the cookies name nobody.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        if turn_to_current(session, participant, now).stage == "practice":
            participants.finish_practice(participant, now=now)
        turn = turn_to_current(session, participant, now)
    return view_of(site, participant, turn)


def check(site: Site, cookies: Cookies, payload: CheckPayload) -> CheckReply:
    """Keep a try at a check; whether it was right, and what to show now.

    Raises:
        Refused: whatever stands against it; nothing is written then.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        assignment = read_assignment(site.signer, participant.token, payload["assignment"], "check")
        passed = answer_check(session, participant, assignment.key, payload["given"], now=now)
        turn = turn_to_current(session, participant, now)
    return {"passed": passed, "view": view_of(site, participant, turn)}


def view_of(site: Site, participant: Participant, turn: Turn) -> View:
    """The view at this turn, as stored."""
    with site.database.reading() as session:
        return site.viewer.view(session, participant, turn)


def kept_answer(
    site: Site,
    session: Session,
    participant: Participant,
    question_id: int,
    payload: AnswerPayload | None,
    now: datetime,
) -> Answer | Skip:
    """The answer as it is stored, its times reckoned by the server's clock.

    Raises:
        HandedOn: somebody else has got the question.
        Refused: a skip although no image is missing, or no reason where one is asked for.
    """
    question = session.get_one(Question, question_id)
    if question.handed_on:
        raise HandedOn("this question has gone to somebody else")
    if payload is None:
        if not site.viewer.lacks_images(session, question):
            raise Refused("only a question with a missing image can be skipped")
        return Skip(served_at=question.served_at, submitted_at=now)
    shortest = SHORTEST_REASON
    reason = (payload["reason"] or "").strip()
    if wants_reason(question, participant) and len(reason) < shortest:
        raise Refused(f"this question asks for a reason of {shortest} characters or more")
    return answer_of(payload, times(payload, question.served_at, now))


def times(payload: AnswerPayload, served_at: datetime | None, now: datetime) -> Times:
    """The times of an answer.

    The page reports durations; none can be longer than the time since the question was served, so
    a longer one (a browser that slept, a clock set back) is cut to that.
    """
    wall = max((now - served_at).total_seconds(), 0.0) if served_at else 0.0
    since = payload["seconds_since_first_interaction"]
    return Times(
        served_at=served_at,
        first_interaction_at=None if since is None else now - timedelta(seconds=min(since, wall)),
        submitted_at=now,
        active_seconds=round(min(payload["active_seconds"], wall), 3),
    )
