"""`hsfiq study hit`: what Mechanical Turk needs to show a study to workers."""

from __future__ import annotations

from typing import Annotated

import typer

from hsfiq.cli.common import DatabaseOption, chosen_study, open_chosen
from hsfiq.errors import UnreadableInput
from hsfiq.public_url import public_url


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study hit autumn --url https://study.example.org")(hit)


def hit(
    ctx: typer.Context,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The address of the server for browsers [HSFIQ_PUBLIC_URL]."
        ),
    ] = None,
    height: Annotated[
        int,
        typer.Option(
            metavar="PIXELS", min=0, max=10_000, help="Of the frame; 0 fits it to the window."
        ),
    ] = 0,
    database: DatabaseOption = None,
) -> None:
    """Print a study's ExternalQuestion for Mechanical Turk's CreateHIT."""
    from hsfiq.study.config import config_of
    from hsfiq.study.recruiting import external_question

    public = public_url(url, "--url")
    if public is None or public.scheme != "https":
        raise UnreadableInput(
            "--url",
            "Mechanical Turk shows only pages that are served over https",
            "give the server's address, such as https://study.example.org",
        )
    with open_chosen(ctx, database, create=False).reading() as session:
        row = chosen_study(session, study)
        name, mode = row.name, config_of(row).recruitment.mode
    if mode != "mturk":
        raise UnreadableInput(
            f"study {name}",
            f"recruits by mode = {mode!r}, so Mechanical Turk cannot show it",
            'set mode = "mturk" in [recruitment] of a new study',
        )
    typer.echo(external_question(name, public, height), nl=False)
