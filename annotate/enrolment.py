"""How participants enrol: openly, by personal link, or by a link from Prolific or MTurk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import participant_in, set_participant_cookie
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.pages import (
    not_open_page,
    other_platform_study_page,
    preview_page,
    unknown_link_page,
    welcome_page,
)
from hsfiq.annotate.texts import language_for
from hsfiq.collect import participants
from hsfiq.collect.studies import OtherPlatformStudy, list_studies
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import NotOpen, Refused
from hsfiq.study.config import PLATFORM_ID, config_of

Platform = Literal["prolific", "mturk"]

IDS: dict[Platform, tuple[str, ...]] = {
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "mturk": ("workerId", "assignmentId", "hitId"),
}
"""The ids in the platforms' links: the person, which is stored, and others, which are validated.

Of the others, only Prolific's STUDY_ID is stored: MTurk gives a task of many places several ids.
"""

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""What MTurk sends while a worker previews a task."""


class BrokenLink(Refused):
    status = 400


@dataclass(frozen=True, slots=True)
class PlatformLink:
    """The content of a platform's link; `person` is None for a preview.

    `study` is the name of our study, `platform_study` the platform's id of its own.
    """

    platform: Platform
    person: str | None
    study: str | None
    platform_study: str | None = None


def read_platform_link(parameters: Mapping[str, str]) -> PlatformLink:
    """Read a platform's link; `BrokenLink` if it names nobody or an id has the wrong form."""
    study = parameters.get("study")
    if parameters.get("assignmentId") == PREVIEW:
        return PlatformLink("mturk", None, study)
    for platform, names in IDS.items():
        if names[0] in parameters:
            given = [parameters[name] for name in names if name in parameters]
            if not all(map(PLATFORM_ID.fullmatch, given)):
                raise BrokenLink("an id in the link is not valid")
            platform_study = parameters.get("STUDY_ID") if platform == "prolific" else None
            return PlatformLink(platform, parameters[names[0]], study, platform_study)
    raise BrokenLink("the link names nobody")


def study_of(session: Session, link: PlatformLink) -> Study | None:
    """The study for a platform's link, None if there is none or several are possible.

    The study that the link names; otherwise the platform's only study, or the only one to which it
    has sent this person before. Closed studies are considered only if none is open. A study that
    is bound to a study of the platform is the only one for its link.

    Raises:
        OtherPlatformStudy: the studies possible are bound to other studies of the platform.
    """
    candidates = [
        study
        for study in list_studies(session)
        if study.status != "draft"
        and study.origin == "collected"
        and config_of(study).recruitment.mode == link.platform
        and link.study in (None, study.name)
    ]
    if link.platform_study is not None and candidates:
        candidates = bound_or_unbound(candidates, link.platform_study)
    candidates = [study for study in candidates if study.status == "open"] or candidates
    if len(candidates) > 1:
        candidates = [study for study in candidates if knows(session, study, link.person)]
    return candidates[0] if len(candidates) == 1 else None


def bound_or_unbound(candidates: list[Study], platform_study: str) -> list[Study]:
    """The study that is bound to this study of the platform; else those that are not bound yet."""
    bound = [study for study in candidates if study.platform_study_id == platform_study]
    possible = bound or [study for study in candidates if study.platform_study_id is None]
    if not possible:
        raise OtherPlatformStudy("the link is for another study of the platform")
    return possible


def knows(session: Session, study: Study, person: str | None) -> bool:
    if person is None:
        return False
    participant = select(Participant.id).where(
        Participant.study_id == study.id, Participant.external_id == person
    )
    return session.scalar(participant) is not None


def open_studies(session: Session) -> list[Study]:
    return [
        study
        for study in list_studies(session)
        if study.status == "open" and config_of(study).recruitment.mode == "open"
    ]


# ----------------------------------------------------------------------------------------- routes


def add_enrolment_routes(app: FastAPI, services: Services) -> None:
    """Add the routes that need no cookie, and set it."""
    add_open_enrolment(app, services)
    add_personal_links(app, services)
    add_platform_links(app, services)

    @app.get("/healthz")
    def health() -> dict[str, bool]:
        return {"ok": True}


def add_open_enrolment(app: FastAPI, services: Services) -> None:
    @app.get("/")
    def welcome(request: Request) -> Response:
        with services.database.reading() as session:
            participant = participant_in(session, request.cookies, services.signer)
            known = participant.study if participant else None
            return HTMLResponse(
                welcome_page(open_studies(session), known, language_for(request.headers))
            )

    @app.post("/enrol")
    def enrol(request: Request, study: Annotated[int, Form()]) -> Response:
        try:
            with services.database.writing() as session:
                participant = participant_in(session, request.cookies, services.signer)
                if participant is None or participant.study_id != study:
                    if study not in {offered.id for offered in open_studies(session)}:
                        raise NotOpen("this study does not take participants")
                    participant = participants.enrol(session, study, now=datetime.now(UTC))
        except NotOpen:
            with services.database.reading() as session:
                others = [other for other in open_studies(session) if other.id != study]
            page = welcome_page(others, None, language_for(request.headers), is_full=True)
            return HTMLResponse(page, status_code=NotOpen.status)
        return redirect_to_study(request, services, participant, "study/")


def add_personal_links(app: FastAPI, services: Services) -> None:
    """Invitations' links, which also lead participants back to where they stopped."""

    @app.get("/start/{token}")
    def personal_link(request: Request, token: str) -> Response:
        with services.database.reading() as session:
            known = participants.by_token(session, token) if PLATFORM_ID.fullmatch(token) else None
        if known is None:
            return unknown_link(request, 404)
        try:
            with services.database.writing() as session:
                participant = session.get_one(Participant, known.id)
                participants.enrol_invited(session, participant, now=datetime.now(UTC))
        except NotOpen:
            return HTMLResponse(not_open_page(known.study), status_code=NotOpen.status)
        return redirect_to_study(request, services, participant, "../study/")


def add_platform_links(app: FastAPI, services: Services) -> None:
    """The link to which Prolific and MTurk add their ids."""
    app.add_exception_handler(OtherPlatformStudy, other_study)

    @app.get("/start")
    def platform_link(request: Request) -> Response:
        try:
            link = read_platform_link(request.query_params)
        except BrokenLink as error:
            return unknown_link(request, error.status)
        with services.database.reading() as session:
            study = study_of(session, link)
        if study is None:
            return unknown_link(request, 404)
        if link.person is None:
            return HTMLResponse(preview_page(study))
        try:
            with services.database.writing() as session:
                participant = participants.enrol(
                    session,
                    study.id,
                    now=datetime.now(UTC),
                    source=link.platform,
                    external_id=link.person,
                    platform_study_id=link.platform_study,
                )
        except NotOpen:
            return HTMLResponse(not_open_page(study), status_code=NotOpen.status)
        return redirect_to_study(request, services, participant, "study/")


def redirect_to_study(
    request: Request, services: Services, participant: Participant, path: str
) -> Response:
    response = RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})
    is_https = request.url.scheme == "https"
    set_participant_cookie(response, participant, services.signer, secure=is_https)
    return response


def other_study(request: Request, _error: Exception) -> Response:
    page = other_platform_study_page(language_for(request.headers))
    return HTMLResponse(page, status_code=OtherPlatformStudy.status)


def unknown_link(request: Request, status: int) -> Response:
    return HTMLResponse(unknown_link_page(language_for(request.headers)), status_code=status)
