"""A trained scorer, a simulated release, and the scores of one for the other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.model.scorer.helpers import CommandResult, hsfiq

NAMES = ("cirqrs.images.parquet", "cirqrs.parquet", "cirqrs.json")


@dataclass(frozen=True)
class Loop:
    """A scorer, another one, a release of fifty answers, its pictures, and a cache."""

    run: Path
    other: Path
    release: Path
    pictures: Path
    cache: Path

    @property
    def sets(self) -> dict[str, tuple[str, str, list[str]]]:
        """Reference, text and images by set, as the release's JSON lines have them."""
        queries = {row["query_id"]: row for row in lines(self.release / "queries.jsonl")}
        return {
            row["set_id"]: (
                queries[row["query_id"]]["reference_id"],
                queries[row["query_id"]]["text"],
                row["image_ids"],
            )
            for row in lines(self.release / "sets.jsonl")
        }

    @property
    def wanted(self) -> set[str]:
        return {name for reference, _, names in self.sets.values() for name in (reference, *names)}


def score(
    loop: Loop, release: Path, *options: str | Path, scorer: Path | None = None
) -> CommandResult:
    return hsfiq(
        "score", release, "--checkpoint", scorer or loop.run, "--cache", loop.cache, *options,
    )  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def set_scores(folder: Path, name: str = "cirqrs") -> dict[str, float]:
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return {row["set_id"]: row["score"] for row in rows}


def about(folder: Path, name: str = "cirqrs") -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def assert_refused(command: CommandResult, message: str, code: int = 2) -> None:
    """Check for one error line, this exit code, and an empty stdout."""
    assert (command.code, command.out) == (code, "")
    assert len(command.err.splitlines()) == 1
    assert command.err.startswith("hsfiq: ")
    assert message in command.err


def ask(release: Path, text: str) -> None:
    """Give every query this text."""
    table = pq.read_table(release / "queries.parquet")
    texts = pa.array([text] * len(table), table["text"].type)
    place = table.schema.get_field_index("text")
    table = table.set_column(place, table.schema.field("text"), texts)
    pq.write_table(table, release / "queries.parquet")
