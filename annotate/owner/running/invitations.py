"""The dashboard's page of invitations: making personal links, which are shown once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from sqlalchemy.orm import Session

from hsfiq.actors import Action
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import change_study, study_page
from hsfiq.audit import record
from hsfiq.collect.participants import invite, places_for_invitations
from hsfiq.collect.studies import require_unfinished
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
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
            return page(study_id, f"Choose a number from 1 to {MOST_AT_ONCE}.")
        actor = identities.actor_of(request)

        def change(session: Session, study: Study) -> list[Link]:
            require_unfinished(study)
            people = invite(session, study.id, number, now=datetime.now(UTC))
            about = count_text(number, "invitation")
            record(session, actor, Action.STUDY_INVITE, study=study.name, about=about)
            return [(each.name, f"{request.base_url}start/{each.token}") for each in people]

        return change_study(
            database,
            study_id,
            change,
            done=lambda links: page(study_id, links=links),
            refused=lambda error: page(study_id, f"No invitation was made: {error}"),
        )

    def page(study_id: int, notice: str = "", links: Sequence[Link] = ()) -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "places": places_for_invitations(session, study, datetime.now(UTC)),
                "notice": notice,
                "links": links,
                "most": MOST_AT_ONCE,
            }

        template, title = "owner_invitations.html", "Invitations to {}"
        status = Refused.status if notice else 200
        return study_page(database, study_id, template, title, content, status=status)
