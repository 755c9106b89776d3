"""Running `hsfiq demo --full`: each step is printed, then runs as its own process."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Self

import httpx

from hsfiq.db.sqlite import sqlite_url
from hsfiq.demo.study import DATABASE_FILE, FEATURE_FOLDER, IMAGE_FOLDER
from hsfiq.errors import HsfiqError
from hsfiq.live.client import certificates
from hsfiq.signals import Signals

# The processes of `hsfiq demo --full`: commands that run to their end, and a server meanwhile.
#
# None outlives this process, even after a failure or after several signals. All stay in its process
# group, so that they also receive Ctrl-C and the closing of the terminal.

START_SECONDS = 300.0
"""How long a server may take to start, as it first draws its catalogue."""

INTERRUPT_SECONDS = 5.0
"""How long a command may clean up after Ctrl-C, which it receives too, before it is terminated."""

TERMINATE_SECONDS = 10.0
"""How long a terminated process may clean up before it is killed."""

POLL_SECONDS = 0.2

PAGE_SECONDS = 5.0
"""How long to wait for a page."""


def run_to_end(command: Sequence[str], signals: Signals) -> int:
    """Run a command, which writes to the terminal; return its exit code.

    If a signal is received, `KeyboardInterrupt` is raised after the command has ended.
    """
    process = subprocess.Popen(command)  # noqa: S603 (ours)
    try:
        exit_code = None
        while exit_code is None:
            with suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(POLL_SECONDS)
            signals.heed()
        return exit_code
    finally:
        if signals.received is signal.SIGINT:
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process and wait for its end; kill it if it takes too long."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """A server at a URL, in its own process, which ends with the block; `log` is for its output."""

    def __init__(self, address: str, log: Path, signals: Signals) -> None:
        self.address = address
        self._log = log
        self._signals = signals
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, command: Sequence[str]) -> str | None:
        """Start it and wait until it answers; return the reason if it does not.

        Raises:
            KeyboardInterrupt: a signal was received.
        """
        if self.answers():
            return f"another program answers at {self.address}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 (ours)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._signals.heed()
            if self.exit_code is not None:
                return self.output()
            if self.answers():
                return None
            time.sleep(POLL_SECONDS)
        return f"{self.address} has not answered for {START_SECONDS:.0f} seconds"

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process; None if it has not ended."""
        return None if self._process is None else self._process.poll()

    def answers(self) -> bool:
        """Return whether any server at the address answers with a page."""
        try:
            response = httpx.get(
                self.address, timeout=PAGE_SECONDS, trust_env=False, verify=certificates()
            )
        except httpx.HTTPError:
            return False
        return not response.is_error

    def output(self) -> str:
        """Return its exit code and what it printed."""
        printed = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return f"the server has ended with exit code {self.exit_code} and printed:\n{printed}"


# The steps of `hsfiq demo --full`: commands, each with its explanation.

STUDY = "drawn"
METRICS = ("recall@5", "before", "after")
"""The analyzed metrics; `before` and `after` are the scores of the two scorers."""

