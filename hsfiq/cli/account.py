"""`hsfiq account`, `owner` and `secret`: logins to the studio, and the signing key's file."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.actors import Action, Role, command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput

app = common.Commands(
    help="Who may log in to the studio, and with which role.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account.")]
RoleOption = Annotated[
    Role, typer.Option(help="owner: everything; analyst: reads and exports; helper: recruits.")
]
DaysOption = Annotated[int, typer.Option(help="How long the link is valid.", min=1, max=90)]


@app.command("list", epilog="Example: hsfiq account list --json")
def list_accounts(call: common.JsonCall) -> None:
    """List the accounts with their roles and states."""
    from hsfiq.access import accounts, state_of

    now = datetime.now(UTC)
    with call.reading() as session:
        facts = [
            {"name": each.name, "role": each.role, "state": state_of(each, now)}
            for each in accounts(session)
        ]
    text = common.table_text(("name", "role", "state"), [tuple(each.values()) for each in facts])
    empty = "no account yet: set the owner's password, hsfiq account password"
    call.print({"accounts": facts}, text or empty)


@app.command(epilog="Example: hsfiq account invite kim --role analyst")
def invite(
    call: common.JsonCall,
    name: NameArgument,
    role: RoleOption,
    days: DaysOption = 7,
    url: common.UrlOption = None,
) -> None:
    """Add an account, and print a link to set its password.

    The link works once.
    """
    from hsfiq.access import about_account, link_expiry
    from hsfiq.access import invite as invite_account

    root, expires_at = common.root_of_links(url), link_expiry(datetime.now(UTC), days)
    with call.writing() as session:
        token = invite_account(session, name, role, expires_at)
        common.record_command(session, Action.ACCOUNT_INVITE, about=about_account(name, role))
    print_link(name, root, token, expires_at, as_json=call.as_json)


@app.command(epilog="Example: hsfiq account reset kim")
def reset(
    call: common.JsonCall, name: NameArgument, days: DaysOption = 7, url: common.UrlOption = None
) -> None:
    """Reset an account's password, and print a link to set a new one.

    The account is logged out everywhere. A disabled account is enabled.
    """
    from hsfiq.access import about_account, link_expiry
    from hsfiq.access import reset as reset_account

    root, expires_at = common.root_of_links(url), link_expiry(datetime.now(UTC), days)
    with call.writing() as session:
        token = reset_account(session, name, expires_at)
        common.record_command(session, Action.ACCOUNT_RESET, about=about_account(name))
    print_link(name, root, token, expires_at, as_json=call.as_json)


@app.command(epilog="Example: hsfiq account disable kim")
def disable(call: common.Call, name: NameArgument) -> None:
    """Disable an account, and log it out everywhere. `reset` enables it again."""
    from hsfiq.access import about_account
    from hsfiq.access import disable as disable_account

    with call.writing() as session:
        disable_account(session, name)
        common.record_command(session, Action.ACCOUNT_DISABLE, about=about_account(name))
    common.print_text(f"account {name} is disabled and logged out everywhere")


@app.command(epilog="Example: hsfiq account role kim helper")
def role(
    call: common.Call,
    name: NameArgument,
    new_role: Annotated[Role, typer.Argument(metavar="ROLE", help="owner, analyst or helper.")],
) -> None:
    """Change an account's role, also for its current logins."""
    from hsfiq.access import about_account, change_role

    with call.writing() as session:
        change_role(session, name, new_role)
        common.record_command(session, Action.ACCOUNT_ROLE, about=about_account(name, new_role))
    common.print_text(f"account {name} has the role {new_role}")


def print_link(name: str, root: str, token: str, expires_at: datetime, *, as_json: bool) -> None:
    link = f"{root}/owner/link/{token}"
    result = {"name": name, "link": link, "expires_at": expires_at.isoformat(timespec="seconds")}
    common.print_result(
        result, f"{link}\nvalid once, until {expires_at:%Y-%m-%d %H:%M} UTC", as_json=as_json
    )


@app.command(epilog="Example: hsfiq account password")
def password(
    call: common.Call,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", metavar="FILE", help="Read the password from the first line of a file."
        ),
    ] = None,
) -> None:
    """Set the owner's password, and log the owner out everywhere.

    The account `owner` logs in at /owner.
    """
    from hsfiq.access import new_hash, set_owner_password
    from hsfiq.readers.files import read_text

    # Opened before the prompt, so that a missing database is reported first.
    opened = call.open()
    if from_file is not None:
        lines = read_text(from_file).splitlines()
        chosen = lines[0] if lines else ""
    elif sys.stdin.isatty():
        chosen = typer.prompt("Password", hide_input=True, confirmation_prompt="Repeat it")
    else:
        # Nothing can be hidden or repeated: getpass would only warn of it.
        chosen = sys.stdin.readline().rstrip("\r\n")
        if not chosen:
            raise UnreadableInput(
                "standard input",
                "there is no terminal to enter the password at",
                "use a terminal, or --from-file FILE",
            )
    with common.requires("annotate"):
        password_hash = new_hash(chosen)
    with opened.writing() as session:
        set_owner_password(session, password_hash)
        common.record_command(session, Action.PASSWORD_SET, about="owner")
    common.print_text("the owner's password is set; log in at /owner")


# `hsfiq secret`: the file of the key that signs cookies.

secret_app = common.Commands(
    help="The file of the key that signs cookies and pages.", no_args_is_help=True
)


@secret_app.command(epilog="Example: hsfiq secret create /etc/hsfiq/secret")
def create(
    call: common.Call, file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")]
) -> None:
    """Move the signing key from the database to a new file.

    Logins and links stay valid. Set HSFIQ_SECRET_FILE to the file and restart the server.
    """
    from hsfiq.access import VARIABLE, create_file

    create_file(call.open(), file, command_line())
    common.print_text(f"{file}: holds the signing key; restart the server with {VARIABLE}={file}")


@secret_app.command(epilog="Example: hsfiq secret rotate --forget")
def rotate(
    call: common.Call,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Else $HSFIQ_SECRET_FILE.", show_default=False),
    ] = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Invalidate the previous key at once: everybody must open their link again.",
        ),
    ] = False,
) -> None:
    """Write a new signing key to the file.

    The previous key stays valid until the next rotation. Restart the server to use the new key.
    """
    from hsfiq.access import VARIABLE
    from hsfiq.access import rotate as rotate_keys

    named = os.environ.get(VARIABLE)
    chosen = file or (Path(named) if named else None)
    if chosen is None:
        raise UnreadableInput("FILE", f"none is named, and {VARIABLE} is not set")
    opened = call.open()
    with opened.writing() as session:
        about = "the previous key is no longer valid" if forget else ""
        common.record_command(session, Action.SECRET_ROTATE, about=about)
        rotate_keys(chosen, forget=forget)
    common.print_text(f"{chosen}: holds a new signing key; restart the server")
