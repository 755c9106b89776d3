"""The app: Gradio's question page at /study, and the few plain routes beside it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import gradio as gr
import uvicorn
from fastapi import Depends, FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from sqlalchemy.orm import Session

from annotate import study
from annotate.blocks import look, question_page
from annotate.bodies import limited_body, read_check, read_submit
from annotate.guard import STUDY, Guard
from annotate.page import View, open_studies
from annotate.shelf import image_response
from annotate.study import Site
from annotate.visitors import participant_in, remember, required_participant, token_in
from annotate.welcome import welcome_page
from hsfiq import store
from hsfiq.database import Database
from hsfiq.errors import NotOpen, Refused
from hsfiq.records import InvalidRecord

Body = Annotated[bytes, Depends(limited_body)]


def build_app(database: Database) -> FastAPI:
    """The annotation app over this database."""
    site = Site.over(database)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_front_door(app, site)
    add_study_routes(app, site)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(InvalidRecord, refused)
    mount_question_page(app, site)
    app.add_middleware(Guard, signer=site.signer)
    return app


def serve(database: Database, host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the app until the process is told to stop. No access log: it would hold addresses."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(server_settings(database, host, port)).run()


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
    return JSONResponse({"error": str(error)}, status_code=status)


def add_front_door(app: FastAPI, site: Site) -> None:
    """Welcome and enrolment: what a browser reaches without a cookie."""

    @app.get("/")
    def welcome(request: Request) -> Response:
        with site.database.reading() as session:
            participant = participant_in(session, request.cookies, site.signer)
            known = participant.study if participant else None
            return HTMLResponse(welcome_page(open_studies(session), known))

    @app.post("/enrol")
    def enrol(request: Request, study: Annotated[int, Form()]) -> Response:
        try:
            with site.database.writing() as session:
                participant = participant_in(session, request.cookies, site.signer)
                if participant is None or participant.study_id != study:
                    require_listed(session, study)
                    participant = store.enrol(session, study, now=datetime.now(UTC))
        except NotOpen:
            with site.database.reading() as session:
                others = [other for other in open_studies(session) if other.id != study]
            notice = "This study takes no new participants at the moment. Thank you for coming."
            return HTMLResponse(welcome_page(others, None, notice), status_code=NotOpen.status)
        response = RedirectResponse("study/", status_code=303)
        secure = request.url.scheme == "https"
        remember(response, participant, site.signer, secure=secure)
        return response

    @app.get("/healthz")
    def healthy() -> dict[str, bool]:
        return {"ok": True}


def require_listed(session: Session, study_id: int) -> None:
    """Raise `NotOpen` unless the welcome page offers this study."""
    if study_id not in {study.id for study in open_studies(session)}:
        raise NotOpen("this study takes no participants")


def add_study_routes(app: FastAPI, site: Site) -> None:
    """What the question page calls; plain sync functions, which run in threads."""

    @app.get("/image/{token}")
    def image(request: Request, token: str) -> Response:
        with site.database.reading() as session:
            required_participant(session, request.cookies, site.signer)
            return image_response(session, site.shelf, token)

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
        return fresh(study.check(site, request.cookies, read_check(body)))


def fresh(view: View) -> Response:
    """A view as JSON that no cache keeps."""
    return JSONResponse(view, headers={"Cache-Control": "no-store"})


def mount_question_page(app: FastAPI, site: Site) -> None:
    """Mount Gradio with everything shut off that this page does not use."""

    def identity(request: Request) -> str | None:
        # Gradio writes this name into the page, where scripts can read it: so it names nobody.
        return "participant" if token_in(request.cookies, site.signer) else None

    def opening(request: gr.Request) -> View:
        try:
            return study.opening(site, request.cookies)
        except Refused as error:  # Gradio would swallow it: the page has to say it
            return {"error": str(error)}

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