REPORT, SERVER_LOG, SYSTEMS, SESSIONS = "report", "server.log", "systems", "sessions.jsonl"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the loop computes.

    Attributes:
        systems: the retrieval systems that are trained and compared.
        system_training: options of their training.
        searches: queries of each category that a simulated user searches for over three rounds.
        participants: simulated annotators, with 20 questions each.
        limit: approximate number of triplets of the first training; retraining mixes them in.
        training: settings of the first training's recipe, as KEY=VALUE.
        retraining: settings of the recipe `preference`, as KEY=VALUE.
        next_pairs: pairs of the follow-up study.
    """

    systems: tuple[str, ...]
    system_training: tuple[str, ...]
    searches: int
    participants: int
    limit: int
    training: tuple[str, ...]
    retraining: tuple[str, ...]
    next_pairs: int


STANDARD = Sizes(
    systems=("clip4cir", "bi-blip4cir", "covr-blip", "sprc", "mapnet"),
    system_training=(),
    searches=50,
    participants=48,
    limit=6000,
    training=("epochs=10",),
    retraining=("mix=3",),
    next_pairs=240,
)
"""Takes some minutes on two cores; enough answers for a useful interval."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the loop.

    Attributes:
        why: a few sentences on what the command does and why.
        words: the command line, without `hsfiq`.
        serves: whether it is the server, which keeps running for the next steps.
        is_served: whether it needs the server, which stops before the first step that does not.
    """

    title: str
    why: str
    words: tuple[str, ...]
    serves: bool = False
    is_served: bool = False

    @property
    def command(self) -> str:
        """The command as a user types it."""
        return shlex.join(("hsfiq", *self.words)) + (" &" if self.serves else "")

    @property
    def process(self) -> list[str]:
        """The command as a process runs it."""
        return [sys.executable, "-m", "hsfiq", *self.words]


def loop_steps(folder: Path, port: int, seed: int, sizes: Sizes) -> list[Step]:
    """Return the steps, from training the systems to designing the follow-up study."""
    scorer, retrained = folder / "scorer", folder / "retrained"
    release, report = folder / "release", folder / REPORT
    database = ("--database", sqlite_url(folder / DATABASE_FILE))
    features = ("--cache", str(folder / FEATURE_FOLDER))
    images = ("--images", str(folder / IMAGE_FOLDER))
    drawn = ("--data", "drawn", "--limit", str(sizes.limit))
    participants = ("--participants", str(sizes.participants))
    return [
        *(train_system(name, folder, seed, sizes) for name in sizes.systems),
        *(session_steps(sizes.systems[-1], folder, seed, sizes) if sizes.systems else ()),
        Step(
            "Train a first scorer",
            "A scorer says how well an image fits a reference image and a text. This one is "
            "trained on triplets alone, without any human judgement.",
            (
                *("train", "cirqrs-fashioniq", *drawn, "--out", str(scorer), *features),
                *settings(f"seed={seed}", *sizes.training),
            ),
        ),
        Step(
            "Serve a study",
            "The systems rank a catalogue for queries on which neither they nor the scorer were "
            "trained; a question shows the retrieved sets of two of them. The server's output goes "
            f"to {folder / SERVER_LOG}.",
            (
                *("demo", "--simulated", *participants, "--dir", str(folder)),
                *(("--systems", str(folder / SYSTEMS)) if sizes.systems else ()),
                *("--port", str(port), "--seed", str(seed)),
            ),
            serves=True,
        ),
        Step(
            "Let annotators answer it",
            "Simulated annotators answer over HTTP, as browsers do: they look at the images, score "
            "both sets and prefer one. They judge by what the garments look like, with noise, "
            "and never by a scorer.",
            (
                *("simulate", address_of(port), *participants, "--speed", "0"),
                *("--seed", str(seed)),
            ),
            is_served=True,
        ),
        Step(
            "Export the answers as a release",
            "The server is stopped. Answers that are flagged irrelevant or contradict themselves "
            "are dropped, each with its reason. Half of the triplets are held out for testing.",
            (
                *("export", *database, "--study", STUDY),
                *("--release", "hp", "--filter-invalid", "--split", "triplet"),
                *("--split-seed", str(seed), "--test-share", "0.5", "--out", str(release)),
            ),
        ),
        Step(
            "Retrain the scorer on the answers",
            "It is trained on the preferred sets and the scores of the other half of the triplets; "
            "earlier triplets are mixed in, so that it does not forget them.",
            (
                *(
                    "train",
                    "preference",
                    "--release",
                    str(release),
                    "--checkpoint",
                    str(scorer),
                    *drawn,
                ),
                *("--out", str(retrained), *images, *features, *settings(*sizes.retraining)),
            ),
        ),
        Step(
            "Score the retrieved sets with the first scorer",
            "A set's score is the mean over its images. The scores become a metric called before.",
            (
                *("score", str(release), "--checkpoint", str(scorer), "--name", "before"),
                *(*images, *features),
            ),
        ),
        Step(
            "Score them with the retrained scorer",
            "The same sets; this metric is called after.",
            (
                *("score", str(release), "--checkpoint", str(retrained), "--name", "after"),
                *(*images, *features),
            ),
        ),
        Step(
            "Compare the metrics with the answers",
            "Recall@5 asks whether the one target is in the set. Does it agree with the "
            "annotators' scores, and do the scorers? Only held-out answers are used: neither "
            "scorer was trained on them.",
            (
                *("analyze", str(release), "--part", "test", "--report", str(report)),
                *(word for metric in METRICS for word in ("--metric", metric)),
            ),
        ),
        Step(
            "Design the study that would teach the scorer most",
            "And round again: a new study of pairs about which the retrained scorer is uncertain, "
            "equally many of each category and of each two systems. No pair was used before, and "
            "the held-out triplets stay held out.",
            (
                *("study", "next", "--checkpoint", str(retrained), "--n", str(sizes.next_pairs)),
                *(*images, "--study", STUDY, "--release", str(release), "--seed", str(seed)),
                *(*features, *database),
            ),
        ),
    ]


def train_system(name: str, folder: Path, seed: int, sizes: Sizes) -> Step:
    """The step that trains one retrieval system, in miniature."""
    is_first = name == sizes.systems[0]
    why = (
        "A retrieval system ranks images for a reference image and a text. This is a small version "
        "of a published one, trained for about a minute on fewer triplets than there are: the "
        "systems differ in their number, so that they also differ in quality. The small backbone "
        "that takes the place of CLIP, BLIP or BLIP-2 is pre-trained once."
    )
    return Step(
        f"Train the retrieval system {name}",
        why if is_first else "Another system, with its own losses and its own number of triplets.",
        (
            *("train", f"{name}-fashioniq", "--data", "drawn"),
            *("--out", str(folder / SYSTEMS / name), "--images", str(folder / "catalogue")),
            *("--cache", str(folder / FEATURE_FOLDER), *sizes.system_training),
            *settings(f"seed={seed}"),
        ),
    )


def session_steps(name: str, folder: Path, seed: int, sizes: Sizes) -> tuple[Step, Step]:
    """The steps in which a simulated user searches with one of the systems over several rounds."""
    sessions = str(folder / SESSIONS)
    return (
        Step(
            f"Search with {name} over three rounds",
            "One query is rarely the end of a search. A simulated user looks at the first image of "
            "each list, says how the target differs from it, and the system searches again. The "
            "queries are others than those of its training.",
            (
                *("sessions", "play", "--system", str(folder / SYSTEMS / name)),
                *("--data", "drawn", "--images", str(folder / "catalogue")),
                *("--cache", str(folder / FEATURE_FOLDER), "--limit", str(sizes.searches)),
                *("--simulator", "drawn-full", "--rounds", "3", "--seed", str(seed)),
                *("--out", sessions),
            ),
        ),
        Step(
            "Measure the searches",
            "Does the target come nearer from round to round? Hits@10 is the share of searches "
            "with the target among the first ten so far.",
            ("sessions", "measure", sessions, "--k", "1", "--k", "10"),
        ),
    )


def settings(*values: str) -> tuple[str, ...]:
    """Return the `--set` options for values of a recipe."""
    return tuple(word for value in values for word in ("--set", value))


def address_of(port: int) -> str:
    """Return the URL at which `hsfiq demo` serves the study."""
    return f"http://127.0.0.1:{port}"


# The last lines of `hsfiq demo --full`: the metrics' correlations, and the output files.

OUTPUTS = (
    ("hsfiq.db", "the study with all answers, and the follow-up study"),
    ("release", "the answers as a release"),
    ("release.scores", "the two scorers' scores of its sets"),
    ("systems", "the retrieval systems"),
    ("sessions.jsonl", "a simulated user's searches over three rounds"),
    ("scorer", "the first scorer"),
    ("retrained", "the retrained scorer"),
    (f"{REPORT}/report.html", "the report"),
)


def summarize(results: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the lines for a report's `results.json` and the demo's folder."""
    rhos = {name: results["metrics"][name]["spearman"] for name in METRICS}
    (before_after,) = (
        pair["spearman"]
        for pair in results["comparisons"]
        if (pair["metric"], pair["other"]) == ("before", "after")
    )
    n_sets, n_participants = rhos["after"]["n"], rhos["after"]["n_clusters"]
    return [
        "",
        "Results",
        f"Spearman's rho with the scores of {n_sets:,} held-out sets, and its 95% interval over",
        f"the {n_participants:,} simulated annotators who gave them:",
        *(f"  {name:<20}{figure(result, 'rho')}" for name, result in rhos.items()),
        f"  {'after minus before':<20}{figure(reverse(before_after), 'difference')}",
        "All answers are simulated annotators': nothing here says what people would answer.",
        "",
        f"Files in {folder}",
        *(f"  {name:<20}{content}" for name, content in OUTPUTS),
    ]


