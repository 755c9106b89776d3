"""What a participant does: turns pages, answers, passes checks. One call is one request.

A call first writes what it has to in one short transaction; the view that it answers with is
read after the commit, so it can only show what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from annotate.bodies import CheckTry, GivenAnswer, Submit
from annotate.page import Turn, View, Viewer, turn_past, turn_to, turn_to_current
from annotate.shelf import Shelf
from annotate.signing import Signer, read_assignment, signer_of
from annotate.visitors import required_participant
from hsfiq import store
from hsfiq.database import Database
from hsfiq.errors import Refused
from hsfiq.records import Answer, Times
from hsfiq.tables import Participant, Question

Cookies = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Site:
    """What every request needs: the database, the signer, the images."""

    database: Database
    signer: Signer
    shelf: Shelf

    @classmethod
    def over(cls, database: Database) -> Site:
        """The site of this database."""
        return cls(database, signer_of(database), Shelf())

    @property
    def viewer(self) -> Viewer:
        """The builder of views."""
        return Viewer(self.shelf, self.signer)


def opening(site: Site, cookies: Cookies) -> View:
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


def submit(site: Site, cookies: Cookies, given: Submit) -> View:
    """Keep an answer and give back its revision with what comes next.

    Raises:
        Refused: whatever stands against it; nothing is written then.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        assignment = read_assignment(site.signer, participant.token, given.assignment, "question")
        response = store.submit(
            session,
            participant,
            assignment.key,
            kept_answer(site, session, assignment.key, given.answer, now),
            expected_revision=assignment.revision,
            submit_key=given.submit_key,
        )
        revision = response.revision
        turn = turn_past(session, participant, assignment.key, now)
    return {"revision": revision, "view": view_of(site, participant, turn)}


def check(site: Site, cookies: Cookies, given: CheckTry) -> View:
    """Keep a try at a check; whether it was right, and what to show now.

    Raises:
        Refused: whatever stands against it; nothing is written then.
    """
    now = datetime.now(UTC)
    with site.database.writing() as session:
        participant = required_participant(session, cookies, site.signer)
        assignment = read_assignment(site.signer, participant.token, given.assignment, "check")
        passed = store.answer_check(session, participant, assignment.key, given.given, now=now)
        turn = turn_to_current(session, participant, now)
    return {"passed": passed, "view": view_of(site, participant, turn)}


def view_of(site: Site, participant: Participant, turn: Turn) -> View:
    """The view at this turn, as stored."""
    with site.database.reading() as session:
        return site.viewer.view(session, participant, turn)


def kept_answer(
    site: Site, session: Session, question_id: int, given: GivenAnswer | None, now: datetime
) -> Answer | store.Skip:
    """The answer as it is stored, its times reckoned by the server's clock.

    Raises:
        Refused: a skip although no image is missing.
    """
    question = session.get_one(Question, question_id)
    if given is None:
        if not site.viewer.lacks_images(session, question):
            raise Refused("only a question with a missing image can be skipped")
        return store.Skip(served_at=question.served_at, submitted_at=now)
    return Answer(
        given.score_1,
        given.score_2,
        given.preferred,
        given.irrelevant,
        given.reason,
        times(given, question.served_at, now),
    )


def times(given: GivenAnswer, served_at: datetime | None, now: datetime) -> Times:
    """The times of an answer.

    The page reports durations; none can be longer than the time since the question was served, so
    a longer one (a browser that slept, a clock set back) is cut to that.
    """
    wall = max((now - served_at).total_seconds(), 0.0) if served_at else 0.0
    since = given.seconds_since_first_interaction
    return Times(
        served_at=served_at,
        first_interaction_at=None if since is None else now - timedelta(seconds=min(since, wall)),
        submitted_at=now,
        active_seconds=round(min(given.active_seconds, wall), 3),
    )
