"""Workers who come from Mechanical Turk, in a frame: no cookie is set or read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hsfiq.annotate.cookies import COOKIE, COOKIE_PURPOSE, Signer
from hsfiq.annotate.entry import client_of
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.pages import message_page, not_invited_page, unknown_link_page
from hsfiq.annotate.security import path_of, security_headers
from hsfiq.annotate.texts import html_of, language_for, language_in, study_texts
from hsfiq.collect import participants
from hsfiq.collect.participant_row import StudyRow, read_row
from hsfiq.collect.places import NotInvited
from hsfiq.collect.stages import HitChanged, HitRefused, work_on, works_on
from hsfiq.db.tables import Study
from hsfiq.errors import NotOpen
from hsfiq.study.config import config_of
from hsfiq.study.recruiting import SITES, Hit

# Pages that Mechanical Turk may frame; a ticket in their address takes the place of the cookie.
#
# Browsers send no cookie to a frame of another site. What a ticket opens is what the cookie would
# open to its participant, and nothing else: neither the studio nor other participants.

TICKET = "ticket for a frame"
"""The purpose of its signature."""

FRAMED = re.compile(r"(/framed/([\w.-]{1,300}))(/.*)")

PATHS = re.compile(
    r"/(?:study|image|page|search)/.*|/question(?:/\d+)?"
    r"|/(?:opening|consent|language|messages-seen|practice|submit|questionnaire|check|withdrawal|reconsider)"
)
"""The paths that a participant's page requests."""

HEADERS = security_headers(
    frame_ancestors=" ".join(SITES),
    form_action=" ".join(("'self'", *SITES)),
    referrer="no-referrer",
)


def framed_study(token_hash: str, signer: Signer) -> str:
    """The participant's question page, relative to the app's root."""
    return f"framed/{signer.sign(TICKET, token_hash)}/study/"


def add_framed_addresses(app: FastAPI) -> None:
    """Explain invalid addresses below /framed/; the middleware handles valid ones."""

    @app.get("/framed/{address:path}")
    async def unknown_frame(request: Request) -> Response:
        page = unknown_link_page(language_for(request.headers))
        return HTMLResponse(page, status_code=404)


class FramedPages:
    """ASGI middleware that serves a participant's page below an address with their ticket."""

    def __init__(self, app: ASGIApp, signer: Signer) -> None:
        self._app, self._signer = app, signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = self._inside(scope) if scope["type"] == "http" else None
        if inside is None:
            await self._app(scope, receive, send)
            return

        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(inside, receive, send_framed)

    def _inside(self, scope: Scope) -> Scope | None:
        """The request as if the ticket were a cookie, None if its address has no valid ticket."""
        address = FRAMED.fullmatch(path_of(scope))
        if address is None:
            return None
        prefix, ticket, path = address.groups()
        token_hash = self._signer.read(TICKET, ticket)
        if token_hash is None or not PATHS.fullmatch(path):
            return None
        cookie = f"{COOKIE}={self._signer.sign(COOKIE_PURPOSE, token_hash)}".encode()
        others = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        return {
            **scope,
            "root_path": scope.get("root_path", "") + prefix,
            "headers": [(b"cookie", cookie), *others],
        }


# What workers of Mechanical Turk see before their participation, and instead of it.

KEPT_TICKET = "hsfiq.ticket"
"""The key under which a framed question page stores its ticket; `page.js` uses the same key."""

SEND_TICKET = f"""
try {{
  const ticket = localStorage.getItem("{KEPT_TICKET}");
  const address = new URL(location.href);
  if (ticket) address.searchParams.set("ticket", ticket);
  document.querySelector("form").action = address.href;
}} catch {{ /* the browser keeps nothing for frames */ }}
"""


def preview_page(session: Session, study: StudyRow, language: str) -> str:
    """For a worker who has not accepted the HIT yet: the task and its guidelines."""
    texts = study_texts(session, study, language)
    shown = texts.title, texts.entry["task"], texts.entry["preview"]
    guidelines = html_of(texts.guidelines)
    return message_page(texts.title, texts.language, *shown, guidelines=guidelines)


def begin_page(session: Session, study: StudyRow, language: str) -> str:
    """For a worker who has accepted the HIT; its button sends the link again as a form."""
    texts = study_texts(session, study, language)
    shown = texts.title, texts.entry["task"], texts.entry["hit_accepted"]
    begin = texts.entry["begin"]
    return message_page(texts.title, texts.language, *shown, begin=begin, script=SEND_TICKET)


def no_place_page(session: Session, study: StudyRow, language: str) -> str:
    """For a worker whom the study cannot accept now."""
    texts = study_texts(session, study, language)
    text = texts.entry
    if study.status in ("paused", "draft"):
        shown = text["paused_title"], text["paused"]
    else:
        is_full = study.status == "open"
        shown = text["places_taken_title"], text["full" if is_full else "places_taken"]
    return message_page(texts.title, texts.language, *shown, text["return_hit"])


def hit_changed_page(session: Session, study: StudyRow, language: str) -> str:
    """For a worker who has begun with another HIT, perhaps in another browser."""
    texts = study_texts(session, study, language)
    text = texts.entry
    shown = text["hit_changed_title"], text["hit_changed"]
    return message_page(texts.title, texts.language, *shown)


def hit_refused_page(session: Session, study: StudyRow, language: str) -> str:
    """For a worker who has finished the study with another HIT."""
    texts = study_texts(session, study, language)
    text = texts.entry
    shown = text["hit_refused_title"], text["hit_refused"], text["return_hit"]
    return message_page(texts.title, texts.language, *shown)


# Workers who come from Mechanical Turk, in a frame: no cookie is set or read.

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

    The previous page has added the ticket stored in the browser, if there is one.
    """
    holder = services.signer.read(TICKET, request.query_params.get("ticket", ""))
    request.state.headers = UNCACHED
    try:
        with services.database.writing() as session:
            config = config_of(session.get_one(Study, study_id))
            participant = participants.enrol(
                session,
                study_id,
                now=datetime.now(UTC),
                source="mturk",
                external_id=worker,
                language=language_in(config, request.headers),
                client=client_of(request, services.signer, study_id),
            )
            has_ticket = holder == participant.token_hash
            row = read_row(session, participant.token_hash)
            work_on(session, row, hit, has_ticket=has_ticket)
    except NotInvited as error:
        page = not_invited_page(language_for(request.headers))
        return HTMLResponse(page, status_code=error.status, headers=UNCACHED)
    except HitChanged as error:
        return explained(request, services, study_id, hit_changed_page, error.status)
    except HitRefused as error:
        return explained(request, services, study_id, hit_refused_page, error.status)
    except NotOpen as error:
        return explained(request, services, study_id, no_place_page, error.status)
    address = framed_study(participant.token_hash, services.signer)
    return RedirectResponse(address, status_code=303, headers=UNCACHED)


def takes_part(services: Services, study_id: int, worker: str, hit: Hit) -> bool:
    """Whether a link is that of a worker who takes part with this HIT."""
    with services.database.reading() as session:
        return works_on(session, study_id, worker, hit)


def explained(
    request: Request,
    services: Services,
    study_id: int,
    make_page: Callable[[Session, StudyRow, str], str],
    status: int,
) -> Response:
    with services.database.reading() as session:
        study = StudyRow.of(session.get_one(Study, study_id))
        page = make_page(session, study, language_in(study.config, request.headers))
    return HTMLResponse(page, status_code=status, headers=UNCACHED)