def figure(result: Mapping[str, Any], key: str) -> str:
    """Format a value with its interval; if either is undefined, give the reason."""
    value, (low, high), reason = result[key], result["ci"], result.get("reason")
    sign = "+" if key == "difference" else ""
    if value is None:
        return f"undefined: {reason}"
    if low is None or high is None:
        return f"{value:{sign}.3f}, its interval undefined: {reason}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def reverse(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a difference with the opposite sign."""
    value, (low, high) = result["difference"], result["ci"]
    return {
        **result,
        "difference": None if value is None else -value,
        "ci": [None if end is None else -end for end in (high, low)],
    }


LINE_WIDTH = 88
Write = Callable[[str], None]


class StepFailed(HsfiqError):
    """A command of the loop failed; the exit code is the command's."""

    def __init__(self, place: str, step: Step, exit_code: int) -> None:
        # As in a shell, a process that a signal has ended has the exit code 128 + signal.
        self.exit_code = exit_code if exit_code > 0 else 128 - exit_code
        command = shlex.join(("hsfiq", *step.words[:1]))
        super().__init__(
            f"`{command}` failed with exit code {self.exit_code}",
            where=f"step {place} ({step.title})",
        )


def run_loop(steps: Sequence[Step], folder: Path, port: int, write: Write, warn: Write) -> None:
    """Run the steps, stop the server in any case, and write a summary; `warn` prints errors.

    Raises:
        StepFailed: a command failed.
        KeyboardInterrupt: a signal was received.
    """
    with (
        Signals() as signals,
        Server(address_of(port), folder / SERVER_LOG, signals) as server,
    ):
        run_steps(steps, server, signals, write, warn)
    results = json.loads((folder / REPORT / "results.json").read_bytes())
    write("\n".join(summarize(results, folder)))


