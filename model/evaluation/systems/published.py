"""Published figures of systems, and whether a benchmark's data are those that they are of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hsfiq.model.evaluation.benchmarks import PUBLISHED, TITLES, Benchmark, size


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a paper's table.

    Attributes:
        source: the paper and its table.
        figures: by column (see `systems.columns`), as fractions.
        slips: columns whose printed figure contradicts the others of the row.
    """

    source: str
    system: str
    figures: dict[str, float]
    slips: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"source": self.source, "system": self.system}
        row["figures"] = self.figures
        return row | ({"slips": list(self.slips)} if self.slips else {})


@cache
def contents() -> dict[str, Any]:
    path = files("hsfiq.model.evaluation.systems") / "published.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def why_incomparable(benchmark: Benchmark) -> str | None:
    """Why no published figure is of these data; None if some are."""
    tables = [table for table in contents()["tables"] if table["benchmark"] == benchmark.name]
    if not tables:
        return f"no table of the papers is of {TITLES[benchmark.name]}"
    splits = {table["split"]: None for table in tables}
    if benchmark.split not in splits:
        sources = " and ".join(table["source"] for table in tables)
        return f"the split of {sources} is {' or '.join(splits)}, this is {benchmark.split}"
    is_of_split = all(
        part.corpus.name == "split" and not part.corpus.n_missing for part in benchmark.parts
    )
    reasons = {
        "they are of all queries": benchmark.subset is None,
        "they are of the captions in order": benchmark.captions in (None, "forward"),
        "they are over the images of the split files": is_of_split,
        "they are of other numbers of triplets and images": has_published_sizes(benchmark),
    }
    return next((reason for reason, is_met in reasons.items() if not is_met), None)


def has_published_sizes(benchmark: Benchmark) -> bool:
    """Whether all parts are there, each with its published numbers of triplets and images."""
    is_cirr = benchmark.name == "cirr"
    expected = {
        name: sizes
        for (name, split), sizes in PUBLISHED.items()
        if split == benchmark.split and (name == "cirr") == is_cirr
    }
    return {part.name: size(part) for part in benchmark.parts} == expected


def published_rows(benchmark: Benchmark, systems: Iterable[str]) -> list[PublishedRow]:
    """The published rows of systems with these names; none if the data are others."""
    if why_incomparable(benchmark) is not None:
        return []
    wanted = {simplified(system) for system in systems}
    return [
        row
        for table in contents()["tables"]
        if (table["benchmark"], table["split"]) == (benchmark.name, benchmark.split)
        for row in rows_of(table)
        if simplified(row.system) in wanted
    ]


def rows_of(table: dict[str, Any]) -> list[PublishedRow]:
    slips = [slip.split(": ") for slip in table.get("slips", [])]
    return [
        PublishedRow(
            table["source"],
            system,
            {name: value / 100 for name, value in zip(table["columns"], values, strict=True)},
            tuple(column for other, column in slips if other == system),
        )
        for system, values in table["rows"].items()
    ]


def published_rates(n_questions: int, systems: Sequence[str]) -> list[PublishedRow]:
    """The published preference rates that are of so many questions."""
    wanted = {simplified(system) for system in systems}
    return [
        PublishedRow(table["source"], system, {table["rule"]: value / 100})
        for table in contents()["preferences"]
        if table["n_questions"] == n_questions
        for system, value in table["rows"].items()
        if simplified(system) in wanted
    ]


def simplified(system: str) -> str:
    """A name without case and punctuation: `CLIP4Cir` is `clip4cir`."""
    return "".join(character for character in system.lower() if character.isalnum())
