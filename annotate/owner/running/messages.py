"""The dashboard's page of messages: sending them, and how many have seen them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import missing, study_of
from hsfiq.annotate.pages import render
from hsfiq.audit.actions import Action
from hsfiq.audit.log import record
from hsfiq.collect.participants import by_name_or_platform_id
from hsfiq.collect.running.messages import send_message, sent_messages
from hsfiq.errors import Refused, Unavailable


def add_messages(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(f"{OWNER}/messages/{{study_id}}")
    def messages(study_id: int) -> Response:
        return page(study_id)

    @app.post(f"{OWNER}/messages/{{study_id}}")
    def send(
        request: Request,
        study_id: int,
        text: Annotated[str, Form()] = "",
        participant: Annotated[str, Form()] = "",
    ) -> Response:
        actor = identities.actor_of(request)
        try:
            with database.writing() as session:
                study = study_of(session, study_id)
                name = participant.strip()
                person = by_name_or_platform_id(session, study, name) if name else None
                send_message(session, study, text, to=person, now=datetime.now(UTC))
                whom = person.name if person else "everybody"
                record(session, actor, Action.STUDY_MESSAGE, study=study.name, about=whom)
        except Unavailable:
            raise
        except Refused as error:
            return page(study_id, notice=f"Not sent: {error}", text=text, participant=participant)
        return RedirectResponse(str(study_id), status_code=303)

    def page(study_id: int, *, notice: str = "", text: str = "", participant: str = "") -> Response:
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
            except Refused as error:
                return missing("Not found", error)
            content = render(
                "owner_messages.html",
                title=f"Messages of {study.name}",
                root="../",
                study=study,
                messages=sent_messages(session, study),
                notice=notice,
                text=text,
                participant=participant,
            )
        return HTMLResponse(content, status_code=Refused.status if notice else 200)
