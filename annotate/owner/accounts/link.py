"""The page of a one-time link, where the holder of an account sets its password."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse

from hsfiq.access import LONGEST, SHORTEST, account_of_link, log_in, new_hash, set_password
from hsfiq.actors import Action, Actor
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import LINK, logged_in
from hsfiq.annotate.pages import message_page, render
from hsfiq.audit import record
from hsfiq.errors import UnreadableInput


def add_links(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(f"{LINK}/{{token}}")
    def form(token: str) -> Response:
        return form_page(token)

    @app.post(f"{LINK}/{{token}}")
    def store(
        request: Request,
        token: str,
        password: Annotated[str, Form()] = "",
        repeated: Annotated[str, Form()] = "",
    ) -> Response:
        if password != repeated:
            return form_page(token, notice="The two passwords differ.")
        with database.reading() as session:
            if account_of_link(session, token, datetime.now(UTC)) is None:
                return invalid_page()
        try:
            hashed = new_hash(password)
        except UnreadableInput as error:
            return form_page(token, notice=f"The password {error.what}; {error.remedy}.")
        with database.writing() as session:
            now = datetime.now(UTC)
            account = account_of_link(session, token, now, lock=True)
            if account is None:
                return invalid_page()
            set_password(session, account, hashed)
            login = log_in(session, account, now)
            for action in (Action.PASSWORD_SET, Action.LOGIN):
                record(session, Actor(account.name), action, about=account.name)
        return logged_in(request, identities.signer, login)

    def form_page(token: str, notice: str = "") -> Response:
        with database.reading() as session:
            account = account_of_link(session, token, datetime.now(UTC))
            if account is None:
                return invalid_page()
            page = render(
                "owner_link.html",
                title="Set your password",
                language="en",
                name=account.name,
                role=account.role,
                notice=notice,
                shortest=SHORTEST,
                longest=LONGEST,
            )
        return HTMLResponse(page, status_code=422 if notice else 200)


def invalid_page() -> Response:
    page = message_page(
        "Dashboard",
        "en",
        "This link is not valid",
        "It is incomplete, was used already or has expired. Ask the study's owner for a new one.",
    )
    return HTMLResponse(page, status_code=404)
