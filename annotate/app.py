"""The app: the question page at /study/, the routes that it calls, enrolment, the studio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from socket import socket
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from hsfiq.annotate import handlers, payloads
from hsfiq.annotate.cookies import UnknownParticipant, required_tokens, tokens_in
from hsfiq.annotate.enrolment import add_enrolment_routes
from hsfiq.annotate.gradio_page import gradio_server
from hsfiq.annotate.handlers import Reassigned, Services
from hsfiq.annotate.image_copies import warming
from hsfiq.annotate.images import SignedImages, add_signed_images
from hsfiq.annotate.leaderboard import add_leaderboards
from hsfiq.annotate.mturk import FramedPages, add_framed_addresses
from hsfiq.annotate.owner.accounts import add_accounts
from hsfiq.annotate.owner.login import OWNER, Identities, add_login
from hsfiq.annotate.preview import PREVIEW, add_preview, place_in
from hsfiq.annotate.question_page import add_question_page
from hsfiq.annotate.searches import Uploads, upload_response
from hsfiq.annotate.security import FramedPreviews, StudyMiddleware
from hsfiq.annotate.serving import monitoring
from hsfiq.annotate.serving.health import add_health, unavailable_response, wants_page
from hsfiq.annotate.serving.proxy import PublicAddress, RemoteUser, TrustedHeader
from hsfiq.annotate.serving.workers import supervise, terminated_with_parent
from hsfiq.annotate.studio.pages import add_studio
from hsfiq.annotate.texts import language_for
from hsfiq.collect.places import regular_forgetting
from hsfiq.collect.protocol import (
    CheckReply,
    ErrorReply,
    Opening,
    SubmitReply,
    View,
    WithdrawalView,
)
from hsfiq.collect.withdrawal import regular_erasure
from hsfiq.db.engine import Database, open_database, regular_checkpoints
from hsfiq.db.postgres import limit_waiting
from hsfiq.errors import InvalidRecord, Refused, SetBack, Unavailable
from hsfiq.http_server import accept_connections, listening, server_settings, stop
from hsfiq.jobs import job_worker
from hsfiq.prolific import regular_sync
from hsfiq.prolific_api import Access
from hsfiq.public_url import PublicUrl
from hsfiq.signals import Signals
from hsfiq.study.languages import standard_texts

Body = Annotated[bytes, Depends(payloads.limited_body)]


def build_app(
    database: Database,
    services: Services | None = None,
    public: PublicUrl | None = None,
    watching: monitoring.Watching = monitoring.NOTHING,
) -> FastAPI:
    """The app; `public` is its address in browsers, if a proxy hides that address."""
    services = services or Services.of(database)
    app = plain_app(services)
    add_preview(app, services)
    identities = Identities(database, services.signer)
    add_login(app, identities)
    add_accounts(app, identities)
    add_leaderboards(app, identities)
    add_studio(app, services, identities)

    def is_participant(request: Request) -> bool:
        return bool(tokens_in(request.cookies, services.signer))

    def is_preview(request: Request) -> bool:
        return place_in(request.cookies, database, services.signer) is not None

    pages = {"/study/": is_participant, f"{PREVIEW}/study/": is_preview}
    app.add_middleware(StudyMiddleware, pages=pages)
    monitoring.add_watching(app, services, watching)
    app.add_middleware(FramedPages, signer=services.signer)
    app.add_middleware(FramedPreviews)
    app.add_middleware(PublicAddress, public=public)
    return app


def plain_app(services: Services) -> FastAPI:
    """The app without the owner's pages: enrolment, and the routes that the question page calls."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with closing(services.retrievers):
            yield

    app = gradio_server(lifespan)
    add_enrolment_routes(app, services)
    add_study_routes(app, services)
    add_framed_addresses(app)
    add_health(app, services.database, services.images.copies.folder)
    app.add_exception_handler(Refused, error_response)
    app.add_exception_handler(InvalidRecord, error_response)
    return app


@dataclass(frozen=True, slots=True)
class Serving:
    """How an app is served: its public URL, its processes and the connections of each, its logs.

    `auth_header` is the header in which a trusted proxy names the account of a request.
    """

    public: PublicUrl | None = None
    workers: int = 1
    connections: int | None = None
    watching: monitoring.Watching = monitoring.NOTHING
    auth_header: TrustedHeader | None = None


