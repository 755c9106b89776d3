"""`hsfiq sessions play`: searches over several rounds with a simulated user."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, progress, requires
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.sessions_sources import (
    SimulatorName,
    SimulatorOptions,
    SourceOptions,
    read_script,
    sources_of,
    user_of,
)
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

DEFAULT_ROUNDS = 5


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: hsfiq sessions play --system runs/sprc --data drawn "
        "--simulator drawn-full --out sprc.jsonl"
    )(with_option_groups(play))


def play(
    system: Annotated[
        str, typer.Option(metavar="CKPT|URL", help="A checkpoint, or a live retriever's address.")
    ],
    simulator: Annotated[SimulatorName, typer.Option(help="Who gives the texts.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The sessions, as JSONL; a stopped play goes on.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="A dataset's folder, or the catalogue; not needed by a script at a URL.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The most rounds; by default 5, or the script's."),
    ] = None,
    history: Annotated[
        Literal["mean", "last", "rocchio"],
        typer.Option(help="How the queries of all rounds are combined."),
    ] = "mean",
    choose: Annotated[
        str,
        typer.Option(
            metavar="top1|unseen|nearest|random-K",
            help="The image that the next text is about: the first, the first that no text was "
            "about, the most like the target (drawn), or one of the first K.",
        ),
    ] = "top1",
    stop_at: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, help="End a session with the target among the first K; else go on."
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", min=1, help="Images that are shown.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulator and the choice.")] = 0,
    *,
    sources: SourceOptions,
    simulators: SimulatorOptions,
    as_json: JsonOption = False,
) -> None:
    """Play searches over several rounds: a system answers, a simulator says what is wrong.

    By default as FISD: the mean of all queries, the first image as candidate, 5 rounds, no stop.
    """
    if out.exists():
        raise UnreadableInput(str(out), "exists already", "name another file with --out")
    existing_folder(out.parent)
    with requires("live"):
        from hsfiq.sessions.play import Settings, play_parts, summary
        from hsfiq.sessions.scripts import ScriptedUser

    script = read_script(simulator, simulators.script)
    with ExitStack() as stack:
        played = sources_of(system, data, sources, script, stack)
        user, least_shown = (
            (ScriptedUser(script), 1)
            if script is not None
            else user_of(simulator, choose, simulators, played.images, data or "")
        )
        settings = Settings(
            history=history,
            rounds=rounds or (None if script else DEFAULT_ROUNDS),
            k=min([max(k, least_shown), *(p.ranker.system().max_k for p in played.parts)]),
            stop_at=stop_at,
            seed=seed,
        )
        sessions = play_parts(played.parts, user, settings, out, progress("playing"))
    result = {"sessions": str(out), **summary(sessions)}
    if costs := user.costs():
        result["costs"] = costs
    print_result(result, as_text(result), as_json=as_json)


def as_text(result: dict[str, Any]) -> str:
    stops = ", ".join(f"{reason} {n:,}" for reason, n in result["stops"].items())
    chooser = f", {result['chooser']}" if result["chooser"] else ""
    sessions = count_text(result["n_sessions"], "session")
    sizes = f"{sessions} of {result['system']}, {count_text(result['n_rounds'], 'round')}"
    lines = [
        f"{result['sessions']}: {sizes}; ends: {stops}",
        f"simulator {result['simulator']}, history {result['history']}{chooser}",
    ]
    if "costs" in result:
        costs = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in result["costs"].items())
        lines.append(f"endpoint: {costs}")
    return "\n".join([*lines, f"measure them with: hsfiq sessions measure {result['sessions']}"])
