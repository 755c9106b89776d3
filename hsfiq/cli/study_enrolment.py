"""`hsfiq study enrolment`: the rules for who may begin, while a study runs."""

from __future__ import annotations

from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import DatabaseOption, JsonOption, chosen_study, open_chosen, print_result
from hsfiq.cli.recording import record_command


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study enrolment autumn --per-address 60")(enrolment)


def enrolment(
    ctx: typer.Context,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    per_address: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=1_000_000,
            help="How many may begin from one address in an hour; 0: no limit.",
        ),
    ] = None,
    unbegun_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=525_600,
            help="When a place goes back whose participant has not agreed; 0: when the lease ends.",
        ),
    ] = None,
    signed_links: Annotated[
        bool | None,
        typer.Option(
            "--signed-links/--any-links",
            help="Whether people of a platform need links of `hsfiq participant links`.",
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the rules for who may begin, and print them; without an option, print them only."""
    from hsfiq.collect.owner import change_enrolment
    from hsfiq.study.config import config_of

    given = {
        "enrolments_per_address": per_address,
        "unbegun_minutes": unbegun_minutes,
        "signed_links": signed_links,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    opened = open_chosen(ctx, database, create=False)
    if changes:
        with opened.writing() as session:
            change_enrolment(session, chosen_study(session, study), changes)
            about = ", ".join(f"{key}={value}" for key, value in changes.items())
            record_command(session, Action.STUDY_ENROLMENT, study=study, about=about)
    with opened.reading() as session:
        recruitment = config_of(chosen_study(session, study)).recruitment
    rules = {key: getattr(recruitment, key) for key in given}
    lines = [f"study {study}:", *(f"{key}: {value}" for key, value in rules.items())]
    print_result({"study": study, **rules}, "\n".join(lines), as_json=as_json)
