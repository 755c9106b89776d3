"""The owner's page of accounts: inviting, changing roles, disabling and resetting."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq import access
from hsfiq.access import (
    LONGEST,
    SHORTEST,
    about_account,
    account_of_link,
    has_password,
    log_in,
    new_hash,
    set_password,
)
from hsfiq.actors import Action, Actor, Permission, Role
from hsfiq.annotate.owner.login import LINK, OWNER, Identities, logged_in, page_for
from hsfiq.audit import record
from hsfiq.errors import HsfiqError, Refused, Unavailable, UnreadableInput

# The page of a one-time link, where the holder of an account sets its password.


def add_links(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(f"{LINK}/{{token}}")
    def form(request: Request, token: str) -> Response:
        return form_page(request, token)

    @app.post(f"{LINK}/{{token}}")
    def store(
        request: Request,
        token: str,
        password: Annotated[str, Form()] = "",
        repeated: Annotated[str, Form()] = "",
    ) -> Response:
        if password != repeated:
            return form_page(request, token, notice="The two passwords differ.")
        with database.reading() as session:
            if account_of_link(session, token, datetime.now(UTC)) is None:
                return invalid_page(request)
        try:
            hashed = new_hash(password)
        except UnreadableInput as error:
            return form_page(request, token, notice=f"The password {error.what}; {error.remedy}.")
        with database.writing() as session:
            now = datetime.now(UTC)
            account = account_of_link(session, token, now, lock=True)
            if account is None:
                return invalid_page(request)
            set_password(session, account, hashed)
            login = log_in(session, account, now)
            for action in (Action.PASSWORD_SET, Action.LOGIN):
                record(session, Actor(account.name), action, about=account.name)
        return logged_in(request, identities.signer, login)

    def form_page(request: Request, token: str, notice: str = "") -> Response:
        with database.reading() as session:
            account = account_of_link(session, token, datetime.now(UTC))
            if account is None:
                return invalid_page(request)
            page = page_for(
                request,
                "owner_link.html",
                is_first=not has_password(session),
                account=account,
                notice=notice,
                shortest=SHORTEST,
                longest=LONGEST,
            )
        return HTMLResponse(page, status_code=422 if notice else 200)


def invalid_page(request: Request) -> Response:
    return HTMLResponse(page_for(request, "owner_link_invalid.html"), status_code=404)


# The owner's page of accounts: inviting, changing roles, disabling and resetting.

PATH = f"{OWNER}/accounts"


def add_accounts(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    add_links(app, identities)

    @app.get(PATH)
    def shown(request: Request) -> Response:
        return page(request)

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
            return page(request, notice=str(error), status=Refused.status)
        link = f"{str(request.base_url).rstrip('/')}{LINK}/{token}" if token else ""
        return page(request, name=access.account_name(name), link=link)

    def page(
        request: Request, *, notice: str = "", name: str = "", link: str = "", status: int = 200
    ) -> Response:
        now = datetime.now(UTC)
        with database.reading() as session:
            rows = [(each, access.state_of(each, now)) for each in access.accounts(session)]
            content = page_for(
                request,
                "owner_accounts.html",
                rows=rows,
                access=access,
                roles=list(Role),
                notice=notice,
                name=name,
                link=link,
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
        raise UnreadableInput("action", f"{action[:20]!r} is not an action")
    return None


def role_named(text: str) -> Role:
    try:
        return Role(text)
    except ValueError as error:
        raise UnreadableInput("role", f"{text[:20]!r} is not a role") from error
