"""`hsfiq demo --full`: the whole loop on the drawn catalogue, told step by step.

Each step is a command that is shown, runs as a process of its own and writes straight to the
terminal: nothing is done here that cannot be typed again.
"""

from __future__ import annotations

import json
import shlex
import time
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import typer

from hsfiq.cli.common import room
from hsfiq.cli.full_demo.processes import Server, run_to_end
from hsfiq.cli.full_demo.signals import Signals
from hsfiq.cli.full_demo.steps import (
    METRICS,
    REPORT,
    SERVER_LOG,
    STANDARD,
    Step,
    address_of,
    whole_loop,
)
from hsfiq.cli.serve import HOST
from hsfiq.errors import HsfiqError, UnreadableInput

WIDTH = 88
"""Characters of a line of what is told."""


class StepFailed(HsfiqError):
    """A command of the loop has failed; the exit code is its own."""

    def __init__(self, place: str, step: Step, exit_code: int) -> None:
        # A process that a signal has ended has the code that a shell gives it.
        self.exit_code = exit_code if exit_code > 0 else 128 - exit_code
        name = shlex.join(("hsfiq", *step.words[:1]))
        super().__init__(
            f"step {place} ({step.title}): `{name}` failed with exit code {self.exit_code}"
        )


# ------------------------------------------------------------------------------------------ the way


def run(folder: Path, port: int, seed: int, *, opens: bool) -> None:
    """Go the whole way, say what came out, and open the report.

    Args:
        folder: takes everything; not there yet, or empty.
        port: the study is served on it for a while.
        seed: draws everything.
        opens: whether the report is opened in the browser.

    Raises:
        UnreadableInput: the folder holds something, the port is taken, or the seed draws nothing.
        HsfiqError: something is not installed.
        StepFailed: a command failed.
    """
    require_ready(folder, port, seed)
    typer.echo(
        wrapped(
            "The whole loop on a catalogue of drawn garments, in some minutes. Each step is a "
            "command that you can type yourself; all that it makes lies in "
            f"{folder}. The annotators are simulated: they stand in for people."
        )
    )
    follow(whole_loop(folder, port, seed, STANDARD), folder, port)
    if opens:
        webbrowser.open((folder / REPORT / "report.html").resolve().as_uri())


def wrapped(text: str) -> str:
    """The text in lines of `WIDTH`; a path in it stays in one piece."""
    return fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def require_ready(folder: Path, port: int, seed: int) -> None:
    """Say what is in the way before anything is run.

    Raises:
        UnreadableInput: the folder holds something, the port is taken, or the seed is none that
            training takes; the commands that only draw take any.
        HsfiqError: something is not installed.
    """
    if folder.exists() and not folder.is_dir():
        raise UnreadableInput(str(folder), "is there and is no folder", "name another --dir")
    if folder.is_dir() and any(folder.iterdir()):
        raise UnreadableInput(str(folder), "is there and not empty", "name another --dir")
    room("torch", "model")
    room("safetensors", "model")
    least, most = room("hsfiq.model.recipes.values", "model").RANGES["seed"]
    if not least <= seed <= most:
        raise UnreadableInput(
            "--seed", f"{seed} is not from {least} to {most}, as training needs it", "give another"
        )
    room("hsfiq.analysis.reports.report", "analysis")
    room("hsfiq.annotate.app", "annotate").listening(HOST, port).close()


def follow(steps: Sequence[Step], folder: Path, port: int) -> None:
    """Take the steps, with no server left behind, and say what came out.

    Raises:
        StepFailed: a command failed.
        KeyboardInterrupt: we were told to end.
    """
    with (
        Signals() as signals,
        Server(address_of(port), folder / SERVER_LOG, signals) as server,
    ):
        go(steps, server, signals)
    results = json.loads((folder / REPORT / "results.json").read_bytes())
    typer.echo("\n".join(summary(results, folder)))


def go(steps: Sequence[Step], server: Server, signals: Signals) -> None:
    """Announce and run the steps in their order.

    Raises:
        StepFailed: one failed; those after it are not run.
        KeyboardInterrupt: we were told to end; the step has ended, those after it are not run.
    """
    for number, step in enumerate(steps, start=1):
        place = f"{number} of {len(steps)}"
        if not step.is_served:
            server.stop()
        signals.heed()
        typer.echo(f"\n[{place}] {step.title}\n{wrapped(step.why)}\n\n$ {step.command}")
        started = time.monotonic()
        if step.serves:
            serve(step, place, server)
        else:
            perform(step, place, server, signals)
        typer.echo(f"({time.monotonic() - started:.0f} s)")


def serve(step: Step, place: str, server: Server) -> None:
    """Start the server.

    Raises:
        StepFailed: it does not answer.
        KeyboardInterrupt: we were told to end.
    """
    reason = server.start(step.process)
    if reason is not None:
        typer.echo(reason, err=True)
        raise StepFailed(place, step, server.exit_code or 1)
    typer.echo(f"{server.address} answers")


def perform(step: Step, place: str, server: Server, signals: Signals) -> None:
    """Run a command to its end.

    Raises:
        StepFailed: it failed.
        KeyboardInterrupt: we were told to end.
    """
    exit_code = run_to_end(step.process, signals)
    if exit_code == 0:
        return
    if step.is_served and server.exit_code is not None:
        typer.echo(server.said(), err=True)
    raise StepFailed(place, step, exit_code)


# ------------------------------------------------------------------------------------- what it gave


def summary(results: Mapping[str, Any], folder: Path) -> list[str]:
    """What came out, and where it lies.

    Args:
        results: of the analysis, as its report's `results.json` has them.
        folder: holds everything.
    """
    rhos = {name: results["metrics"][name]["spearman"] for name in METRICS}
    pairs = {(it["metric"], it["other"]): it["spearman"] for it in results["comparisons"]}
    n_sets, n_participants = rhos["after"]["n"], rhos["after"]["n_clusters"]
    return [
        "",
        "What came out",
        f"Spearman's rho with the scores of {n_sets:,} held-out sets, and its 95% interval over",
        f"the {n_participants:,} simulated annotators who gave them:",
        *(f"  {name:<20}{figure(it, 'rho')}" for name, it in rhos.items()),
        f"  {'after less before':<20}{figure(turned(pairs['before', 'after']), 'difference')}",
        "All answers are simulated annotators': nothing here says what people would answer.",
        "",
        f"Where it lies, in {folder}",
        *(f"  {name:<20}{what}" for name, what in MADE),
    ]


MADE = (
    ("hsfiq.db", "the study and every answer, and the study that comes next"),
    ("release", "the answers as a release"),
    ("release.scores", "the two scorers' scores of its sets"),
    ("scorer", "the first scorer"),
    ("retrained", "the retrained one"),
    (f"{REPORT}/report.html", "the report"),
)
"""What is in the folder in the end."""


def figure(found: Mapping[str, Any], key: str) -> str:
    """A figure with its interval; why one of them is undefined, where it is."""
    value, (low, high), reason = found[key], found["ci"], found.get("reason")
    sign = "+" if key == "difference" else ""
    if value is None:
        return f"undefined: {reason}"
    if low is None or high is None:
        return f"{value:{sign}.3f}, its interval undefined: {reason}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def turned(found: Mapping[str, Any]) -> dict[str, Any]:
    """The difference of two metrics, seen from the second one."""
    value, (low, high) = found["difference"], found["ci"]
    return {
        **found,
        "difference": None if value is None else -value,
        "ci": [None if end is None else -end for end in (high, low)],
    }
