"""The ways in: open enrolment, personal links, and the links of Prolific and MTurk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import participant_in, remember
from hsfiq.annotate.handlers import Site
from hsfiq.annotate.texts import preferred_language
from hsfiq.annotate.views import open_studies
from hsfiq.annotate.welcome import late_page, preview_page, unknown_link_page, welcome_page
from hsfiq.collect import participants
from hsfiq.collect.studies import list_studies
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import NotOpen, Refused
from hsfiq.study.config import config_of

Platform = Literal["prolific", "mturk"]

ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""What the platforms' ids look like, and our tokens; nothing else is taken."""

PERSON: dict[Platform, str] = {"prolific": "PROLIFIC_PID", "mturk": "workerId"}
VISIT: dict[Platform, tuple[str, ...]] = {
    "prolific": ("STUDY_ID", "SESSION_ID"),
    "mturk": ("assignmentId", "hitId"),
}
"""Parameters that come along: looked at, not kept."""

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""What MTurk sends while a worker only looks at a task."""

BROKEN_LINK, NOT_FOUND = 400, 404


class BrokenLink(Refused):
    """A platform's link without what it must carry."""

    status = BROKEN_LINK


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody sent by a platform; `person` is None while they only look."""

    platform: Platform
    person: str | None
    study: str | None


def read_arrival(parameters: Mapping[str, str]) -> Arrival:
    """Read a platform's link.

    Raises:
        BrokenLink: it names no person, or holds an id that looks like none.
    """
    study = parameters.get("study")
    if parameters.get("assignmentId") == PREVIEW:
        return Arrival("mturk", None, study)
    for platform, name in PERSON.items():
        if name not in parameters:
            continue
        sent = [parameters[key] for key in (name, *VISIT[platform]) if key in parameters]
        if not all(ID.fullmatch(value) for value in sent):
            raise BrokenLink("an id in the link is none")
        return Arrival(platform, parameters[name], study)
    raise BrokenLink("the link names nobody")


def study_of(session: Session, arrival: Arrival) -> Study | None:
    """The study that a platform's link means, None where that is not to be told.

    The one it names; else the only open one of that platform, or the only one that knows the
    person; when none is open any more, one that was.
    """
    candidates = [
        study
        for study in list_studies(session)
        if study.status != "draft"
        and study.origin == "collected"
        and config_of(study).recruitment.mode == arrival.platform
        and arrival.study in (None, study.name)
    ]
    candidates = [study for study in candidates if study.status == "open"] or candidates
    if len(candidates) > 1:
        candidates = [study for study in candidates if knows(session, study, arrival.person)]
    return candidates[0] if len(candidates) == 1 else None


def knows(session: Session, study: Study, person: str | None) -> bool:
    """Whether the platform has sent this person to the study before."""
    if person is None:
        return False
    found = select(Participant.id).where(
        Participant.study_id == study.id, Participant.external_id == person
    )
    return session.scalar(found) is not None


def add_arrivals(app: FastAPI, site: Site) -> None:
    """What a browser reaches without a cookie, and gets one at."""
    add_front_door(app, site)
    add_personal_link(app, site)
    add_platform_link(app, site)

    @app.get("/healthz")
    def healthy() -> dict[str, bool]:
        return {"ok": True}


def add_front_door(app: FastAPI, site: Site) -> None:
    """Welcome, and enrolment where a study is open to all."""

    @app.get("/")
    def welcome(request: Request) -> Response:
        with site.database.reading() as session:
            participant = participant_in(session, request.cookies, site.signer)
            known = participant.study if participant else None
            return HTMLResponse(welcome_page(open_studies(session), known, language_in(request)))

    @app.post("/enrol")
    def enrol(request: Request, study: Annotated[int, Form()]) -> Response:
        try:
            with site.database.writing() as session:
                participant = participant_in(session, request.cookies, site.signer)
                if participant is None or participant.study_id != study:
                    require_listed(session, study)
                    participant = participants.enrol(session, study, now=datetime.now(UTC))
        except NotOpen:
            with site.database.reading() as session:
                others = [other for other in open_studies(session) if other.id != study]
            page = welcome_page(others, None, language_in(request), is_full=True)
            return HTMLResponse(page, status_code=NotOpen.status)
        return let_in(request, site, participant, "study/")


def add_personal_link(app: FastAPI, site: Site) -> None:
    """An invitation's link, which leads back to where one stood."""

    @app.get("/start/{token}")
    def personal_link(request: Request, token: str) -> Response:
        with site.database.reading() as session:
            known = participants.by_token(session, token) if ID.fullmatch(token) else None
        if known is None:
            return HTMLResponse(unknown_link_page(language_in(request)), status_code=NOT_FOUND)
        try:
            with site.database.writing() as session:
                participant = session.get_one(Participant, known.id)
                participants.enrol_invited(session, participant, now=datetime.now(UTC))
        except NotOpen:
            return HTMLResponse(late_page(known.study), status_code=NotOpen.status)
        return let_in(request, site, participant, "../study/")


def add_platform_link(app: FastAPI, site: Site) -> None:
    """The link that Prolific or MTurk fills with its ids."""

    @app.get("/start")
    def platform_link(request: Request) -> Response:
        try:
            arrival = read_arrival(request.query_params)
        except BrokenLink as error:
            return HTMLResponse(unknown_link_page(language_in(request)), status_code=error.status)
        with site.database.reading() as session:
            study = study_of(session, arrival)
        if study is None:
            return HTMLResponse(unknown_link_page(language_in(request)), status_code=NOT_FOUND)
        if arrival.person is None:
            return HTMLResponse(preview_page(study))
        try:
            with site.database.writing() as session:
                participant = participants.enrol(
                    session,
                    study.id,
                    now=datetime.now(UTC),
                    source=arrival.platform,
                    external_id=arrival.person,
                )
        except NotOpen:
            return HTMLResponse(late_page(study), status_code=NotOpen.status)
        return let_in(request, site, participant, "study/")


def require_listed(session: Session, study_id: int) -> None:
    """Raise `NotOpen` unless the welcome page offers this study."""
    if study_id not in {study.id for study in open_studies(session)}:
        raise NotOpen("this study takes no participants")


def let_in(request: Request, site: Site, participant: Participant, way: str) -> Response:
    """Send the browser to the study, with its cookie; no cache keeps the link's answer."""
    response = RedirectResponse(way, status_code=303, headers={"Cache-Control": "no-store"})
    remember(response, participant, site.signer, secure=request.url.scheme == "https")
    return response


def language_in(request: Request) -> str:
    """The language for a browser whose study is not known."""
    return preferred_language(request.headers.get("accept-language", ""))
