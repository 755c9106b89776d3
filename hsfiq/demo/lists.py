"""Where the demo's ranked lists come from.

The study that `hsfiq demo` serves compares the five retrieval systems: `system_lists.json` holds
their sets for its queries, with each system's recipe and checkpoint, as `python -m
benchmarks.demo_lists` writes them. Other seeds, splits and sizes have other queries; there, four
rules of known quality (`hsfiq.drawn.systems`) rank, or trained systems (`--systems`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from hsfiq.drawn import SYSTEMS, DrawnTriplet, Garment, corpus
from hsfiq.ids import REVERSED
from hsfiq.records import RankedList

FILE = "system_lists.json"


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A triplet of the catalogue, with its captions in one of the two orders."""

    triplet: DrawnTriplet
    is_reversed: bool

    @property
    def query_id(self) -> str:
        return self.triplet.external_id + (REVERSED if self.is_reversed else "")


Rank = Callable[[Sequence[Garment], Sequence[DrawnQuery]], list[RankedList]]
"""Gives every system's list for each query, from the garments of its category."""


def shipped_or_ruled(seed: int) -> Rank:
    """The five systems' sets if the queries are those of the file, else the rules' lists."""

    def rank(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> list[RankedList]:
        shipped = read_shipped()
        if shipped["queries_sha256"] == queries_sha256(garments, queries):
            return shipped_lists(shipped)
        return ruled_lists(garments, queries, seed)

    return rank


def read_shipped() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_bytes())
    return content


def shipped_lists(shipped: dict[str, Any]) -> list[RankedList]:
    names = [system["recipe"]["system"] for system in shipped["systems"]]
    return [
        RankedList(query_id, name, tuple(images))
        for query_id, sets in shipped["sets"].items()
        for name, images in zip(names, sets, strict=True)
    ]


def queries_sha256(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> str:
    """Identifies the catalogue and the queries with their texts."""
    content = [
        [garment.image_id for garment in garments],
        [
            [
                query.query_id,
                query.triplet.reference.image_id,
                query.triplet.target.image_id,
                *query.triplet.captions,
            ]
            for query in queries
        ],
    ]
    return sha256(json.dumps(content).encode()).hexdigest()


def ruled_lists(
    garments: Sequence[Garment], queries: Sequence[DrawnQuery], seed: int
) -> list[RankedList]:
    """The lists of the four systems that follow rules."""
    categories = {query.triplet.category for query in queries}
    candidates = {category: corpus(garments, category) for category in categories}
    return [
        system.rank(
            query.triplet, candidates[query.triplet.category], seed, query_id=query.query_id
        )
        for query in queries
        for system in SYSTEMS
    ]
