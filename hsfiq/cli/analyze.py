"""`hsfiq analyze`: how well metrics agree with people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import JsonOption, print_result, room
from hsfiq.cli.export import newest_hp


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq analyze releases/hpfiq-hp-1.0.0 --metric recall@5")(analyze)


def analyze(
    metric: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="recall@K or the name of a scores file; may come several times."
        ),
    ],
    release: Annotated[
        Path | None,
        typer.Argument(
            metavar="RELEASE", help="A release folder; else the newest hp one in releases/."
        ),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A scores file: Parquet, CSV or JSONL; may come several times."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well metrics agree with the people of a release."""
    metrics = room("analysis.metrics", "analysis")
    folder = release or newest_hp()
    if release is None:
        typer.echo(f"analysing {folder}", err=True)
    wanted = [metrics.parse_metric(name) for name in metric]
    data = room("analysis.release", "analysis").read_release(folder, scores or [])
    result = room("analysis.analyze", "analysis").analyze(data, wanted)
    print_result(
        result.to_json(), room("analysis.table", "analysis").to_table(result), as_json=as_json
    )
