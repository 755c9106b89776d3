"""The app: Gradio's question page at /study, and the few plain routes beside it."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated

import gradio as gr
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from hsfiq.annotate import handlers as study
from hsfiq.annotate.cookies import required_participant, token_in
from hsfiq.annotate.enrolment import add_arrivals
from hsfiq.annotate.gradio_page import add_page_modules, look, question_page
from hsfiq.annotate.handlers import HandedOn, Site
from hsfiq.annotate.images import image_response
from hsfiq.annotate.owner.mount import add_owner
from hsfiq.annotate.payloads import (
    CHECK,
    CONSENT,
    EMPTY,
    limited_body,
    read_payload,
    read_submit,
)
from hsfiq.annotate.security import STUDY, Guard
from hsfiq.annotate.texts import preferred_language, texts
from hsfiq.annotate.thumbnails import Kind
from hsfiq.collect.protocol import (
    CheckReply,
    ErrorReply,
    FailedOpening,
    Opening,
    SubmitReply,
    View,
)
from hsfiq.db.engine import Database
from hsfiq.errors import Refused, UnreadableInput
from hsfiq.records import InvalidRecord

Body = Annotated[bytes, Depends(limited_body)]


def build_app(database: Database) -> FastAPI:
    """The annotation app over this database."""
    site = Site.over(database)
    app = plain_app(site)
    mount_question_page(app, site)
    add_owner(app, site.database, site.signer)
    app.add_middleware(Guard, signer=site.signer)
    return app


def plain_app(site: Site) -> FastAPI:
    """The routes beside Gradio's: the ways in, and what the question page calls."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_arrivals(app, site)
    add_study_routes(app, site)
    add_page_modules(app)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(InvalidRecord, refused)
    return app


def serve(database: Database, host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the app until the process is told to stop. No access log: it would hold addresses.

    Raises:
        UnreadableInput: the address cannot be listened on.
    """
    with listening(host, port) as listener, suppress(KeyboardInterrupt):
        uvicorn.Server(server_settings(database, host, port)).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before anything else is started.

    Raises:
        UnreadableInput: it is taken, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio send small answers at once (40 ms sooner).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UnreadableInput(
            f"{host}:{port}", f"cannot be listened on ({error.strerror})", "choose another --port"
        ) from error
    return listener


def server_settings(database: Database, host: str, port: int) -> uvicorn.Config:
    """How the app is served."""
    return uvicorn.Config(
        build_app(database),
        host=host,
        port=port,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # a page left open must not hold up the end
    )


def refused(_request: Request, error: Exception) -> Response:
    """Every refusal is one line with a status that is no success."""
    status = error.status if isinstance(error, Refused) else 422
    reply: ErrorReply = {"error": str(error)}
    if isinstance(error, HandedOn):
        reply["handed_on"] = True
    return JSONResponse(reply, status_code=status)


def add_study_routes(app: FastAPI, site: Site) -> None:
    """What the question page calls; plain sync functions, which run in threads."""

    def picture(request: Request, token: str, kind: Kind) -> Response:
        with site.database.reading() as session:
            required_participant(session, request.cookies, site.signer)
            return image_response(session, site.shelf, token, kind)

    @app.get("/image/{token}")
    def thumbnail(request: Request, token: str) -> Response:
        return picture(request, token, "thumbnail")

    @app.get("/image/{token}/full")
    def full(request: Request, token: str) -> Response:
        return picture(request, token, "full")

    @app.post("/consent")
    def consent(request: Request, body: Body) -> Response:
        return fresh(
            study.consent(site, request.cookies, agrees=read_payload(CONSENT, body)["agrees"])
        )

    @app.post("/practice")
    def practice(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        return fresh(study.finish_practice(site, request.cookies))

    @app.get("/question")
    def current(request: Request) -> Response:
        return fresh(study.show(site, request.cookies, None))

    @app.get("/question/{number}")
    def question(request: Request, number: int) -> Response:
        return fresh(study.show(site, request.cookies, number))

    @app.post("/submit")
    def submit(request: Request, body: Body) -> Response:
        return fresh(study.submit(site, request.cookies, read_submit(body)))

    @app.post("/check")
    def check(request: Request, body: Body) -> Response:
        return fresh(study.check(site, request.cookies, read_payload(CHECK, body)))


def fresh(view: View | SubmitReply | CheckReply) -> Response:
    """A view or reply as JSON that no cache keeps."""
    return JSONResponse(view, headers={"Cache-Control": "no-store"})


def mount_question_page(app: FastAPI, site: Site) -> None:
    """Mount Gradio with everything shut off that this page does not use."""

    def identity(request: Request) -> str | None:
        # Gradio writes this name into the page, where scripts can read it: so it names nobody.
        return "participant" if token_in(request.cookies, site.signer) else None

    def opening(request: gr.Request) -> Opening | FailedOpening:
        try:
            return study.opening(site, request.cookies)
        except Refused as error:  # Gradio would swallow it: the page has to say it
            language = preferred_language(request.headers.get("accept-language", ""))
            return {"error": str(error), "language": language, "texts": texts(language)["page"]}

    async def mount() -> None:
        gr.mount_gradio_app(
            app,
            question_page(opening),
            path=STUDY,
            auth_dependency=identity,
            run_history=False,
            footer_links=[],
            allowed_paths=[],
            max_file_size="1kb",
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            mcp_server=False,
            pwa=False,
            **look(),
        )

    # Where no event loop runs, Gradio makes one, leaves it to this thread and never closes it.
    with ThreadPoolExecutor(max_workers=1) as apart:
        apart.submit(asyncio.run, mount()).result()
