"""Follow-up studies chosen by information and at random: the last part of `loop-learns`.

After the first answers, `hsfiq study next` makes two studies of equally many pairs, in copies of
the database: one by information, one at random. Simulated annotators answer each over HTTP, and the
scorer is retrained on either's release. Both are compared on the same held-out answers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.browsing import free_port
from benchmarks.held_out import HeldOut, mean_agreement, mean_difference, measure_held_out
from benchmarks.serving import Place, Server
from hsfiq.demo.study import NAME

STRATEGIES = ("information", "random")
METRICS = ("recall@5", "before", *STRATEGIES)
NEXT = f"{NAME}-2"
"""The follow-up study."""

Retrain = Callable[[Path, str], None]
"""Retrains on a release, and scores the held-out part under a name."""


def compare_follow_ups(
    folder: Path,
    command: partial[str],
    whole_release: Path,
    first: Path,
    scorer: Path,
    n: int,
    seed: int,
    retrain: Retrain,
) -> HeldOut:
    """Make both studies, retrain on the answers of each, and measure on the held-out part.

    Args:
        folder: with the first study in `study`.
        command: runs a command there.
        whole_release: the release whose held-out triplets stay held out.
        first: its copy with the answers that `scorer` was retrained on, and the scores `before`.
        scorer: the checkpoint whose uncertainty counts.
        n: pairs, and answers, of each study.
        seed: of the choice and of the annotators.
        retrain: retrains that checkpoint.
    """
    for strategy in STRATEGIES:
        place = copy_of_database(folder / "study", folder / strategy)
        created = command(
            "study", "next", "--n", str(n), "--strategy", strategy, "--checkpoint", str(scorer),
            "--study", NAME, "--release", str(whole_release), "--seed", str(seed), "--json",
            "--database", place.url,
        )  # fmt: skip
        n_forms = json.loads(created)["forms"]  # at least as many as participants can enrol
        answer_all(command, place, n_forms, seed)
        release = place.folder / "hp"
        command("export", "--study", NEXT, "--release", "hp", "--out", str(release),
                "--database", place.url)  # fmt: skip
        retrain(release, strategy)
    return measure_held_out(first, METRICS)


def copy_of_database(study: Path, folder: Path) -> Place:
    """Copy a study's database, but not its images."""
    folder.mkdir()
    shutil.copyfile(study / "hsfiq.db", folder / "hsfiq.db")
    return Place(folder)


def answer_all(command: partial[str], place: Place, participants: int, seed: int) -> None:
    """Serve the study, and let simulated annotators answer it."""
    server = Server(place, free_port())
    server.start()
    try:
        command("simulate", f"http://127.0.0.1:{server.port}", "--participants", str(participants),
                "--at-once", "4", "--speed", "0", "--seed", str(seed))  # fmt: skip
    finally:
        server.kill()


def summarize(by_seed: Sequence[HeldOut], first: int, n: int) -> dict[str, Any]:
    """Return the result: the agreement of each strategy, and the difference."""
    return {
        "answers": n,
        "after_answers": first,
        "seeds": len(by_seed),
        **{name: mean_agreement(by_seed, name) for name in METRICS},
        "difference": mean_difference(by_seed, *STRATEGIES),
    }
