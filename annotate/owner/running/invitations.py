"""The dashboard's page of invitations: making personal links, which are shown once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse

from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import missing, study_of
from hsfiq.annotate.pages import render
from hsfiq.audit.actions import Action
from hsfiq.audit.log import record
from hsfiq.collect.invitations import places_for_invitations
from hsfiq.collect.participants import invite
from hsfiq.collect.studies import require_unfinished
from hsfiq.errors import Refused, Unavailable
from hsfiq.text import count_text

MOST_AT_ONCE = 500

Link = tuple[str, str]
"""A participant's name and their link."""


def add_invitations(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    path = f"{OWNER}/invitations/{{study_id}}"

    @app.get(path)
    def invitations(study_id: int) -> Response:
        return page(study_id)

    @app.post(path)
    def create(request: Request, study_id: int, count: Annotated[str, Form()] = "") -> Response:
        number = int(count) if count.isascii() and count.isdigit() and len(count) < 9 else 0
        if not 1 <= number <= MOST_AT_ONCE:
            return page(study_id, notice=f"Choose a number from 1 to {MOST_AT_ONCE}.")
        actor = identities.actor_of(request)
        try:
            with database.writing() as session:
                study = study_of(session, study_id)
                require_unfinished(study)
                invited = invite(session, study.id, number, now=datetime.now(UTC))
                about = count_text(number, "invitation")
                record(session, actor, Action.STUDY_INVITE, study=study.name, about=about)
                links = [(each.name, f"{request.base_url}start/{each.token}") for each in invited]
        except Unavailable:
            raise
        except Refused as error:
            return page(study_id, notice=f"No invitation was made: {error}")
        return page(study_id, links=links)

    def page(study_id: int, *, notice: str = "", links: Sequence[Link] = ()) -> Response:
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
            except Refused as error:
                return missing("Not found", error)
            content = render(
                "owner_invitations.html",
                title=f"Invitations to {study.name}",
                root="../",
                study=study,
                places=places_for_invitations(session, study, datetime.now(UTC)),
                notice=notice,
                links=links,
                most=MOST_AT_ONCE,
            )
        return HTMLResponse(content, status_code=Refused.status if notice else 200)
