"""The routes of the dashboard's links; the login's middleware lets only the owner reach them."""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.invitations import add_invitations
from hsfiq.annotate.owner.running.messages import add_messages
from hsfiq.annotate.owner.running.studies import missing, study_of
from hsfiq.annotate.owner.running.text_form import add_text_form
from hsfiq.annotate.pages import render
from hsfiq.annotate.preview.links import new_preview, preview_path
from hsfiq.collect.studies import is_finished
from hsfiq.db.engine import Database
from hsfiq.errors import Refused
from hsfiq.study.editing.text_versions import answers_by_version, version_notes


def add_running_study(app: FastAPI, database: Database, signer: Signer) -> None:
    add_invitations(app, database)
    add_messages(app, database)
    add_text_form(app, database)

    @app.get(f"{OWNER}/preview/{{study_id}}")
    def preview(study_id: int) -> Response:
        with database.reading() as session:
            try:
                place = new_preview(session, study_of(session, study_id))
            except Refused as error:
                return missing("No preview", error)
        return RedirectResponse(f"../..{preview_path(signer, place)}", status_code=303)

    @app.get(f"{OWNER}/texts/{{study_id}}")
    def texts(study_id: int) -> Response:
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
            except Refused as error:
                return missing("Not found", error)
            page = render(
                "owner_texts.html",
                title=f"Texts of {study.name}",
                root="../",
                study=study,
                versions=version_notes(session, study),
                counts=answers_by_version(session, study),
                may_edit=not is_finished(study),
            )
        return HTMLResponse(page)
