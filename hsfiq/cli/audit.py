"""`hsfiq audit`: the log of changes and exports of study data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.actors import Action, command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.db.tables import AuditEntry

app = common.Commands(help="Show who changed or exported study data.", no_args_is_help=True)

StudyName = Annotated[
    str | None, typer.Option("--study", metavar="NAME", help="Only entries about this study.")
]
SINCE = typer.Option("--since", metavar="DATE", help="Only entries since this date or time (UTC).")
SinceOption = Annotated[str | None, SINCE]
ActorOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Only entries of this actor, as named in the log: 'command line: ann'."
    ),
]


@app.command("list", epilog="Example: hsfiq audit list --study autumn --since 2026-03-01")
def list_(
    call: common.JsonCall,
    study: StudyName = None,
    since: SinceOption = None,
    actor: ActorOption = None,
) -> None:
    """List the entries, oldest first."""
    from hsfiq.audit import facts

    _, selected = selected_entries(call, study, since, actor)
    rows = [facts(entry) for entry in selected]
    call.print({"entries": rows}, "\n".join(map(as_text, rows)) or "no entry")


def as_text(row: dict[str, Any]) -> str:
    study = f"study {row['study']}" if row["study"] else ""
    outcome = "" if row["outcome"] == "done" else row["outcome"]
    return "  ".join(
        filter(None, (row["at"], row["actor"], row["action"], study, row["about"], outcome))
    )


@app.command(epilog="Example: hsfiq audit export log.csv --study autumn")
def export(
    call: common.JsonCall,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The new file, FILE.csv or FILE.jsonl.")
    ],
    study: StudyName = None,
    since: SinceOption = None,
    actor: ActorOption = None,
) -> None:
    """Write the entries to a new CSV or JSON-lines file.

    The oldest entries come first. The export is logged, too.
    """
    from hsfiq.atomic_files import explained_write_errors, new_private_file
    from hsfiq.audit import FORMATS

    write = FORMATS.get(file.suffix.removeprefix("."))
    if write is None:
        raise UnreadableInput(
            str(file), "has neither the extension .csv nor .jsonl", "name FILE.csv"
        )
    opened, rows = selected_entries(call, study, since, actor)
    with explained_write_errors(file), new_private_file(file) as draft:
        draft.write_bytes(write(rows))
    about = count_text(len(rows), "entry", "entries")
    common.record_afterwards(opened, Action.AUDIT_EXPORT, study=study, about=about)
    call.print({"file": str(file), "entries": len(rows)}, f"{file}: {about}")


@app.command(epilog="Example: hsfiq audit prune --before 2025-01-01")
def prune(
    call: common.JsonCall,
    before: Annotated[
        str, typer.Option(metavar="DATE", help="A date or time (UTC) that has passed.")
    ],
) -> None:
    """Delete the entries before a date.

    Export the entries first if you must keep them. The deletion is logged. No other command deletes
    entries.
    """
    from hsfiq.audit import prune as prune_entries

    time = read_time("--before", before)
    if time > datetime.now(UTC):
        raise UnreadableInput("--before", f"{before} is in the future", "name an earlier date")
    with call.writing() as session:
        number = prune_entries(session, command_line(), time)
    deleted = count_text(number, "entry", "entries")
    result = {"deleted": number, "before": time.isoformat()}
    call.print(result, f"{deleted} before {time:%Y-%m-%d %H:%M} UTC deleted")


def selected_entries(
    call: common.Call, study: str | None, since: str | None, actor: str | None
) -> tuple[Database, Sequence[AuditEntry]]:
    """The open database, and the entries that the options select, oldest first."""
    from hsfiq.audit import Selection, entries

    selection = Selection(study, read_time("--since", since) if since else None, actor)
    opened = call.open()
    with opened.reading() as session:
        return opened, entries(session, selection)


def read_time(option: str, given: str) -> datetime:
    """Read `2026-03-01` or `2026-03-01T12:00+01:00`; without a time zone it is UTC."""
    try:
        time = datetime.fromisoformat(given)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise UnreadableInput(option, f"{given!r} is not a date", "write 2026-03-01") from error
