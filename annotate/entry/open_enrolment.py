"""Enrolment in studies that are open to all, from the welcome page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import (
    UnknownBrowser,
    keeps_cookies,
    participants_in,
    set_trial_cookie,
    tokens_in,
)
from hsfiq.annotate.entry.arrival import client_of, redirect_to_study
from hsfiq.annotate.entry.proof import NotProven, new_proof, token_for
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.pages import Notice, not_open_page, welcome_page
from hsfiq.annotate.texts import language_in
from hsfiq.collect import participants
from hsfiq.collect.participants import has_free_place
from hsfiq.collect.studies import list_studies
from hsfiq.db.tables import Participant, Study
from hsfiq.db.types import digest_of
from hsfiq.errors import Forbidden, NotOpen
from hsfiq.study.config import config_of

PLATFORMS = {"prolific": "Prolific", "mturk": "Mechanical Turk"}
"""Their names, by the mode of recruitment."""


class CookiesBlocked(Forbidden):
    """The browser keeps no cookie: a place would be lost, because nobody could come back to it."""


def open_studies(session: Session) -> list[Study]:
    return [
        study
        for study in list_studies(session)
        if study.status == "open" and config_of(study).recruitment.mode == "open"
    ]


def platform_of(session: Session) -> str:
    """The name of a platform from which an open study takes people, "" if there is none."""
    modes = {
        config_of(study).recruitment.mode
        for study in list_studies(session)
        if study.status == "open"
    }
    return next((name for mode, name in PLATFORMS.items() if mode in modes), "")


def add_open_enrolment(app: FastAPI, services: Services) -> None:
    @app.get("/")
    def welcome(request: Request, language: str = "") -> Response:
        with services.database.reading() as session:
            held = participants_in(session, request.cookies, services.signer)
            return welcome_again(session, request, services, held, language=language)

    @app.post("/enrol")
    def enrol(
        request: Request,
        study: Annotated[int, Form()],
        different: Annotated[bool, Form()] = False,
        language: Annotated[str, Form()] = "",
        proof: Annotated[str, Form()] = "",
    ) -> Response:
        """Enrol in a study, or continue in it; a `different` person begins as somebody new."""
        with services.database.reading() as session:
            held = participants_in(session, request.cookies, services.signer)
        known = next((person for person in held if person.study_id == study), None)
        try:
            if known is None or different:
                known = enrol_openly(request, services, study, language, proof)
        except NotOpen:
            return refused_enrolment(request, services, study)
        except NotProven:
            return unproven_enrolment(request, services, study, "begin_again")
        except CookiesBlocked:
            return unproven_enrolment(request, services, study, "no_cookies")
        return redirect_to_study(request, services, known, "study/")

    @app.post("/continue")
    def continue_as(request: Request, participant: Annotated[int, Form()]) -> Response:
        """Return to another participation of this browser."""
        with services.database.reading() as session:
            held = participants_in(session, request.cookies, services.signer)
        chosen = next((person for person in held if person.id == participant), None)
        if chosen is None:
            raise UnknownBrowser("this browser is not known; begin at the welcome page")
        return redirect_to_study(request, services, chosen, "study/")


def welcome_again(
    session: Session,
    request: Request,
    services: Services,
    held: Sequence[Participant],
    notice: Notice | None = None,
    *,
    language: str = "",
) -> Response:
    """The welcome page with a new proof; browsers do not show it a second time."""
    now = datetime.now(UTC)
    page = welcome_page(
        session,
        open_studies(session),
        held,
        request.headers,
        language,
        now=now,
        proof=new_proof(services.signer, now),
        platform=platform_of(session),
        notice=notice,
    )
    response = HTMLResponse(page, headers={"Cache-Control": "no-store"})
    set_trial_cookie(response, request)
    return response


def enrol_openly(
    request: Request, services: Services, study_id: int, language: str, proof: str
) -> Participant:
    """Enrol whoever sends the form of our welcome page in a study that is open to all.

    Raises:
        NotOpen: the study is not offered, or has no place.
        NotProven: the form is not from a welcome page, or this browser has used it before.
        CookiesBlocked: the browser does not keep cookies.
        TooManyEnrolments: too many have enrolled from this address.
    """
    now, signer = datetime.now(UTC), services.signer
    token = token_for(signer, proof, study_id, now)
    if digest_of(token) in tokens_in(request.cookies, signer):
        raise NotProven("this browser has used the form already")
    if not keeps_cookies(request):
        raise CookiesBlocked("this browser keeps no cookies")
    with services.database.writing() as session:
        offered = {each.id: each for each in open_studies(session)}
        if study_id not in offered:
            raise NotOpen("this study does not take participants")
        return participants.enrol(
            session,
            study_id,
            now=now,
            language=language_in(offered[study_id], request.headers, language),
            token=token,
            client=client_of(request, signer, study_id),
        )


def unproven_enrolment(
    request: Request, services: Services, study_id: int, notice: Notice
) -> Response:
    """The welcome page again, which says why nothing was begun."""
    with services.database.reading() as session:
        wanted = next((study for study in open_studies(session) if study.id == study_id), None)
        if wanted is not None and has_free_place(session, wanted, datetime.now(UTC)):
            held = participants_in(session, request.cookies, services.signer)
            page = welcome_again(session, request, services, held, notice)
            page.status_code = Forbidden.status
            return page
    return refused_enrolment(request, services, study_id)


def refused_enrolment(request: Request, services: Services, study_id: int) -> Response:
    """What somebody is told whom an open study cannot take."""
    with services.database.reading() as session:
        offered = open_studies(session)
        full = next((study for study in offered if study.id == study_id), None)
        if full is None:
            page = welcome_again(session, request, services, [], "full")
        else:
            language = language_in(full, request.headers)
            page = HTMLResponse(not_open_page(session, full, language, was_sent=False))
    page.status_code = NotOpen.status
    return page
