"""Columns that have the same few values again and again: each value is written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.releases.writing.json_lines import NULL, Array, as_json


class Values:
    """The values, as an Arrow array, and as JSON texts; no text comes twice."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @cached_property
    def with_dictionary(self) -> Array:
        """Lists of texts, whose texts have a dictionary."""
        return dictionary_encoded(self.array)

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
    def with_dictionary(self) -> Array:
        """Texts, or lists of them, with a dictionary of those that there are, the first one first.

        Parquet files have it as it is, so it must not have values of other rows.
        """
        if not pa.types.is_list(self.values.array.type):
            return with_used(pa.DictionaryArray.from_arrays(self.places, self.values.array))
        lists: Array = pc.take(self.values.with_dictionary, self.places)
        return list_array(lists, with_used(lists.values))

    @property
    def json(self) -> Array | str:
        """The column as JSON; a text if it has the same value in all rows."""
        if self.places.null_count == len(self.places):
            return NULL
        if len(self.values.json) == 1 and not self.places.null_count:
            return str(self.values.json[0])
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


def distinct(values: Array) -> ByPlace:
    """A column by its different values."""
    dictionary = values.dictionary_encode()
    return ByPlace(Values(dictionary.dictionary), dictionary.indices)


def dictionary_encoded(values: Array) -> Array:
    """Texts, or lists of them, with a dictionary."""
    if pa.types.is_list(values.type):
        return list_array(values, values.values.dictionary_encode())
    return values.dictionary_encode()


def list_array(lists: Array, values: Array) -> Array:
    """The lists with other values."""
    return pa.ListArray.from_arrays(lists.offsets, values, mask=lists.is_null())


def with_used(values: Array) -> Array:
    """Values with a dictionary that has no others."""
    places = values.indices.dictionary_encode()
    used = pc.take(values.dictionary, places.dictionary)
    return pa.DictionaryArray.from_arrays(places.indices, used)


def encoded(values: Array) -> tuple[list[Any], Array]:
    """The distinct values, without null, and for each row the place of its value among them."""
    dictionary = values.dictionary_encode()
    return dictionary.dictionary.to_pylist(), dictionary.indices
