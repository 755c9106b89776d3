"""`hsfiq power`: how many participants and questions a study needs."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption, print_result, requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.analysis.power.population import Population
    from hsfiq.analysis.power.power import Power


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq power --participants 60 --questions 50 --width 0.05")(power)


def power(
    release: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RELEASE",
            help="Estimate the variances from this release; by default published ones.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="With --from: one metric, or two to compare; by default recall@5."
        ),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --from: a scores file; may be repeated."),
    ] = None,
    participants: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="The number of participants; may be repeated."),
    ] = None,
    questions: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="The questions of each participant; may be repeated."),
    ] = None,
    overlap: Annotated[
        int, typer.Option(metavar="N", help="How many participants answer each question.")
    ] = 1,
    width: Annotated[float, typer.Option(help="The target width of a 95% interval.")] = 0.05,
    difference: Annotated[
        float, typer.Option(help="The difference of two metrics to detect.")
    ] = 0.05,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The seed of the simulated studies.", min=0)
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say how precise a study would be, by simulating it, and how many participants it needs."""
    with requires("analysis"):
        from hsfiq.analysis.power.power import PARTICIPANTS, QUESTIONS
        from hsfiq.analysis.power.power import power as simulate_power

        result = simulate_power(
            choose_population(release, metric, scores),
            participants=participants or PARTICIPANTS,
            questions=questions or QUESTIONS,
            overlap=overlap,
            width=width,
            difference=difference,
            seed=seed,
        )
    print_result(result.to_json(), as_text(result), as_json=as_json)


def choose_population(
    release: Path | None, metric: list[str] | None, scores: list[Path] | None
) -> Population:
    """The population of a release's answers, or the published one."""
    from hsfiq.analysis.data.metrics import parse_metric
    from hsfiq.analysis.data.release import read_release
    from hsfiq.analysis.power.population import PUBLISHED, estimate_population

    if release is None:
        if metric or scores:
            raise UnreadableInput("--metric", "needs a release", "name one with --from RELEASE")
        return PUBLISHED
    names = metric or ["recall@5"]
    if len(names) > 2:
        raise UnreadableInput("--metric", f"{len(names)} metrics", "name one or two")
    data = read_release(release, scores or [])
    return estimate_population(data, *(parse_metric(name).values(data) for name in names))


def as_text(result: Power) -> str:
    lines = [
        f"{result.n_studies} studies of each size simulated, seed {result.seed}",
        f"participants for each question: {result.overlap}",
        *wrap(f"variances: {result.population.source}", width=100, subsequent_indent="  "),
        "",
        f"{'':>14}{'':>11}{'width of the 95% interval':>28}{'detectable difference':>28}",
        f"{'participants':>14}{'questions':>11}" + f"{'rho':>14}{'tie_half':>14}" * 2,
    ]
    for size in result.sizes:
        columns = [each.width for each in size.precision.values()]
        columns += [each.difference for each in size.precision.values()]
        figures = "".join(f"{column:>14.4f}" for column in columns)
        lines.append(f"{size.participants:>14}{size.questions:>11}{figures}")
    for needed in result.needed:
        lines += ["", f"with {needed.questions} questions each, participants needed"]
        for target, value, counts in (
            ("width", result.width, needed.for_width),
            ("difference", result.difference, needed.for_difference),
        ):
            listed = ", ".join(f"{n:,} ({name})" for name, n in counts.items())
            lines.append(f"  for a {target} of {value:g}: {listed}")
    means = ", ".join(
        f"{name} {each.mean:.3f}" for name, each in result.sizes[-1].precision.items()
    )
    return "\n".join([*lines, "", f"{FOOTNOTE}\nmeans in the largest size: {means}"])


FOOTNOTE = """\
width: of a valid interval, 2 x 1.96 standard deviations over the simulated studies.
detectable difference: of two metrics on the same sets, with a power of 80% at 5%."""
