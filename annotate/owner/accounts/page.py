"""The owner's page of accounts: inviting, changing roles, disabling and resetting."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq import access
from hsfiq.access import about_account
from hsfiq.actors import Action, Permission, Role
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import LINK, OWNER
from hsfiq.annotate.pages import render
from hsfiq.audit import record
from hsfiq.errors import HsfiqError, Refused, Unavailable, UnreadableInput

PATH = f"{OWNER}/accounts"


def add_accounts(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(PATH)
    def shown() -> Response:
        return page()

    @app.post(PATH)
    def change(
        request: Request,
        action: Annotated[str, Form()] = "",
        name: Annotated[str, Form()] = "",
        role: Annotated[str, Form()] = "",
    ) -> Response:
        actor = identities.actor_of(request, Permission.MANAGE)
        try:
            with database.writing() as session:
                token = perform(session, action, name, role)
                about = about_account(name, role if action in ("invite", "role") else "")
                record(session, actor, Action(f"account.{action}"), about=about)
        except Unavailable:
            raise
        except HsfiqError as error:
            return page(notice=str(error), status=Refused.status)
        link = f"{str(request.base_url).rstrip('/')}{LINK}/{token}" if token else ""
        return page(name=access.account_name(name), link=link)

    def page(*, notice: str = "", name: str = "", link: str = "", status: int = 200) -> Response:
        now = datetime.now(UTC)
        with database.reading() as session:
            rows = [(each, access.state_of(each, now)) for each in access.accounts(session)]
            content = render(
                "owner_accounts.html",
                title="Accounts",
                rows=rows,
                owner=access.OWNER,
                roles=list(Role),
                notice=notice,
                name=name,
                link=link,
                days=access.LINK_DAYS,
            )
        return HTMLResponse(content, status_code=status)


def perform(session: Session, action: str, name: str, role: str) -> str | None:
    """Change an account; return the token of a new link, if the action makes one."""
    expires_at = access.link_expiry(datetime.now(UTC))
    if action == "invite":
        return access.invite(session, name, role_named(role), expires_at)
    if action == "reset":
        return access.reset(session, name, expires_at)
    if action == "disable":
        access.disable(session, name)
    elif action == "role":
        access.change_role(session, name, role_named(role))
    else:
        raise UnreadableInput("action", f"{action[:20]!r} is none")
    return None


def role_named(text: str) -> Role:
    try:
        return Role(text)
    except ValueError as error:
        raise UnreadableInput("role", f"{text[:20]!r} is none") from error
