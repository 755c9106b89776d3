"""`hsfiq power`: how many participants and questions a study needs."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, print_result, room

STATISTICS = ("rho", "tie_half")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq power --participants 60 --questions 50 --width 0.05")(power)


def power(
    release: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RELEASE",
            help="Takes variances from its answers; else published ones.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="With --from: one metric, or two to be compared; else recall@5."
        ),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --from: a scores file; may come several times."),
    ] = None,
    participants: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="How many participants; may come several times."),
    ] = None,
    questions: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="How many questions for each; may come several times."),
    ] = None,
    overlap: Annotated[
        int, typer.Option(metavar="N", help="How many participants answer each question.")
    ] = 1,
    width: Annotated[float, typer.Option(help="The wanted width of a 95% interval.")] = 0.05,
    difference: Annotated[
        float, typer.Option(help="The difference of two metrics that is to be detected.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws the simulated studies.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say how exact a study would be, by simulating it, and how many participants it needs."""
    simulation = room("hsfiq.analysis.power.power", "analysis")
    result = simulation.power(
        population_of(release, metric, scores),
        participants=participants or simulation.PARTICIPANTS,
        questions=questions or simulation.QUESTIONS,
        overlap=overlap,
        width=width,
        difference=difference,
        seed=seed,
    ).to_json()
    print_result(result, as_text(result), as_json=as_json)


def population_of(
    release: Path | None, metric: list[str] | None, scores: list[Path] | None
) -> object:
    """The population of a release's answers, or the published one.

    Raises:
        UnreadableInput: options are given that need a release, or more than two metrics.
    """
    from hsfiq.errors import UnreadableInput

    populations = room("hsfiq.analysis.power.population", "analysis")
    if release is None:
        if metric or scores:
            raise UnreadableInput("--metric", "needs a release", "name one with --from RELEASE")
        return populations.PUBLISHED
    wanted = metric or ["recall@5"]
    if len(wanted) > 2:
        raise UnreadableInput("--metric", f"{len(wanted)} metrics", "name one or two")
    data = room("hsfiq.analysis.data.release", "analysis").read_release(release, scores or [])
    parse = room("hsfiq.analysis.data.metrics", "analysis").parse_metric
    return populations.population_of(data, *(parse(name).values(data) for name in wanted))


def as_text(result: dict[str, Any]) -> str:
    """The table of sizes and what is needed, for a person."""
    population = result["population"]
    lines = [
        f"{result['n_studies']} studies of each size simulated, seed {result['seed']}",
        f"participants for each question: {result['overlap']}",
        *wrap(f"variances: {population['source']}", width=100, subsequent_indent="  "),
        "",
        f"{'':>14}{'':>11}{'width of the 95% interval':>28}{'detectable difference':>28}",
        f"{'participants':>14}{'questions':>11}" + f"{'rho':>14}{'tie_half':>14}" * 2,
    ]
    lines += [
        f"{size['participants']:>14}{size['questions']:>11}"
        + "".join(
            f"{size[name][figure]:>14.4f}"
            for figure in ("width", "difference")
            for name in STATISTICS
        )
        for size in result["sizes"]
    ]
    for needed in result["needed"]:
        lines.append("")
        lines.append(f"with {needed['questions']} questions each, participants needed")
        for figure in ("width", "difference"):
            counts = ", ".join(f"{needed[f'for_{figure}'][name]:,} ({name})" for name in STATISTICS)
            lines.append(f"  for a {figure} of {result[figure]:g}: {counts}")
    means = ", ".join(f"{name} {result['sizes'][-1][name]['mean']:.3f}" for name in STATISTICS)
    return "\n".join([*lines, "", f"{FOOTNOTE}\nmeans in the largest size: {means}"])


FOOTNOTE = """\
width: what a right interval spans, 2 x 1.96 standard deviations over the simulated studies.
detectable difference: of two metrics on the same sets, with a power of 80% at 5%."""
