"""A small `hsfiq demo --arena` in a process of its own, whose commands fork from it."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import typer

from hsfiq.db.engine import open_database
from hsfiq.demo import loop
from hsfiq.demo.arena import ArenaRun, ArenaSizes
from hsfiq.demo.study import database_url
from tests.whole_loop.small_loop import fork_step

SIZES = ArenaSizes(
    systems=(("first", "clip4cir"), ("second", "sprc"), ("third", "covr-blip")), queries=2
)
SEED = 1


def run_small_arena() -> None:
    """Run it in a folder, from a port on, with answers if a number of them is given."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    answers = int(sys.argv[3]) if sys.argv[3:] else None
    forking = SimpleNamespace(Popen=fork_step, TimeoutExpired=subprocess.TimeoutExpired)
    with (
        patch("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 16),
        patch.object(loop, "subprocess", forking),
        patch.object(loop, "START_SECONDS", 1e6),
        patch.object(loop, "PAGE_SECONDS", 1e6),
    ):
        arena_of(folder, port, answers).run()


def arena_of(folder: Path, port: int, answers: int | None) -> ArenaRun:
    folder.mkdir(exist_ok=True)
    database = open_database(database_url(folder))
    warn = partial(typer.echo, err=True)
    return ArenaRun(database, folder, port, SEED, answers, SIZES, typer.echo, warn)
