"""Arenas under kill -9: as `soak-sessions`, with two retrievers that are asked at the same time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.searching import RetrieverProcess
from benchmarks.serving import Place
from benchmarks.soak_sessions import soak

KILLS, FULL_KILLS = 6, 18


def run(seed: int, full: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        retrievers = [RetrieverProcess(seed), RetrieverProcess(seed + 1)]
        result = soak(Place(Path(name)), FULL_KILLS if full else KILLS, seed, retrievers)
    return result | {"name": "soak-arena"}
