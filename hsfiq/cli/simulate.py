"""`hsfiq simulate`: simulated annotators answer a running study over HTTP."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import QUIET
from hsfiq.cli.common import Commands, JsonOption, print_result, requires
from hsfiq.drawn.annotators import STANDARD
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.simulate import Destination
    from hsfiq.simulate.simulation import ProgressCallback

app = Commands()

LISTED = 10
"""The most unfinished participants listed on the terminal."""


@app.command(epilog="Example: hsfiq simulate --participants 12 --speed 0 http://127.0.0.1:7860")
def simulate(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...",
            help="The server's address, or one personal link for each participant.",
        ),
    ],
    participants: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="The number of participants; 1 by default.", min=1, max=10_000
        ),
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="The number of participants answering at the same time.",
            min=1,
            max=200,
        ),
    ] = 8,
    speed: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Median time for a question; 0: none.", min=0),
    ] = STANDARD.median_seconds,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the annotators and answers.")] = 0,
    noise: Annotated[
        float, typer.Option(metavar="X", help="Median scale of the noise in judgements.", min=0)
    ] = STANDARD.noise,
    side_bias: Annotated[
        float, typer.Option(metavar="X", help="Mean bias towards set 1, in logits.")
    ] = STANDARD.side_bias,
    lapse_rate: Annotated[
        float,
        typer.Option(metavar="X", help="Mean share of random answers.", min=0, max=0.5),
    ] = STANDARD.lapse_rate,
    drift: Annotated[
        float, typer.Option(metavar="X", help="Mean increase in leniency over the study.")
    ] = STANDARD.drift,
    sessions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The cookies' file, with which the same command resumes an interrupted run.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a study on the drawn catalogue with simulated annotators, over HTTP.

    The study must be created for simulation: `hsfiq study create --simulated`, `hsfiq demo
    --simulated`.
    """
    from dataclasses import replace

    with requires("annotate"):
        from hsfiq.simulate import Sessions, Simulation
    from hsfiq.drawn import draw_annotators, generator

    destinations = destinations_of(urls, participants)
    truth = {"noise": noise, "side_bias": side_bias, "lapse_rate": lapse_rate, "drift": drift}
    for name, value in (truth | {"speed": speed}).items():
        if not math.isfinite(value):
            raise UnreadableInput(f"--{name.replace('_', '-')}", f"{value} is not a finite number")
    population = replace(STANDARD, median_seconds=speed, **truth)
    simulation = Simulation(
        draw_annotators(generator(seed, "annotators"), len(destinations), population),
        destinations,
        seed,
        at_once,
        Sessions(sessions, destinations[0].address, seed) if sessions else None,
    )
    with progress_bar() as report:
        summary = simulation.run(report)
    result = {"address": destinations[0].address, "seed": seed} | summary.facts()
    print_result(result, "\n".join(lines_of(result)), as_json=as_json)
    raise typer.Exit(0 if summary.succeeded else 1)


def destinations_of(urls: list[str], participants: int | None) -> list[Destination]:
    """The destination of each participant."""
    from hsfiq.simulate import destination_of

    destinations = [destination_of(url) for url in urls]
    if len({destination.address for destination in destinations}) > 1:
        raise UnreadableInput("URL", "there are several servers", "simulate one server at a time")
    if len(destinations) == 1 and destinations[0].link is None:
        return destinations * (participants or 1)
    if not all(destination.link for destination in destinations):
        raise UnreadableInput(
            "URL", "one of several URLs is a server's address", "give one address or personal links"
        )
    if len(set(destinations)) < len(destinations):
        raise UnreadableInput("URL", "a personal link is repeated")
    if participants not in (None, len(destinations)):
        raise UnreadableInput(
            "--participants",
            f"there are {len(destinations)} personal links",
            "give one link for each participant",
        )
    return destinations


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """A progress bar on the error stream if that is a terminal."""
    if not sys.stderr.isatty() or QUIET.get():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("questions", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


def lines_of(result: dict[str, Any]) -> list[str]:
    unfinished = [person for person in result["people"] if person["state"] != "finished"]
    people = (
        f"{count_text(result['participants'], 'simulated participant')} (seed {result['seed']}): "
        f"{result['finished']:,} finished, {result['turned_away']:,} turned away, "
        f"{result['failed']:,} failed"
    )
    questions = (
        f"{count_text(result['answered'], 'question')} answered, {result['skipped']:,} skipped, "
        f"{count_text(result['refused'], 'answer')} refused"
    )
    listed = [
        f"{person['annotator']['name']}: {person['state']}, {person['why']}"
        for person in unfinished[:LISTED]
    ]
    return [people, questions, *listed] + (
        [f"and {len(unfinished) - LISTED:,} more"] if len(unfinished) > LISTED else []
    )
