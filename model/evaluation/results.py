"""A system's figures as they are handed on, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hsfiq.model.evaluation.benchmark import Benchmark

SEMANTIC = "semantic_map@10"
NO_SIZE = "the folder does not hold the list of the candidates"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, as a fraction; None where it is not defined, for a reason."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PartFigures:
    """One part's figures by name; `aspects` are CIRCO's semantic mAP@10.

    `corpus_size` is None where the folder does not list the candidates; `n_missing` more could
    not be ranked.
    """

    name: str
    n_queries: int
    corpus: str
    corpus_size: int | None
    figures: dict[str, Figure]
    aspects: dict[str, Figure]
    n_missing: int = 0

    def to_json(self) -> dict[str, Any]:
        """The figures with what they are of, an undefined one null with its reason."""
        result: dict[str, Any] = {
            "n_queries": self.n_queries,
            "corpus": {"name": self.corpus, "size": self.corpus_size},
        }
        if self.n_missing:
            result["corpus"]["missing"] = self.n_missing
        result |= {name: figure.value for name, figure in self.figures.items()}
        if self.aspects:
            result[SEMANTIC] = {name: figure.value for name, figure in self.aspects.items()}
        named = self.figures | {f"{SEMANTIC}.{name}": it for name, it in self.aspects.items()}
        reasons = {name: figure.reason for name, figure in named.items() if figure.reason}
        if self.corpus_size is None:
            reasons["corpus.size"] = NO_SIZE
        return result | ({"reason": reasons} if reasons else {})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A system's figures on a benchmark.

    Attributes:
        benchmark: what was asked.
        whole: the only part's figures, or the mean of several.
        parts: those of each part.
        n_missing: queries that the system did not answer, which count as misses.
        n_missing_subset: the same of CIRR's image sets, where they were ranked apart.
        notes: what a reader of the figures has to know.
    """

    benchmark: Benchmark
    whole: PartFigures
    parts: tuple[PartFigures, ...]
    n_missing: int
    n_missing_subset: int
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The evaluation as a JSON value; several parts stand below `categories`."""
        result: dict[str, Any] = {"benchmark": self.benchmark.name, "split": self.benchmark.split}
        if self.benchmark.captions is not None:
            result["captions"] = self.benchmark.captions
        result |= self.whole.to_json()
        if self.n_missing or self.n_missing_subset:
            result["missing"] = {"queries": self.n_missing}
        if self.n_missing_subset:
            result["missing"]["subset_queries"] = self.n_missing_subset
        result["notes"] = list(self.notes)
        if len(self.parts) > 1:
            result["categories"] = {part.name: part.to_json() for part in self.parts}
        return result
