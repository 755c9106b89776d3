"""`hsfiq doctor`: what is wrong with a server, and the command that repairs it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    database_url,
    print_result,
    warn_of_password,
)
from hsfiq.public_url import public_url as public_address

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from hsfiq.doctor import Finding


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq doctor --public-url https://study.example.org")(doctor)


def doctor(
    ctx: typer.Context,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address at which browsers reach the server; else $HSFIQ_PUBLIC_URL.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check what a server needs, and print the command that repairs what is wrong.

    Database, schema, settings, clock, images, disks, permissions, proxy and versions are checked
    with the variables and as the user of this shell; nothing is changed. Exit code 1 if there is
    a problem; warnings do not count.
    """
    from hsfiq.db.engine import connect
    from hsfiq.doctor import examine

    public = public_address(public_url)
    url = database_url(ctx, database)
    engine = connect(url)
    ctx.call_on_close(engine.dispose)
    warn_of_password(url)
    findings = list(examine(engine, thumbnails_of(engine), public))
    is_well = all(finding.status != "problem" for finding in findings)
    result = {"well": is_well, "findings": [asdict(finding) for finding in findings]}
    print_result(result, "\n".join(map(line_of, findings)), as_json=as_json)
    raise typer.Exit(0 if is_well else 1)


def thumbnails_of(engine: Engine) -> Path | None:
    """The folder of the thumbnails, None where the app is not installed."""
    try:
        from hsfiq.annotate.image_copies import cache_folder
    except ModuleNotFoundError:
        return None
    from hsfiq.db.engine import Database

    return cache_folder(Database(engine))


def line_of(finding: Finding) -> str:
    fix = f"; to repair it: {finding.fix}" if finding.fix else ""
    return f"{finding.status:<8} {finding.check:<11} {finding.what}{fix}"