def serve(
    database: Database, host: str, port: int, serving: Serving, tell: Callable[[], None]
) -> None:
    """Serve the app until a signal stops it, then close the database; meanwhile make thumbnails.

    `tell` is called as soon as connections are accepted. With a Prolific token, the places of
    people who left on Prolific are released.
    """
    prolific = Access.of_environment()
    with (
        suppress(KeyboardInterrupt),
        Signals() as signals,
        closing(database),
        listening(host, port) as listener,
        regular_checkpoints(database),
        regular_forgetting(database),
        regular_erasure(database),
        job_worker(database),
        regular_sync(database, prolific) if prolific else nullcontext(),
    ):
        accept_connections(listener)
        tell()
        limit_waiting(database.engine)
        monitoring.start_logs(database.engine, serving.watching)
        services = Services.of(database)
        images = services.images
        with images.changes.stored_in(database), warming(database, images):
            if serving.workers == 1:
                answer(listener, signals, services, serving)
            else:
                url = database.engine.url.render_as_string(hide_password=False)
                with monitoring.shared_metrics(serving.watching) as (watching, ended):
                    of_worker = replace(serving, watching=watching)
                    started = partial(work, listener, url, of_worker)
                    supervise(started, serving.workers, signals, ended)


def work(listener: socket, database_url: str, serving: Serving) -> None:
    """Answer requests in a separate process until a signal or its parent's end stops it."""
    with (
        suppress(KeyboardInterrupt),
        Signals() as signals,
        terminated_with_parent(),
        closing(
            open_database(database_url, create=False, connections=serving.connections)
        ) as database,
    ):
        limit_waiting(database.engine)
        monitoring.start_logs(database.engine, serving.watching)
        services = Services.of(database)
        with services.images.changes.stored_in(database):
            answer(listener, signals, services, serving)


def answer(listener: socket, signals: Signals, services: Services, serving: Serving) -> None:
    """Answer the requests that arrive at a listening socket until a signal stops it."""
    watching = serving.watching
    app = build_app(services.database, services, serving.public, watching)
    host, port = listener.getsockname()[:2]
    settings = server_settings(app, host, port, has_own_log=watching.logs_json)
    if serving.auth_header is not None:
        trust_header(settings, serving.auth_header)
    server = uvicorn.Server(settings)
    signals.call(partial(stop, server))
    server.run(sockets=[listener])


def trust_header(settings: uvicorn.Config, header: TrustedHeader) -> None:
    """Let the proxy name users in this header."""
    settings.load()
    settings.loaded_app = RemoteUser(settings.loaded_app, header, f"{OWNER}/")


async def error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, Unavailable):
        if wants_page(request.headers):
            raise error  # the middleware has what was typed
        return await unavailable_response(request, error)
    status = error.status if isinstance(error, Refused) else 422
    reply: ErrorReply = {"error": str(error)}
    if isinstance(error, Reassigned):
        reply["reassigned"] = True
    if isinstance(error, SetBack):
        reply["set_back"] = True
    if isinstance(error, UnknownParticipant):
        reply["participant_unknown"] = True
    if isinstance(error, payloads.OutdatedPage):
        # The first pages do not read `outdated`, but show the error.
        outdated = standard_texts(language_for(request.headers))["page"]["outdated"]
        reply = {"error": f"{outdated} ({error})", "outdated": True}
    return JSONResponse(reply, status_code=status)


