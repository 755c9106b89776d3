"""Workers who come from Mechanical Turk, in a frame: no cookie is set or read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.entry.arrival import client_of
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.mturk.framing import HEADERS, TICKET, framed_study
from hsfiq.annotate.mturk.pages import (
    begin_page,
    hit_changed_page,
    hit_refused_page,
    no_place_page,
    preview_page,
)
from hsfiq.annotate.pages import not_invited_page
from hsfiq.annotate.texts import language_for, language_in
from hsfiq.collect import participants
from hsfiq.collect.recruiting import NotInvited
from hsfiq.collect.stages import HitChanged, HitRefused, work_on, works_on
from hsfiq.db.tables import Study
from hsfiq.errors import NotOpen
from hsfiq.study.recruiting import Hit

UNCACHED = HEADERS | {"Cache-Control": "no-store"}


def preview(request: Request, services: Services, study_id: int) -> Response:
    """The task for a worker who has not accepted it."""
    return explained(request, services, study_id, preview_page, 200)


def ask_to_begin(
    request: Request, services: Services, study_id: int, *, has_place: bool
) -> Response:
    """The page before enrolment: a worker whose browser cannot show it takes no place."""
    with services.database.reading() as session:
        study, now = session.get_one(Study, study_id), datetime.now(UTC)
        is_open = study.status == "open" and participants.has_free_place(session, study, now)
    if is_open or has_place:
        return explained(request, services, study_id, begin_page, 200)
    return explained(request, services, study_id, no_place_page, NotOpen.status)


def enter(request: Request, services: Services, study_id: int, worker: str, hit: Hit) -> Response:
    """Enrol a worker, or let them continue, and lead them to their question page.

    The page before has added the ticket that the browser has kept, if there is one.
    """
    holder = services.signer.read(TICKET, request.query_params.get("ticket", ""))
    request.state.headers = UNCACHED
    try:
        with services.database.writing() as session:
            participant = participants.enrol(
                session,
                study_id,
                now=datetime.now(UTC),
                source="mturk",
                external_id=worker,
                language=language_in(session.get_one(Study, study_id), request.headers),
                client=client_of(request, services.signer, study_id),
            )
            has_ticket = holder == participant.token_hash
            work_on(session, participant, hit, has_ticket=has_ticket)
    except NotInvited as error:
        page = not_invited_page(language_for(request.headers))
        return HTMLResponse(page, status_code=error.status, headers=UNCACHED)
    except HitChanged as error:
        return explained(request, services, study_id, hit_changed_page, error.status)
    except HitRefused as error:
        return explained(request, services, study_id, hit_refused_page, error.status)
    except NotOpen as error:
        return explained(request, services, study_id, no_place_page, error.status)
    address = framed_study(participant, services.signer)
    return RedirectResponse(address, status_code=303, headers=UNCACHED)


def takes_part(services: Services, study_id: int, worker: str, hit: Hit) -> bool:
    """Whether a link is that of a worker who takes part with this HIT."""
    with services.database.reading() as session:
        return works_on(session, study_id, worker, hit)


def explained(
    request: Request,
    services: Services,
    study_id: int,
    make_page: Callable[[Session, Study, str], str],
    status: int,
) -> Response:
    with services.database.reading() as session:
        study = session.get_one(Study, study_id)
        page = make_page(session, study, language_in(study, request.headers))
    return HTMLResponse(page, status_code=status, headers=UNCACHED)
