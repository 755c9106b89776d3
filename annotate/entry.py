"""Entry from recruitment platforms: signed links, and the proof in a cookie."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from logging import getLogger
from math import ceil
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hsfiq.annotate.cookies import Signer, set_participant_cookie
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.pages import not_invited_page, too_many_page
from hsfiq.annotate.serving.proxy import client_address, network_of
from hsfiq.annotate.texts import language_for, language_in
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.places import NotInvited, TooManyEnrolments
from hsfiq.db.tables import Study
from hsfiq.errors import Forbidden
from hsfiq.study.config import config_of

# What all ways to enrol have in common: the limit by address, and the way to the study.

logger = getLogger(__name__)

ADVICE = (
    "429: too many enrolments from one address; if all clients have the address of a proxy, name "
    "it in FORWARDED_ALLOW_IPS; `hsfiq study enrolment` changes the limit"
)
"""The cause, which an owner can remove; it names no address."""


def add_limit_page(app: FastAPI, services: Services) -> None:
    """Tell people how long to wait if too many have enrolled from their address.

    The log records it once, regardless of the number of attempts. `headers` in the request's state
    are those that its page needs in a frame.
    """
    is_told = Event()

    def too_many(request: Request, error: Exception) -> Response:
        if not isinstance(error, TooManyEnrolments):
            raise error
        if not is_told.is_set():
            is_told.set()
            logger.warning("%s", ADVICE)
        with services.database.reading() as session:
            study = StudyRow.of(session.get_one(Study, error.study_id))
            language = language_in(study.config, request.headers)
            page = too_many_page(session, study, language, minutes=ceil(error.seconds / 60))
        headers = {"Retry-After": str(error.seconds), "Cache-Control": "no-store"}
        of_frame = getattr(request.state, "headers", {})
        return HTMLResponse(page, error.status, headers | of_frame)

    app.add_exception_handler(TooManyEnrolments, too_many)


def client_of(request: Request, signer: Signer, study_id: int) -> str:
    """A digest of the network that a request comes from, which differs between studies."""
    network = network_of(client_address(request))
    return signer.derive("client", f"{study_id}:{network}")


def redirect_to_study(request: Request, services: Services, token_hash: str, path: str) -> Response:
    response = RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})
    set_participant_cookie(response, token_hash, request, services.signer)
    return response


# The proof that somebody pressed Begin on our welcome page, which is in the page's form.
#
# A script that sends the form without it, or the same form again and again, takes no place: each
# proof makes one participant of a study, for a short time.

PROOF_PURPOSE = "welcome page"

VALID_FOR = timedelta(hours=1)
"""The time for reading the welcome page."""


class NotProven(Forbidden):
    """The form is not from the app's welcome page, or the page is too old or was already used."""


def new_proof(signer: Signer, now: datetime) -> str:
    return signer.sign(PROOF_PURPOSE, f"{int(now.timestamp())}:{secrets.token_urlsafe(16)}")


def token_for(signer: Signer, proof: str, study_id: int, now: datetime) -> str:
    """The token of the participant whom this proof makes in a study.

    It is the same each time, so a form sent twice makes only one participant.

    Raises:
        NotProven: the proof is not valid.
    """
    text = signer.read(PROOF_PURPOSE, proof)
    if text is None:
        raise NotProven("the form is not from the welcome page")
    seconds, _, _ = text.partition(":")
    if abs(now.timestamp() - int(seconds)) > VALID_FOR.total_seconds():
        raise NotProven("the welcome page is too old")
    return signer.derive("token of a participant", f"{text}:{study_id}")


# Links for people of a recruitment platform whom the owner knows; nobody else can make them.

LINK_PURPOSE = "link of a person"


def require_signed(signer: Signer, study: Study, person: str, signature: str) -> None:
    """`NotInvited` if the study wants signed links, and this one was not made for the person."""
    if not config_of(study).recruitment.signed_links:
        return
    if signer.read(LINK_PURPOSE, f"{content(study, person)}.{signature}") is None:
        raise NotInvited("the link is not signed for this id")


def signed_link(signer: Signer, study: Study, person: str, root: str) -> str:
    """A person's link; it is valid as long as the key that signs it."""
    signature = signer.sign(LINK_PURPOSE, content(study, person)).rpartition(".")[2]
    query = urlencode({"PROLIFIC_PID": person, "study": study.name, "signature": signature})
    return f"{root}/start?{query}"


def content(study: Study, person: str) -> str:
    return f"{study.name}:{person}"


def write_links(signer: Signer, study: Study, people: Sequence[str], root: str, path: Path) -> None:
    """Write people's links to a new CSV file that only its owner can read: platform_id, link."""
    with ExitStack() as undo:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        undo.callback(path.unlink)
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["platform_id", "link"])
            writer.writerows([each, signed_link(signer, study, each, root)] for each in people)
        undo.pop_all()


def add_refusal_page(app: FastAPI) -> None:
    """Tell people without an invitation that the link is not for them."""

    def not_invited(request: Request, _error: Exception) -> Response:
        page = not_invited_page(language_for(request.headers))
        return HTMLResponse(page, NotInvited.status, {"Cache-Control": "no-store"})

    app.add_exception_handler(NotInvited, not_invited)
