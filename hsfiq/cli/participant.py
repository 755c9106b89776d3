"""`hsfiq participant`: the people of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    open_chosen,
    print_result,
)
from hsfiq.cli.export import RELEASES
from hsfiq.errors import UnreadableInput

app = typer.Typer(help="See, pause, exclude and forget participants.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The pseudonym, such as p7.")]


@app.command("list", epilog="Example: hsfiq participant list")
def list_(
    ctx: typer.Context,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a study's participants and how far they are."""
    from hsfiq.collect.progress import participants_of

    with open_chosen(ctx, database, create=False).reading() as session:
        rows = [row.facts() for row in participants_of(session, chosen_study(session, study))]
    lines = [
        f"{row['participant']}: {row['status']}, {row['answered']} of {row['questions']} answered, "
        f"{row['failed_checks']} of {row['checks']} checks failed"
        for row in rows
    ]
    print_result({"participants": rows}, "\n".join(lines) or "nobody yet", as_json=as_json)


@app.command(epilog="Example: hsfiq participant exclude p7")
def exclude(
    ctx: typer.Context,
    participant: NameArgument,
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Leave a participant's answers out of releases and ask their questions again."""
    change_status(ctx, participant, study, database, "excluded")


@app.command(epilog="Example: hsfiq participant pause p7")
def pause(
    ctx: typer.Context,
    participant: NameArgument,
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Take no answers of a participant for a while."""
    change_status(ctx, participant, study, database, "paused")


@app.command(epilog="Example: hsfiq participant resume p7")
def resume(
    ctx: typer.Context,
    participant: NameArgument,
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Let a participant go on, as far as their questions are still theirs."""
    change_status(ctx, participant, study, database, "active")


@app.command(epilog="Example: hsfiq participant returned p7")
def returned(
    ctx: typer.Context,
    participant: NameArgument,
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Note that somebody gave up on the platform: what they answered stays, the rest returns."""
    change_status(ctx, participant, study, database, "returned")


@app.command("screened-out", epilog="Example: hsfiq participant screened-out p7")
def screened_out(
    ctx: typer.Context,
    participant: NameArgument,
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Note that the platform has sent somebody away: what they answered stays, the rest returns."""
    change_status(ctx, participant, study, database, "screened-out")


def change_status(
    ctx: typer.Context, name: str, study: str | None, database: str | None, status: str
) -> None:
    """Change a participant's status and say so."""
    from hsfiq.collect.participants import by_name, set_status

    with open_chosen(ctx, database, create=False).writing() as session:
        found = by_name(session, chosen_study(session, study), name)
        before = found.status
        set_status(found, status)
    typer.echo(f"participant {name}: {before} -> {status}")


@app.command(epilog="Example: hsfiq participant forget p7")
def forget(
    ctx: typer.Context,
    token: Annotated[str, typer.Argument(help="The token of their link, or the pseudonym.")],
    study: StudyOption = None,
    releases: Annotated[
        Path, typer.Option(metavar="DIR", help="Holds the releases that are searched.")
    ] = RELEASES,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask back.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a person's answers and checks; name the releases that hold them (these stay)."""
    from hsfiq.collect.participants import by_name, by_token
    from hsfiq.collect.participants import forget as forget_them
    from hsfiq.releases.folder import releases_holding

    if not yes and not typer.confirm(f"Delete all answers of {token}?"):
        raise UnreadableInput("participant forget", "not confirmed, nothing was deleted")
    with open_chosen(ctx, database, create=False).writing() as session:
        found = by_token(session, token) or by_name(session, chosen_study(session, study), token)
        name, study_name = found.name, found.study.name
        n_answers = forget_them(session, found)
    holding = releases_holding(releases, study_name, name)
    lines = [f"participant {name} of study {study_name}: {n_answers} answers deleted"]
    lines += [f"{folder} still holds answers of {name}; it was not altered" for folder in holding]
    result = {
        "participant": name,
        "study": study_name,
        "deleted": n_answers,
        "releases": [str(folder) for folder in holding],
    }
    print_result(result, "\n".join(lines), as_json=as_json)
