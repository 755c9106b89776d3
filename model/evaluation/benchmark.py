"""What a benchmark asks, and of which candidates, whoever answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BenchmarkName = Literal["fashioniq", "cirr", "circo", "drawn"]
CaptionOrder = Literal["forward", "reversed", "both"]
"""How FashionIQ's two captions are joined: in order, the other way round, or a query for each."""

TITLES: dict[BenchmarkName, str] = {
    "fashioniq": "FashionIQ",
    "cirr": "CIRR",
    "circo": "CIRCO",
    "drawn": "the drawn catalogue",
}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a benchmark with what counts as found.

    Attributes:
        query_id: the outside id, by which a run answers it.
        reference: the reference image.
        text: as the benchmark asks it, not yet normalised for an encoder.
        target: None where the dataset withholds it.
        subset: CIRR: the other five members of the image set, in the file's order.
        truths: CIRCO: every image that answers the query, the target first.
        aspects: CIRCO: the semantic aspects of the text.
    """

    query_id: str
    reference: str
    text: str
    target: str | None
    subset: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """The candidates, each once; `images` is None where the folder does not hold their list.

    `left_out` are images of the same split that are no candidates. A list made over the whole
    split may name them: without them it is the list over this corpus. `n_missing` more would be
    candidates, but a scorer could not rank them, because their files are missing.
    """

    name: str
    images: tuple[str, ...] | None
    left_out: tuple[str, ...] = ()
    n_missing: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Queries that share a corpus: a category of FashionIQ, the whole of CIRR or CIRCO."""

    name: str
    queries: tuple[Query, ...]
    corpus: Corpus


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark's split.

    Attributes:
        name: which one.
        split: `val`, `test`, ...
        parts: one or more; a figure over several is the mean over them.
        keeps_reference: whether the reference image is a candidate (CIRR takes it out).
        captions: FashionIQ: their order.
    """

    name: BenchmarkName
    split: str
    parts: tuple[Part, ...]
    keeps_reference: bool
    captions: CaptionOrder | None = None

    @property
    def withholds_targets(self) -> bool:
        """Whether figures can only come from the benchmark's server."""
        return any(query.target is None for part in self.parts for query in part.queries)


@dataclass(frozen=True, slots=True)
class Answers:
    """The ranked lists that one system gives to a part's queries, best first, by query id.

    They hold candidates only (on CIRR not the reference), each once. `subset` are CIRR's rankings
    of the image set alone, where they were made apart; empty where they were not. A query that is
    missing among lists is one that the system did not answer.
    """

    lists: dict[str, tuple[str, ...]]
    subset: dict[str, tuple[str, ...]]
