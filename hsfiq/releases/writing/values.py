"""Columns that have the same few values again and again: each value is written as JSON once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from hsfiq.releases.writing.json_lines import NULL, Array, as_json


class Values:
    """The values, as an Arrow array, and as JSON texts."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @cached_property
    def json(self) -> Array:
        return as_json(self.array)


@dataclass(frozen=True, slots=True)
class ByPlace:
    """A column: for each row the place of its value, null for null."""

    values: Values
    places: Array

    @property
    def array(self) -> Array:
        return pc.take(self.values.array, self.places)

    @property
    def json(self) -> Array:
        return pc.fill_null(pc.take(self.values.json, self.places), NULL)

    def to_pylist(self) -> list[Any]:
        values = self.values.array.to_pylist()
        return [None if place is None else values[place] for place in self.places.to_pylist()]

    def slice(self, start: int, length: int) -> ByPlace:
        return ByPlace(self.values, self.places.slice(start, length))

    def taken(self, places: Array) -> ByPlace:
        return ByPlace(self.values, pc.take(self.places, places))


Column = Sequence[Any] | Array | ByPlace
"""A column to write: Python's values, an Arrow array, or the places of values."""


def encoded(values: Array) -> tuple[list[Any], Array]:
    """The distinct values, without null, and for each row the place of its value among them."""
    dictionary = values.dictionary_encode()
    return dictionary.dictionary.to_pylist(), dictionary.indices
