"""What all ways to enrol have in common: the limit by address, and the way to the study."""

from __future__ import annotations

from logging import getLogger
from math import ceil
from threading import Event

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hsfiq.annotate.cookies import Signer, set_participant_cookie
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.pages import too_many_page
from hsfiq.annotate.serving.clients import client_address, network_of
from hsfiq.annotate.texts import language_in
from hsfiq.collect.recruiting import TooManyEnrolments
from hsfiq.db.tables import Participant, Study

logger = getLogger(__name__)

ADVICE = (
    "429: too many enrolments from one address; if all clients have the address of a proxy, name "
    "it in FORWARDED_ALLOW_IPS; `hsfiq study enrolment` changes the limit"
)
"""The cause that an owner can remove, without any address."""


def add_limit_page(app: FastAPI, services: Services) -> None:
    """Tell people from whose address too many have enrolled how long to wait.

    The log says so once, however many a script makes of them. `headers` in the request's state are
    those that its page needs in a frame.
    """
    is_told = Event()

    def too_many(request: Request, error: Exception) -> Response:
        if not isinstance(error, TooManyEnrolments):
            raise error
        if not is_told.is_set():
            is_told.set()
            logger.warning("%s", ADVICE)
        with services.database.reading() as session:
            study = session.get_one(Study, error.study_id)
            language = language_in(study, request.headers)
            page = too_many_page(session, study, language, minutes=ceil(error.seconds / 60))
        headers = {"Retry-After": str(error.seconds), "Cache-Control": "no-store"}
        of_frame = getattr(request.state, "headers", {})
        return HTMLResponse(page, error.status, headers | of_frame)

    app.add_exception_handler(TooManyEnrolments, too_many)


def client_of(request: Request, signer: Signer, study_id: int) -> str:
    """A digest of the network that a request comes from, which differs between studies."""
    network = network_of(client_address(request))
    return signer.derive("client", f"{study_id}:{network}")


def redirect_to_study(
    request: Request, services: Services, participant: Participant, path: str
) -> Response:
    response = RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})
    set_participant_cookie(response, participant, request, services.signer)
    return response
