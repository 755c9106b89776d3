"""`hsfiq demo --arena`: three retrieval systems in an arena on this machine."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hsfiq.cli.common import requires

if TYPE_CHECKING:
    from hsfiq.db.engine import Database


def run_arena(database: Database, folder: Path, port: int, seed: int, answers: int | None) -> None:
    """Train the systems that are not trained yet, and serve the arena until Ctrl-C."""
    require_packages()
    from hsfiq.demo.arena import ArenaRun, ArenaSizes

    # The systems are small: more threads make them slower where other programs run.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warn = partial(typer.echo, err=True)
    ArenaRun(database, folder, port, seed, answers, ArenaSizes(), typer.echo, warn).run()


def require_packages() -> None:
    """Report an extra that is missing before the trainings."""
    with requires("model"):
        for package in ("torch", "safetensors"):
            import_module(package)
    with requires("analysis"):
        import_module("hsfiq.analysis.kinds.arena")
    with requires("annotate"):
        import_module("hsfiq.annotate.app")
