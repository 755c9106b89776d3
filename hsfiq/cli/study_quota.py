"""`hsfiq study quota`: how many participants get forms of a category, while a study runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import DatabaseOption, JsonOption, chosen_study, open_chosen, print_result
from hsfiq.cli.recording import record_command
from hsfiq.errors import UnreadableInput


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study quota autumn dress=30")(quota)


def quota(
    ctx: typer.Context,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="CATEGORY=N...", help="The most participants of each category."),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set how many participants get forms of a category; the other quotas stay."""
    from hsfiq.collect.owner import change_quotas
    from hsfiq.collect.recruiting import quotas_of

    wanted = read_quotas(quotas)
    with open_chosen(ctx, database, create=False).writing() as session:
        row = chosen_study(session, study)
        change_quotas(session, row, wanted)
        counts = quotas_of(session, row, datetime.now(UTC))
        record_command(session, Action.STUDY_QUOTA, study=study, about=", ".join(quotas))
    lines = [f"{count.category}: {count.taking_part:,} of {count.quota:,}" for count in counts]
    result = {"study": study, "quotas": [count.facts() for count in counts]}
    print_result(result, "\n".join([f"study {study}, participants:", *lines]), as_json=as_json)


def read_quotas(given: list[str]) -> dict[str, int]:
    """Read `dress=30`; a category may contain `=`."""
    quotas: dict[str, int] = {}
    for part in given:
        category, _, number = part.rpartition("=")
        if not category or not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise UnreadableInput(
                "study quota", f"{part!r} is not a category's quota", "write one like dress=30"
            )
        if category in quotas:
            raise UnreadableInput("study quota", f"{category!r} is given twice", "give one")
        quotas[category] = int(number)
    return quotas
