"""`hsfiq account`: who may log in to the dashboard, and with which role."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from hsfiq.actors import Action, Role
from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    UrlOption,
    open_chosen,
    print_result,
    root_of_links,
)
from hsfiq.cli.recording import record_command

app = typer.Typer(
    help="Who may log in to the dashboard, and with which role.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account.")]
RoleOption = Annotated[
    Role, typer.Option(help="owner: everything; analyst: reads and exports; helper: recruits.")
]
DaysOption = Annotated[int, typer.Option(help="How long the link is valid.", min=1, max=90)]


@app.command("list", epilog="Example: hsfiq account list --json")
def list_accounts(
    ctx: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """List the accounts with their roles and states."""
    from hsfiq.access import accounts, state_of

    now = datetime.now(UTC)
    with open_chosen(ctx, database, create=False).reading() as session:
        facts = [
            {"name": each.name, "role": each.role, "state": state_of(each, now)}
            for each in accounts(session)
        ]
    lines = [f"{each['name']}: {each['role']}, {each['state']}" for each in facts]
    text = "\n".join(lines) or "no account yet: set the owner's password, hsfiq owner password"
    print_result({"accounts": facts}, text, as_json=as_json)


@app.command(epilog="Example: hsfiq account invite kim --role analyst")
def invite(
    ctx: typer.Context,
    name: NameArgument,
    role: RoleOption,
    days: DaysOption = 7,
    url: UrlOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add an account; print the link with which its holder sets a password, once."""
    from hsfiq.access import about_account, link_expiry
    from hsfiq.access import invite as invite_account

    root, expires_at = root_of_links(url), link_expiry(datetime.now(UTC), days)
    with open_chosen(ctx, database, create=False).writing() as session:
        token = invite_account(session, name, role, expires_at)
        record_command(session, Action.ACCOUNT_INVITE, about=about_account(name, role))
    print_link(name, root, token, expires_at, as_json=as_json)


@app.command(epilog="Example: hsfiq account reset kim")
def reset(
    ctx: typer.Context,
    name: NameArgument,
    days: DaysOption = 7,
    url: UrlOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget an account's password and end its logins; print a new link. It also enables it."""
    from hsfiq.access import about_account, link_expiry
    from hsfiq.access import reset as reset_account

    root, expires_at = root_of_links(url), link_expiry(datetime.now(UTC), days)
    with open_chosen(ctx, database, create=False).writing() as session:
        token = reset_account(session, name, expires_at)
        record_command(session, Action.ACCOUNT_RESET, about=about_account(name))
    print_link(name, root, token, expires_at, as_json=as_json)


@app.command(epilog="Example: hsfiq account disable kim")
def disable(ctx: typer.Context, name: NameArgument, database: DatabaseOption = None) -> None:
    """Let nobody in with this account; its logins end at once. `reset` enables it again."""
    from hsfiq.access import about_account
    from hsfiq.access import disable as disable_account

    with open_chosen(ctx, database, create=False).writing() as session:
        disable_account(session, name)
        record_command(session, Action.ACCOUNT_DISABLE, about=about_account(name))
    typer.echo(f"account {name} is disabled, and its logins have ended")


@app.command(epilog="Example: hsfiq account role kim helper")
def role(
    ctx: typer.Context,
    name: NameArgument,
    new_role: Annotated[Role, typer.Argument(metavar="ROLE", help="owner, analyst or helper.")],
    database: DatabaseOption = None,
) -> None:
    """Give an account another role, also in logins that it has now."""
    from hsfiq.access import about_account, change_role

    with open_chosen(ctx, database, create=False).writing() as session:
        change_role(session, name, new_role)
        record_command(session, Action.ACCOUNT_ROLE, about=about_account(name, new_role))
    typer.echo(f"account {name} has the role {new_role}")


def print_link(name: str, root: str, token: str, expires_at: datetime, *, as_json: bool) -> None:
    link = f"{root}/owner/link/{token}"
    result = {"name": name, "link": link, "expires_at": expires_at.isoformat(timespec="seconds")}
    print_result(
        result, f"{link}\nvalid once, until {expires_at:%Y-%m-%d %H:%M} UTC", as_json=as_json
    )
