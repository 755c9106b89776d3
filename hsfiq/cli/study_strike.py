"""`hsfiq study strike`: a typed text that releases leave out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    open_chosen,
    print_result,
)
from hsfiq.cli.recording import record_command


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study strike p7.form_1.0 2 --study searches")(strike)


def strike(
    ctx: typer.Context,
    search: Annotated[
        str, typer.Argument(metavar="SEARCH", help="The search: question_id in a release.")
    ],
    turn: Annotated[int, typer.Argument(metavar="TURN", help="The turn's number.", min=1)],
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Strike a text that somebody typed in a search: later releases leave it out."""
    from hsfiq.collect.searches import strike as strike_text

    with open_chosen(ctx, database, create=False).writing() as session:
        row = chosen_study(session, study)
        is_new = strike_text(session, row, search, turn, datetime.now(UTC))
        name = row.name
        if is_new:
            about = f"{search} turn {turn}"
            record_command(session, Action.STUDY_STRIKE, study=name, about=about)
    result = {"study": name, "search": search, "turn": turn, "was_struck": not is_new}
    state = "is struck" if is_new else "has been struck before"
    line = f"study {name}: the text of turn {turn} of {search} {state}"
    print_result(result, line, as_json=as_json)
