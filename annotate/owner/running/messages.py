"""The dashboard's page of messages: sending them, and how many have seen them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import change_study, study_page
from hsfiq.audit import record
from hsfiq.collect.messages import send_message, sent_messages
from hsfiq.collect.participants import by_name_or_platform_id
from hsfiq.db.tables import Study
from hsfiq.errors import Refused


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
        actor, name = identities.actor_of(request), participant.strip()

        def change(session: Session, study: Study) -> None:
            person = by_name_or_platform_id(session, study, name) if name else None
            send_message(session, study, text, to=person, now=datetime.now(UTC))
            whom = person.name if person else "everybody"
            record(session, actor, Action.STUDY_MESSAGE, study=study.name, about=whom)

        return change_study(
            database,
            study_id,
            change,
            done=lambda _: RedirectResponse(str(study_id), status_code=303),
            refused=lambda error: page(study_id, f"Not sent: {error}", text, participant),
        )

    def page(study_id: int, notice: str = "", text: str = "", participant: str = "") -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "messages": sent_messages(session, study),
                "notice": notice,
                "text": text,
                "participant": participant,
            }

        template, title = "owner_messages.html", "Messages of {}"
        status = Refused.status if notice else 200
        return study_page(database, study_id, template, title, content, status=status)
