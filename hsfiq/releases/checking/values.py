"""Each table against its description: types, nulls, and the values that there can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hsfiq.releases.checking.files import described_types, objects, read_croissant
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.manifest import points_of
from hsfiq.releases.schemas import Column

Array = Any
"""An Arrow array; the types of Arrow's functions are not told apart further."""
pc: Any = pyarrow.compute


def check_columns(release: ReleaseFolder, table: str, findings: Findings) -> None:
    """The columns are those of the description, with their types.

    A column that is missing is a note if croissant.json of the release does not have it either: so
    is one that only other versions of hsfiq have.
    """
    schema, file = release.schema(table), f"{table}.parquet"
    own = own_columns(release, table)
    known = release.tables[table]
    for column in known:
        if column.name in schema.names:
            continue
        if column.name in known.key or own is None or column.name in own:
            findings.add(file, "is missing", column=column.name)
        else:
            findings.note(f"{file} has no column {column.name}, which this hsfiq writes")
    for name in schema.names:
        if name not in known.names:
            if own is not None and name in own:
                findings.note(f"{file} has a column {name}, which this hsfiq does not know")
            else:
                findings.add(file, "is no column of this table", column=name)


def own_columns(release: ReleaseFolder, table: str) -> set[str] | None:
    """The table's columns in croissant.json; None if that does not describe the table."""
    described = read_croissant(release, Findings())
    if described is None or not objects(described, "recordSet"):
        return None
    types = described_types(described).get(table)
    return None if types is None else set(types)


def check_values(release: ReleaseFolder, table: str, findings: Findings) -> None:
    points = points_of(release.path)
    for batch in release.batches(table):
        for column in release.tables[table]:
            place = batch.rows.schema.get_field_index(column.name)
            if place < 0:
                continue
            values = batch.rows.column(place)
            for row, what in wrong_values(column, values, points):
                findings.add(f"{table}.parquet", what, row=batch.start + row, column=column.name)


def wrong_values(column: Column, values: Array, points: int) -> Iterator[tuple[int, str]]:
    """The place of each wrong value, and what is wrong with it."""
    if values.type != column.type:
        values, wrong = converted(column, values)
        yield from wrong
        if values is None:
            return
    if column.null is None and values.null_count:
        for place in places(values.is_null()):
            yield place, "is null, and this column never is"
    parents = None
    if pa.types.is_list(values.type):
        parents, values = pc.list_parent_indices(values), pc.list_flatten(values)
    for place, what in outside(column, values, points):
        yield (parents[place].as_py() if parents is not None else place), what


def converted(column: Column, values: Array) -> tuple[Array | None, list[tuple[int, str]]]:
    """The values in the column's type, or None, with those that cannot be converted."""
    try:
        changed = values.cast(column.type)
    except (pa.ArrowException, ValueError):
        wrong = [
            (place, f"is {value!r} ({values.type}), and not of type {column.type}")
            for place, value in enumerate(values.to_pylist())
            if value is not None and not fits(value, values.type, column.type)
        ]
        return None, wrong
    if len(values) and values.null_count < len(values):
        place = pc.index(values.is_valid(), True).as_py()
        return changed, [(place, f"has type {values.type}, and not {column.type}")]
    return changed, []


def fits(value: object, from_type: pa.DataType, to_type: pa.DataType) -> bool:
    try:
        pa.scalar(value, from_type).cast(to_type)
    except (pa.ArrowException, ValueError, OverflowError):
        return False
    return True


def outside(column: Column, values: Array, points: int) -> Iterator[tuple[int, str]]:
    """The places of the values that the column cannot have."""
    if column.values:
        known = pa.array(column.values, values.type)
        for place in places(pc.and_(values.is_valid(), pc.invert(pc.is_in(values, known)))):
            yield place, f"is {values[place].as_py()!r}, not {listed(column.values)}"
        return
    if pa.types.is_floating(values.type):
        for place in places(pc.invert(pc.is_finite(values))):
            yield place, f"is {values[place].as_py()}, not a finite number"
    lowest, highest = column.lowest, points if column.on_scale else column.highest
    for bound, is_wrong in ((lowest, pc.less), (highest, pc.greater)):
        if bound is None:
            continue
        for place in places(is_wrong(values, pa.scalar(bound))):
            yield place, f"is {values[place].as_py()}, not {range_text(lowest, highest)}"


def places(wrong: Array) -> list[int]:
    """Where it is true; null counts as false."""
    listed: list[int] = pc.indices_nonzero(wrong).to_pylist()
    return listed


def range_text(lowest: float | None, highest: float | None) -> str:
    if lowest is None:
        return f"at most {highest:g}"
    return f"{lowest:g} or more" if highest is None else f"from {lowest:g} to {highest:g}"


def listed(values: tuple[str | int, ...]) -> str:
    return " or ".join([", ".join(map(str, values[:-1])), str(values[-1])])
