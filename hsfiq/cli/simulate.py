"""`hsfiq simulate`: simulated annotators answer a running study over HTTP."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, print_result, room
from hsfiq.drawn.annotators import STANDARD
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.simulate import Destination
    from hsfiq.simulate.crowd import Told

NAMED = 10
"""So many participants who did not get to the end are named on the terminal."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq simulate --participants 12 --speed 0 http://127.0.0.1:7860")(
        simulate
    )


def simulate(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...", help="Where the study is served, or one personal link each."
        ),
    ],
    participants: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many come by the open door.", min=1, max=10_000),
    ] = None,
    at_once: Annotated[
        int, typer.Option(metavar="N", help="So many answer at the same time.", min=1, max=200)
    ] = 8,
    speed: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="What half of the questions take less than; 0: at once.", min=0
        ),
    ] = STANDARD.median_seconds,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws the annotators and answers.")] = 0,
    noise: Annotated[
        float, typer.Option(metavar="X", help="Scale of the noise on an impression; median.", min=0)
    ] = STANDARD.noise,
    side_bias: Annotated[
        float, typer.Option(metavar="X", help="Logits in favour of set 1; mean.")
    ] = STANDARD.side_bias,
    lapse_rate: Annotated[
        float,
        typer.Option(metavar="X", help="Share of questions not looked at; mean.", min=0, max=0.5),
    ] = STANDARD.lapse_rate,
    drift: Annotated[
        float, typer.Option(metavar="X", help="How much more lenient they get on the way; mean.")
    ] = STANDARD.drift,
    sessions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Remembers who is who: the same command again goes on where it stopped.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let simulated annotators answer a study on the drawn catalogue, as browsers do.

    The study has to be made for them: `hsfiq study create --simulated`, `hsfiq demo --simulated`.
    """
    room("PIL", "annotate")
    from dataclasses import replace

    from hsfiq.drawn import draw_annotators, generator
    from hsfiq.simulate import Crowd, Sessions

    destinations = destinations_of(urls, participants)
    truth = {"noise": noise, "side_bias": side_bias, "lapse_rate": lapse_rate, "drift": drift}
    for name, value in (truth | {"speed": speed}).items():
        if not math.isfinite(value):
            raise UnreadableInput(f"--{name.replace('_', '-')}", f"{value} is no finite number")
    population = replace(STANDARD, median_seconds=speed, **truth)
    crowd = Crowd(
        draw_annotators(generator(seed, "annotators"), len(destinations), population),
        destinations,
        seed,
        at_once,
        Sessions(sessions, destinations[0].address, seed) if sessions else None,
    )
    with bar() as told:
        tally = crowd.run(told)
    result = {"address": destinations[0].address, "seed": seed} | tally.facts()
    print_result(result, "\n".join(lines_of(result)), as_json=as_json)
    raise typer.Exit(0 if tally.is_well else 1)


def destinations_of(urls: list[str], participants: int | None) -> list[Destination]:
    """Where each participant goes.

    Raises:
        UnreadableInput: a URL is none, or they are not of one server; links and a number of
            participants do not go together.
    """
    from hsfiq.simulate import destination_of

    found = [destination_of(url) for url in urls]
    if len({destination.address for destination in found}) > 1:
        raise UnreadableInput("URL", "there are several servers", "simulate one at a time")
    if len(found) == 1 and found[0].link is None:
        return found * (participants or 1)
    if not all(destination.link for destination in found):
        raise UnreadableInput("URL", "an address beside others", "give one, or personal links only")
    if len(set(found)) < len(found):
        raise UnreadableInput("URL", "a personal link comes twice")
    if participants not in (None, len(found)):
        raise UnreadableInput(
            "--participants", f"there are {len(found)} personal links", "each is one participant"
        )
    return found


@contextmanager
def bar() -> Iterator[Told]:
    """A bar of the questions done on the terminal's error stream; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("questions", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


def lines_of(result: dict[str, Any]) -> list[str]:
    """The counts, and who did not get to the end and why."""
    unwell = [person for person in result["people"] if person["state"] != "finished"]
    people = (
        f"{result['participants']:,} simulated participants (seed {result['seed']}): "
        f"{result['finished']:,} finished, {result['turned_away']:,} turned away, "
        f"{result['failed']:,} failed"
    )
    questions = (
        f"{result['answered']:,} questions answered, {result['skipped']:,} skipped, "
        f"{result['refused']:,} answers refused"
    )
    named = [
        f"{person['annotator']['name']}: {person['state']}, {person['why']}"
        for person in unwell[:NAMED]
    ]
    return [people, questions, *named] + (
        [f"and {len(unwell) - NAMED:,} more"] if len(unwell) > NAMED else []
    )
