"""Whether it pays to ask what a scorer is unsure of: `loop-learns` with a second study.

After the first answers, `hsfiq study next` makes two studies of equally many pairs, in copies of
the database: one by information, one at random. Simulated annotators answer each over HTTP, and the
scorer is retrained on either's release. Both are held against the same held-out answers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.browsing import free_port
from benchmarks.held_out import Held, agreement_of, difference_of, measured
from benchmarks.serving import Place, Server
from hsfiq.demo.study import NAME

STRATEGIES = ("information", "random")
METRICS = ("recall@5", "before", *STRATEGIES)
NEXT = f"{NAME}-2"
"""The study after the first."""

Retrain = Callable[[Path, str], None]
"""Retrains on a release, and scores the held-out part under a name."""


def asked(
    folder: Path,
    command: partial[str],
    whole: Path,
    first: Path,
    scorer: Path,
    n: int,
    seed: int,
    retrain: Retrain,
) -> Held:
    """Ask n more pairs in both ways, retrain on either's answers, and measure what is held out.

    Args:
        folder: with the first study in `study`.
        command: runs a command there.
        whole: the release whose held-out triplets are left alone.
        first: the same with the answers that `scorer` was retrained on, and the scores `before`.
        scorer: the checkpoint that says what it is unsure of.
        n: pairs, and answers.
        seed: of choice and annotators.
        retrain: from that checkpoint.
    """
    for strategy in STRATEGIES:
        place = copy_of_database(folder / "study", folder / strategy)
        made = command(
            "study", "next", "--n", str(n), "--strategy", strategy, "--scorer", str(scorer),
            "--study", NAME, "--release", str(whole), "--seed", str(seed), "--json",
            "--database", place.url,
        )  # fmt: skip
        people = json.loads(made)["forms"]  # more than there is room for: the last are turned away
        answer_all(command, place, people, seed)
        release = place.folder / "hp"
        command("export", "--study", NEXT, "--release", "hp", "--out", str(release),
                "--database", place.url)  # fmt: skip
        retrain(release, strategy)
    return measured(first, METRICS)


def copy_of_database(study: Path, folder: Path) -> Place:
    """A copy of a study's database, its images left where they are."""
    folder.mkdir()
    shutil.copyfile(study / "hsfiq.db", folder / "hsfiq.db")
    return Place(folder)


def answer_all(command: partial[str], place: Place, people: int, seed: int) -> None:
    """Serve the study, and let simulated annotators answer it."""
    server = Server(place, free_port())
    server.start()
    try:
        command("simulate", f"http://127.0.0.1:{server.port}", "--participants", str(people),
                "--at-once", "4", "--speed", "0", "--seed", str(seed))  # fmt: skip
    finally:
        server.kill()


def comparison(found: Sequence[Held], first: int, n: int) -> dict[str, Any]:
    """The case of the result: both ways of asking, and by how much they differ."""
    return {
        "answers": n,
        "after_answers": first,
        "seeds": len(found),
        **{name: agreement_of(found, name) for name in METRICS},
        "difference": difference_of(found, *STRATEGIES),
    }
