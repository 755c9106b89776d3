"""The pages' routes; everything under /owner is only for the owner."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.images.routes import add_images
from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.owner.answer_pages.content import (
    participant_page,
    question_page,
    uploaded_picture,
)
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.pages import render
from hsfiq.annotate.searching.uploads import jpeg_response
from hsfiq.db.engine import Database
from hsfiq.errors import Refused

Page = Callable[[Session, str, str], str]


def add_answer_pages(app: FastAPI, database: Database, images: ImageStore) -> None:
    """Add the routes; the login's middleware lets only the owner reach them."""

    def page(content: Page, study: str, name: str) -> Response:
        with database.reading() as session:
            try:
                return HTMLResponse(content(session, study, name))
            except Refused as error:
                missing = render("owner_missing.html", title="Not found", reason=str(error))
                return HTMLResponse(missing, status_code=404)

    @app.get(f"{OWNER}/participant")
    def participant(study: str, name: str) -> Response:
        return page(participant_page, study, name)

    @app.get(f"{OWNER}/question")
    def question(study: str, name: str) -> Response:
        return page(question_page, study, name)

    @app.get(f"{OWNER}/upload")
    def upload(study: str, name: str) -> Response:
        with database.reading() as session:
            return jpeg_response(uploaded_picture(session, study, name))

    add_images(app, f"{OWNER}/image", database, images)
