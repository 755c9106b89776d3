"""Columns as Arrow: from rows, from the database, and with repeated values written once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
FLAG = pa.bool_()
POINTS, WHOLE, WHOLES = pa.int8(), pa.int32(), pa.list_(pa.int32())
NUMBER, NUMBERS = pa.float64(), pa.list_(pa.float64())
TIME = pa.timestamp("us", tz="UTC")
CONTENT = pa.binary()

ARROW_TYPES: dict[str, pa.DataType] = {
    "text": TEXT,
    "texts": TEXTS,
    "flag": FLAG,
    "points": POINTS,
    "whole": WHOLE,
    "wholes": WHOLES,
    "number": NUMBER,
    "numbers": NUMBERS,
    "time": TIME,
    "content": CONTENT,
}
"""By the types of columns in `hsfiq.kinds.tables`."""

# Arrow tables as JSON lines, a column at a time.
#
# The lines are those of `json.dumps(row, ensure_ascii=False)` with times in ISO 8601, as Python
# writes them. Putting them together in Arrow takes a fraction of the time.

Array = Any
"""An Arrow array; the types of Arrow's functions are not told apart further."""
NULL = "null"
_ESCAPED = b'"\\' + bytes(range(0x20))
"""The characters that JSON must escape."""
_LEAST, _MOST, _ZERO = pa.scalar(1e-4), pa.scalar(1e9), pa.scalar(0.0)
"""Arrow writes zeros and floats between these sizes as Python does, but whole ones without `.0`."""


def json_lines(table: pa.Table, written: Mapping[str, Array | str] | None = None) -> pa.Buffer:
    """The rows of a table, each as an object in a line, in UTF-8.

    `written` has columns that are JSON texts already, by name; a text is that of all rows.
    """
    written = written or {}
    pieces: list[Array | str] = ["{"]
    for place, name in enumerate(table.column_names):
        pieces.append(f"{', ' if place else ''}{json.dumps(name, ensure_ascii=False)}: ")
        pieces += [written[name]] if name in written else json_pieces(combined(table[name]))
    pieces.append("}\n")
    if all(isinstance(piece, str) for piece in pieces):
        lines: Array = pa.repeat("".join(pieces), table.num_rows)
    else:
        lines = joined(*pieces)
    n_bytes = pc.sum(pc.binary_length(lines)).as_py() or 0
    return lines.buffers()[2].slice(0, n_bytes) if n_bytes else pa.py_buffer(b"")


def combined(column: pa.ChunkedArray[Any]) -> Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def joined(*pieces: Array | str) -> Array:
    """The pieces of each row one after the other; a text is the same in all rows."""
    merged: list[Array | str] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    scalars = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in merged]
    return pc.binary_join_element_wise(*scalars, pa.scalar(""))


def json_pieces(values: Array) -> list[Array | str]:
    """What is joined to each value as JSON; what all values have are pieces of their own."""
    if values.null_count == len(values):
        return [NULL]
    if pa.types.is_timestamp(values.type) and not values.null_count:
        return time_pieces(values)
    if pa.types.is_string(values.type) and not values.null_count and is_plain(values):
        return ['"', values, '"']
    return [as_json(values)]


def as_json(values: Array) -> Array:
    """Each value as JSON, null as `null`."""
    if pa.types.is_dictionary(values.type):
        texts = pc.take(as_json(values.dictionary), values.indices)
    elif pa.types.is_list(values.type):
        texts = list_json(values)
    elif pa.types.is_string(values.type):
        texts = joined('"', values, '"') if is_plain(values) else by_value(values)
    elif pa.types.is_floating(values.type):
        texts = float_json(values)
    elif pa.types.is_timestamp(values.type):
        texts = joined(*time_pieces(values))
    else:
        texts = values.cast(pa.string())
    return pc.fill_null(texts, NULL) if texts.null_count else texts


def is_plain(values: Array) -> bool:
    """Whether the texts need no escaping in JSON."""
    _, _, data = values.buffers()
    if data is None:
        return True
    text = data.to_pybytes()
    return len(text.translate(None, _ESCAPED)) == len(text)


def by_value(values: Array) -> Array:
    """Each value as Python writes it; equal ones are written once."""
    encoded = pc.dictionary_encode(values)
    written = [json.dumps(value, ensure_ascii=False) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(written, pa.string()), encoded.indices)


def float_json(values: Array) -> Array:
    """As `float.__repr__`: the shortest digits that give the same number."""
    size = pc.abs(values)
    is_usual = pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _MOST))
    if not pc.all(pc.or_(is_usual, pc.equal(size, _ZERO))).as_py():
        return by_value(values)
    texts = values.cast(pa.string())
    is_whole = pc.invert(pc.match_substring(texts, "."))
    return pc.if_else(is_whole, joined(texts, ".0"), texts)


def time_pieces(values: Array) -> list[Array | str]:
    """As `datetime.isoformat`: six digits after the second, or none if they are zeros."""
    times = values.cast(pa.timestamp("us"))  # UTC
    days = times.cast(pa.date32()).dictionary_encode()
    dates = pc.take(joined('"', days.dictionary.cast(pa.string()), "T"), days.indices)
    clock = times.cast(pa.time64("us")).cast(pa.string())  # `07:26:37.000000`
    is_whole = pc.ends_with(clock, ".000000")
    if pc.any(is_whole).as_py():
        clock = pc.if_else(is_whole, pc.utf8_slice_codeunits(clock, 0, 8), clock)
    return [dates, clock, '+00:00"']


def list_json(values: Array) -> Array:
    items = pa.ListArray.from_arrays(values.offsets, as_json(values.values))
    texts = joined("[", pc.binary_join(items, ", "), "]")
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


# Columns that have the same few values again and again: each value is written once.


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
        """Texts, or lists of them, with a dictionary in the order of first occurrence.

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
