"""The common parts of pages about a study: invitations, images, previews."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor, Permission
from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.images import add_images
from hsfiq.annotate.owner.login import OWNER, Identities, page_for
from hsfiq.annotate.preview import new_preview, preview_path
from hsfiq.annotate.searches import jpeg_response
from hsfiq.audit import record
from hsfiq.collect.participants import invite
from hsfiq.collect.question_history import find_question
from hsfiq.collect.studies import find_study, require_unfinished
from hsfiq.db.search_tables import SearchUpload
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.text import count_text


def study_of(session: Session, study_id: int) -> Study:
    study = session.get(Study, study_id) if abs(study_id) < 2**31 else None
    if study is None:
        raise Refused("there is no such study")
    return study


def number_in(text: str) -> int:
    """A number of at most nine digits, such as that of a study in an address; otherwise 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


# Personal links, which are shown once.

MOST_AT_ONCE = 500

Link = tuple[str, str]
"""A participant's name and their link."""


def new_links(
    session: Session, study: Study, number: int, actor: Actor, root: str, key: str
) -> Sequence[Link]:
    """Invite `number` people to a study; returns their links, which begin with the address `root`.

    The same random key gives the same links; none gives new ones.
    """
    if not 1 <= number <= MOST_AT_ONCE:
        raise Refused(f"Choose a number from 1 to {MOST_AT_ONCE}.")
    require_unfinished(study)
    people = invite(session, study.id, number, now=(now := datetime.now(UTC)), key=key)
    if made := sum(each.created_at == now for each in people):
        about = count_text(made, "invitation")
        record(session, actor, Action.STUDY_INVITE, study=study.name, about=about)
    return [(each.name, f"{root}start/{each.token}") for each in people]


# Routes beside the pages; the login's middleware lets only those roles reach them that may.


def add_study_files(app: FastAPI, identities: Identities, images: ImageStore) -> None:
    """Add the images of a study, the pictures that participants uploaded, and the preview."""
    database = identities.database
    add_images(app, f"{OWNER}/image", database, images)

    @app.get(f"{OWNER}/upload")
    def upload(study: str, name: str) -> Response:
        """The picture that a participant uploaded for this question."""
        with database.reading() as session:
            found = find_study(session, study)
            key = None if found is None else find_question(session, found, name)
            return jpeg_response(None if key is None else session.get(SearchUpload, key))

    @app.get(f"{OWNER}/preview/{{study_id}}")
    def preview(request: Request, study_id: int) -> Response:
        user = identities.require(request, Permission.READ)
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
                place = new_preview(session, study, account=user.account_id)
            except Refused as error:
                page = page_for(request, "owner_missing.html", root="../", reason=error.what)
                return HTMLResponse(page, status_code=404)
        with database.writing() as session:
            record(session, Actor(user.name), Action.STUDY_PREVIEW, study=study.name)
        return RedirectResponse(f"../..{preview_path(identities.signer, place)}", status_code=303)
