"""The steps of `hsfiq demo --full`: commands, each with its explanation."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from hsfiq.demo.folder import DATABASE_FILE, FEATURE_FOLDER, IMAGE_FOLDER, sqlite_url

STUDY = "drawn"
METRICS = ("recall@5", "before", "after")
"""The analysed metrics; `before` and `after` are the scores of the two scorers."""

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
                *("study", "next", "--scorer", str(retrained), "--n", str(sizes.next_pairs)),
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
