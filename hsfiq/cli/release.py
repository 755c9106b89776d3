"""`hsfiq release`: verify, compare, merge and publish release folders; list those of a database."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import release_diff, release_list, release_merge, release_push
from hsfiq.cli.common import JsonOption, print_result
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.releases.verify_rows import Findings

app = typer.Typer(help="List, verify, compare and share releases.", no_args_is_help=True)

ReleaseArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A release folder, made by hsfiq export.")
]


@app.command(epilog="Example: hsfiq release verify releases/my-study-hp-1.0.0")
def verify(folder: ReleaseArgument, as_json: JsonOption = False) -> None:
    """Check that a release is what it says: exit 1 with the first rows that are wrong.

    Digests, types, ranges, references between tables, the funnel, the split and further files.
    """
    from hsfiq.releases.verify import verify as verify_folder

    findings = verify_folder(folder)
    print_result(as_result(folder, findings), as_text(folder, findings), as_json=as_json)
    if findings.n:
        raise typer.Exit(1)


def as_result(folder: Path, findings: Findings) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "valid": not findings.n,
        "n_findings": findings.n,
        "findings": [asdict(finding) for finding in findings.first],
        "notes": findings.notes,
    }


def as_text(folder: Path, findings: Findings) -> str:
    lines = [str(finding) for finding in findings.first]
    if findings.n > len(lines):
        lines.append(f"... and {findings.n - len(lines):,} more")
    summary = count_text(findings.n, "finding") if findings.n else "valid"
    notes = [f"note: {note}" for note in findings.notes]
    return "\n".join([*lines, *notes, f"{folder}: {summary}"])


release_list.register(app)
release_diff.register(app)
release_merge.register(app)
release_push.register(app)