def add_study_routes(app: FastAPI, services: Services) -> None:
    """Add the routes that the question page calls; plain functions, which run in threads."""
    images = SignedImages(services.database, services.images, services.signer)

    def participants_of(request: Request) -> list[str]:
        return required_tokens(request.cookies, services.signer)

    add_question_page(app, "", lambda request: handlers.opening(services, request.cookies))
    add_signed_images(app, "/image", lambda _: images, participants_of)
    add_view_routes(app, services)
    add_search_routes(app, services)
    add_withdrawal_routes(app, services)

    @app.post("/consent")
    def consent(request: Request, body: Body) -> Response:
        agrees = payloads.read_payload(payloads.CONSENT, body)["agrees"]
        return uncached(handlers.consent(services, request.cookies, agrees=agrees))

    @app.post("/language")
    def language(request: Request, body: Body) -> Response:
        payload = payloads.read_payload(payloads.LANGUAGE, body)
        return uncached(handlers.choose_language(services, request.cookies, payload))

    @app.post("/messages-seen")
    def messages_seen(request: Request, body: Body) -> Response:
        messages = payloads.read_payload(payloads.SEEN, body)["messages"]
        handlers.see_messages(services, request.cookies, messages)
        return JSONResponse({})

    @app.post("/practice")
    def practice(request: Request, body: Body) -> Response:
        payloads.read_payload(payloads.EMPTY, body)
        return uncached(handlers.finish_practice(services, request.cookies))

    @app.post("/submit")
    def submit(request: Request, body: Body) -> Response:
        return uncached(handlers.submit(services, request.cookies, payloads.read_submit(body)))

    @app.post("/questionnaire")
    def questionnaire(request: Request, body: Body) -> Response:
        payload = payloads.read_payload(payloads.QUESTIONNAIRE, body)
        return uncached(handlers.answer_questionnaire(services, request.cookies, payload))

    @app.post("/check")
    def check(request: Request, body: Body) -> Response:
        return uncached(
            handlers.check(services, request.cookies, payloads.read_payload(payloads.CHECK, body))
        )


def add_search_routes(app: FastAPI, services: Services) -> None:
    uploads = Uploads()

    @app.post(payloads.UPLOAD)
    async def search_upload(request: Request) -> Response:
        senders = required_tokens(request.cookies, services.signer)
        with uploads.arriving(senders):
            body = await payloads.limited_body(request)
            store = partial(upload_picture, request.cookies, body)
            return await uploads.read(senders, store)

    def upload_picture(cookies: Mapping[str, str], body: bytes) -> Response:
        return uncached(handlers.upload_picture(services, cookies, payloads.read_upload(body)))

    @app.get("/image/upload/{token}")
    def uploaded_picture(request: Request, token: str) -> Response:
        with services.database.reading() as session:
            return upload_response(session, services.signer, request.cookies, token)

    @app.post("/search/turn")
    def search_turn(request: Request, body: Body) -> Response:
        return uncached(handlers.ask_search(services, request.cookies, payloads.read_turn(body)))

    @app.post("/search/list")
    async def search_list(request: Request, body: Body) -> Response:
        payload = payloads.read_payload(payloads.LIST, body)
        return uncached(await handlers.list_search(services, request.cookies, payload))

    @app.post("/search/stop")
    def search_stop(request: Request, body: Body) -> Response:
        return uncached(handlers.stop_search(services, request.cookies, payloads.read_stop(body)))


def add_withdrawal_routes(app: FastAPI, services: Services) -> None:
    @app.post("/reconsider")
    def reconsider(request: Request, body: Body) -> Response:
        payloads.read_payload(payloads.EMPTY, body)
        return uncached(handlers.take_part_after_all(services, request.cookies))

    @app.get("/withdrawal")
    def withdrawal(request: Request) -> Response:
        return uncached(handlers.withdrawal(services, request.cookies))

    @app.post("/withdrawal")
    def withdraw(request: Request, body: Body) -> Response:
        payload = payloads.read_payload(payloads.WITHDRAWAL, body)
        handlers.withdraw(services, request.cookies, payload)
        return JSONResponse({})


def add_view_routes(app: FastAPI, services: Services) -> None:
    @app.get("/opening")
    def opening(request: Request) -> Response:
        """The study with its current texts, for a page that shows older texts."""
        return uncached(handlers.opening(services, request.cookies))

    @app.get("/question")
    def current_question(request: Request) -> Response:
        return uncached(handlers.show(services, request.cookies, None))

    @app.get("/question/{number}")
    def question(request: Request, number: int) -> Response:
        return uncached(handlers.show(services, request.cookies, number))


def uncached(reply: Opening | View | SubmitReply | CheckReply | WithdrawalView) -> Response:
    return JSONResponse(reply, headers={"Cache-Control": "no-store"})
