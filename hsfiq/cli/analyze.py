"""`hsfiq analyze`: how well metrics agree with people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import JsonOption, print_result, room
from hsfiq.cli.export import newest_hp
from hsfiq.errors import UnreadableInput


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
    part: Annotated[
        str | None,
        typer.Option(
            metavar="test|train|unused",
            help="Only the questions of this part of the release's split; test is what a scorer "
            "retrained on the release has not learned from.",
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option(min=1, help="How many times the intervals resample the answers.")
    ] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of these resamples.")] = 0,
    unit: Annotated[
        str,
        typer.Option(
            metavar="UNIT",
            help="What is resampled: participant, triplet, participant-triplet (both at once: "
            "rather too long than too short) or row (as if all answers were independent: for "
            "comparison).",
        ),
    ] = "participant",
    few_clusters: Annotated[
        bool,
        typer.Option("--few-clusters", help="Widen the intervals as few participants need."),
    ] = False,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also systems, participants, categories, the human ceiling, and whether the "
            "conclusions change without doubtful answers.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write a report into this folder: report.html, figures, tables and "
            "results.json, with all details.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a report that stands in that folder.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how well metrics agree with the people of a release."""
    if force and report is None:
        raise UnreadableInput("--force", "replaces a report, and none is asked for", "add --report")
    metrics = room("hsfiq.analysis.data.metrics", "analysis")
    if report is not None:
        room("hsfiq.analysis.reports.folder", "analysis").require_free(report, force=force)
    folder = release or newest_hp()
    if release is None:
        typer.echo(f"analysing {folder}", err=True)
    wanted = [metrics.parse_metric(name) for name in metric]
    data = room("hsfiq.analysis.data.release", "analysis").read_release(folder, scores or [])
    if part is not None:
        data = room("hsfiq.analysis.data.parts", "analysis").take_part(data, part)
    draws = room("hsfiq.analysis.resampling.draws", "analysis").Draws.of(
        data,
        unit=unit,
        n_resamples=resamples,
        seed=seed,
        correction="t" if few_clusters else "none",
    )
    if report is None:
        result = room("hsfiq.analysis.analyze", "analysis").analyze(
            data, wanted, draws, in_detail=details
        )
    else:
        made = room("hsfiq.analysis.reports.report", "analysis").report(data, wanted, draws=draws)
        made.save(report, force=force)
        typer.echo(f"{report / 'report.html'}: written", err=True)
        result = made.analysis
    print_result(
        result.to_json(),
        room("hsfiq.analysis.reports.text_table", "analysis").to_table(result),
        as_json=as_json,
    )