def run_steps(
    steps: Sequence[Step],
    server: Server,
    signals: Signals,
    write: Write,
    warn: Write,
    *,
    before: int = 0,
    after: int = 0,
) -> None:
    """Print and run the steps in their order, until one fails or a signal is received.

    `before` and `after` count the steps of the whole that come before these and after them.
    """
    for number, step in enumerate(steps, start=before + 1):
        place = f"{number} of {before + len(steps) + after}"
        if not step.is_served:
            server.stop()
        signals.heed()
        write(f"\n[{place}] {step.title}\n{wrap(step.why)}\n\n$ {step.command}")
        started = time.monotonic()
        if step.serves:
            start_server(step, place, server, warn)
            write(f"{server.address} answers")
        else:
            run_step(step, place, server, signals, warn)
        write(f"({time.monotonic() - started:.0f} s)")


def start_server(step: Step, place: str, server: Server, warn: Write) -> None:
    """Start the server and wait until it answers."""
    reason = server.start(step.process)
    if reason is not None:
        warn(reason)
        raise StepFailed(place, step, server.exit_code or 1)


def run_step(step: Step, place: str, server: Server, signals: Signals, warn: Write) -> None:
    exit_code = run_to_end(step.process, signals)
    if exit_code == 0:
        return
    if step.is_served and server.exit_code is not None:
        warn(server.output())
    raise StepFailed(place, step, exit_code)


def wrap(text: str) -> str:
    """Break the text into lines, but not within paths."""
    return fill(text, LINE_WIDTH, break_on_hyphens=False, break_long_words=False)
