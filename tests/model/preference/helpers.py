"""A small release with a split, a scorer to start from, and helpers for retraining tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.demo.study import database_url
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.data import TrainingData
from hsfiq.model.preference.retrain import retrain
from hsfiq.model.preference.training import Settings
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from tests.model.scorer.helpers import ONE_PROCESS, Drawn, hsfiq, options

QUICK = replace(Settings.for_encoder("tiny"), epochs=2, batch=16, lr=1e-3, folds=0)


@dataclass(frozen=True)
class Answered:
    """A release of 150 answers, a third held out, its pictures, a scorer, and a cache."""

    release: Path
    pictures: Path
    init: Path
    cache: Path

    @property
    def paths(self) -> ScorerPaths:
        return ScorerPaths(self.init, self.pictures, cache=self.cache)

    def retrain(
        self,
        out: Path,
        settings: Settings = QUICK,
        *,
        release: Path | None = None,
        data: TrainingData | None = None,
    ) -> Checkpoint:
        return retrain(
            release or self.release, out, self.paths, settings, data, ONE_PROCESS, Callback()
        )


def make_answered(folder: Path, drawn: Drawn) -> Answered:
    """Simulate, export with a split, and train a scorer to start from."""
    assert hsfiq("demo", "--answers", "150", "--dir", folder / "demo").code == 0
    release = folder / "hp"
    command = hsfiq(
        "export", "--database", database_url(folder / "demo"), "--release", "hp",
        "--out", release, "--split", "triplet", "--test-share", "0.33",
    )  # fmt: skip
    assert command.code == 0
    brief = ("--set", "epochs=2", "--set", "n_def=1")
    assert hsfiq(*options(drawn, folder / "init", *brief)).code == 0
    return Answered(release, folder / "demo" / "images", folder / "init", drawn.cache)


def report_of(out: Path) -> Any:
    """The report that a retraining wrote into its folder."""
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def rows(release: Path, table: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = pq.read_table(release / f"{table}.parquet").to_pylist()
    return entries


def rewrite(release: Path, table: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change every row of a table in place."""
    path = release / f"{table}.parquet"
    schema, entries = pq.read_schema(path), rows(release, table)
    for row in entries:
        change(row)
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), path)


def retrain_shared(
    distributed: Distributed,
    answered: Answered,
    settings: Settings,
    data: TrainingData | None,
    out: Path,
) -> None:
    """One process's part of a retraining."""
    retrain(answered.release, out, answered.paths, settings, data, distributed, Callback())
