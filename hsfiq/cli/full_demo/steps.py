"""The commands of `hsfiq demo --full`, and what is told of each."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from hsfiq.cli.serve import HOST
from hsfiq.demo import DATABASE_FILE, IMAGE_FOLDER, NAME, sqlite_url

METRICS = ("recall@5", "before", "after")
"""What is held against the answers; the last two are the scorers' scores."""

REPORT, SERVER_LOG = "report", "server.log"
"""Where the report is written, and what the server prints."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run.

    Attributes:
        participants: simulated annotators, of 20 questions each.
        limit: triplets that the scorer is first trained on, about; mixed in when it is retrained.
        training: values of the first training's recipe, as KEY=VALUE.
        retraining: values of the recipe `preference`.
        ask: pairs of the study that comes next.
    """

    participants: int
    limit: int
    training: tuple[str, ...]
    retraining: tuple[str, ...]
    ask: int


STANDARD = Sizes(
    participants=48, limit=6000, training=("epochs=10",), retraining=("mix=3",), ask=240
)
"""Some minutes on two cores, and answers enough for an interval that says something."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the loop, and what is told of it.

    Attributes:
        title: what happens.
        why: a sentence or two on what it does and what for.
        words: of the command, without `hsfiq`.
        serves: whether it is a server, which the steps after it are served by.
        is_served: whether it needs that server; it is stopped before the first step that does not.
    """

    title: str
    why: str
    words: tuple[str, ...]
    serves: bool = False
    is_served: bool = False

    @property
    def command(self) -> str:
        """As it is typed."""
        return shlex.join(("hsfiq", *self.words)) + (" &" if self.serves else "")

    @property
    def process(self) -> list[str]:
        """As it is run."""
        return [sys.executable, "-m", "hsfiq", *self.words]


def whole_loop(folder: Path, port: int, seed: int, sizes: Sizes) -> list[Step]:
    """The commands, from the first scorer to the study that comes after its retraining."""
    scorer, retrained = folder / "scorer", folder / "retrained"
    release, report = folder / "release", folder / REPORT
    database = ("--database", sqlite_url(folder / DATABASE_FILE))
    features = ("--cache", str(folder / "features"))
    images = ("--images", str(folder / IMAGE_FOLDER))
    drawn = ("--data", "drawn", "--limit", str(sizes.limit))
    people = ("--participants", str(sizes.participants))
    return [
        Step(
            "Train a first scorer",
            "A scorer says how well an image fits a reference image and a text. This one learns it "
            "from triplets alone; what people would say, nobody has told it yet.",
            (
                *("train", "cirqrs-fashioniq", *drawn, "--out", str(scorer), *features),
                *settings(f"seed={seed}", *sizes.training),
            ),
        ),
        Step(
            "Serve a study",
            "Four systems of different quality have answered queries that the scorer was not "
            "trained on; a question shows the retrieved sets of two of them. What the server "
            f"prints goes to {folder / SERVER_LOG}.",
            (
                *("demo", "--simulated", *people, "--dir", str(folder), "--port", str(port)),
                *("--seed", str(seed)),
            ),
            serves=True,
        ),
        Step(
            "Let annotators answer it",
            "Simulated annotators come over HTTP, as browsers do: they look at the images, score "
            "both sets and prefer one. Their taste goes by what garments look like, with noise, "
            "and never by a scorer.",
            (
                *("simulate", address_of(port), *people, "--speed", "0"),
                *("--seed", str(seed)),
            ),
            is_served=True,
        ),
        Step(
            "Export the answers as a release",
            "The server is stopped. Answers that are flagged irrelevant or contradict themselves "
            "are dropped, each with its reason. Half of the triplets are held out, to test on.",
            (
                *("export", *database, "--study", NAME),
                *("--release", "hp", "--filter-invalid", "--split", "triplet"),
                *("--split-seed", str(seed), "--test-share", "0.5", "--out", str(release)),
            ),
        ),
        Step(
            "Retrain the scorer on the answers",
            "It learns which set was preferred and how both were scored, from the other half of "
            "the triplets; triplets as before are mixed in, so that it forgets nothing.",
            (
                *("train", "preference", "--release", str(release), "--init", str(scorer), *drawn),
                *("--out", str(retrained), *images, *features, *settings(*sizes.retraining)),
            ),
        ),
        Step(
            "Score the retrieved sets with the first scorer",
            "A set's score is the mean over its images. The scores become a metric called before.",
            (
                *("score", str(release), "--scorer", str(scorer), "--name", "before"),
                *(*images, *features),
            ),
        ),
        Step(
            "Score them with the retrained scorer",
            "The same sets; this metric is called after.",
            (
                *("score", str(release), "--scorer", str(retrained), "--name", "after"),
                *(*images, *features),
            ),
        ),
        Step(
            "Hold the metrics against the answers",
            "Recall@5 asks whether the one target is in the set. Does it go with the scores that "
            "the annotators gave, and do the scorers? Held-out answers alone are asked: neither "
            "scorer has learned from them.",
            (
                *("analyze", str(release), "--part", "test", "--report", str(report)),
                *(word for metric in METRICS for word in ("--metric", metric)),
            ),
        ),
        Step(
            "Ask what would teach it most",
            "And round again: a new study of the pairs that the retrained scorer is unsure of, as "
            "many of each category and of each two systems; none was asked before, and the "
            "held-out triplets stay held out.",
            (
                *("study", "next", "--scorer", str(retrained), "--n", str(sizes.ask), *images),
                *("--study", NAME, "--release", str(release), "--seed", str(seed), *features),
                *database,
            ),
        ),
    ]


def settings(*values: str) -> tuple[str, ...]:
    """The options that set these values of a recipe."""
    return tuple(word for value in values for word in ("--set", value))


def address_of(port: int) -> str:
    """Where the study is served."""
    return f"http://{HOST}:{port}"
