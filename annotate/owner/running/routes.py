"""The routes of the dashboard's links; the login's middleware lets only the owner reach them."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor, Permission
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.invitations import add_invitations
from hsfiq.annotate.owner.running.messages import add_messages
from hsfiq.annotate.owner.running.studies import missing, study_of, study_page
from hsfiq.annotate.owner.running.text_form import add_text_form
from hsfiq.annotate.preview.links import new_preview, preview_path
from hsfiq.audit import record
from hsfiq.collect.studies import is_finished
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.study.texts import answers_by_version, version_notes


def add_running_study(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    add_invitations(app, identities)
    add_messages(app, identities)
    add_text_form(app, identities)

    @app.get(f"{OWNER}/preview/{{study_id}}")
    def preview(request: Request, study_id: int) -> Response:
        user = identities.require(request, Permission.READ)
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
                place = new_preview(session, study, account=user.account_id)
            except Refused as error:
                return missing("No preview", error)
        with database.writing() as session:
            record(session, Actor(user.name), Action.STUDY_PREVIEW, study=study.name)
        return RedirectResponse(f"../..{preview_path(identities.signer, place)}", status_code=303)

    @app.get(f"{OWNER}/texts/{{study_id}}")
    def texts(study_id: int) -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "versions": version_notes(session, study),
                "counts": answers_by_version(session, study),
                "may_edit": not is_finished(study),
            }

        return study_page(database, study_id, "owner_texts.html", "Texts of {}", content)
