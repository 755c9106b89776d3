"""`hsfiq power`: how many participants and questions a study needs."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from hsfiq.cli.common import JsonOption, print_result, requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.power import Population, Power, StoppingPlans


class Spread(TypedDict):
    """How far participants' own rates differ, and where this comes from."""

    spread: float
    source: str


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
    preference: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE",
            help="The rate at which people prefer one of two systems; may be repeated.",
        ),
    ] = None,
    systems: Annotated[
        int, typer.Option(metavar="N", help="How many systems are compared with each other.")
    ] = 2,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The seed of the simulated studies.", min=0)
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say how precise a study would be, by simulating it, and how many participants it needs.

    Also how many it takes to decide between two systems: tested at the end, or watched.
    """
    if release is None and (metric or scores):
        raise UnreadableInput("--metric", "needs a release", "name one with --from RELEASE")
    if len(metric or []) > 2:
        raise UnreadableInput("--metric", f"{len(metric or [])} metrics", "name one or two")
    with requires("analysis"):
        from hsfiq.analysis.power import (
            PARTICIPANTS,
            QUESTIONS,
            RATES,
            require_possible,
            stopping_plans,
        )
        from hsfiq.analysis.power import power as simulate_power

        people, asked = participants or PARTICIPANTS, questions or QUESTIONS
        require_possible(people, asked, overlap, width, difference)
        data = None if release is None else read(release, scores)
        plans = stopping_plans(
            preference or RATES,
            asked,
            systems=systems,
            seed=seed,
            **choose_spread(data),
        )
        result = simulate_power(
            choose_population(data, metric),
            participants=people,
            questions=asked,
            overlap=overlap,
            width=width,
            difference=difference,
            seed=seed,
        )
    facts = result.to_json() | {"preference": plans.to_json()}
    print_result(facts, f"{as_text(result)}\n\n{plans_text(plans)}", as_json=as_json)


def read(release: Path, scores: list[Path] | None) -> Release:
    from hsfiq.analysis.data.release import read_release

    return read_release(release, scores or [])


def choose_spread(release: Release | None) -> Spread:
    """How participants' preferences between systems differ: in a release of systems, or assumed."""
    from hsfiq.analysis.power import ASSUMED_SPREAD, estimate_spread

    if release is None or not names_systems(release):
        return {"spread": ASSUMED_SPREAD, "source": "assumed"}
    return {
        "spread": estimate_spread(release),
        "source": f"release {release.name} {release.version}",
    }


def names_systems(release: Release) -> bool:
    return "system" in release.sets and bool(release.sets["system"].notna().any())


def choose_population(release: Release | None, metric: list[str] | None) -> Population:
    """The population of a release's answers, or the published one."""
    from hsfiq.analysis.data.metrics import parse_metric
    from hsfiq.analysis.power import PUBLISHED, estimate_population

    if release is None:
        return PUBLISHED
    names = metric or ["recall@5"]
    return estimate_population(release, *(parse_metric(name).values(release) for name in names))


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


def plans_text(plans: StoppingPlans) -> str:
    """The participants needed to decide between two systems, by rate and questions."""
    about = "participants needed to decide which of two systems people prefer; systems compared: "
    about += f"{plans.systems}, so each at the level {plans.level:.3g}; participants' own rates "
    about += f"spread by {plans.spread:.3f} ({plans.spread_source})"
    lines = [
        *wrap(about, width=100, subsequent_indent="  "),
        f"{'':>22}{'tested at':>12}{'watched:':>12}",
        f"{'rate':>11}{'questions':>11}{'the end':>12}{'mean':>12}{'half by':>10}{'90% by':>10}",
    ]
    for each in plans.plans:
        mean = f"{each.expected:,.0f}" if each.median else f"> {each.expected:,.0f}"
        half, most = (f"{n:,}" if n else "later" for n in (each.median, each.nine_in_ten))
        lines.append(
            f"{each.rate:>11g}{each.questions:>11}{each.fixed:>12,}{mean:>12}{half:>10}{most:>10}"
        )
    return "\n".join([*lines, "", STOPPING_FOOTNOTE])


STOPPING_FOOTNOTE = """\
tested at the end: with a power of 80%, if the rate is as planned.
watched: until the confidence sequence excludes one half (hsfiq study status); it need not know the
rate, and stops the sooner the clearer the preference is."""
