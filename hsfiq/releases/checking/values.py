"""Each table against its description: types, nulls, and the values that there can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hsfiq.releases.checking.files import described_types, objects, read_croissant
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.tables import ReleaseFolder, is_ours
from hsfiq.releases.manifest import points_of
from hsfiq.releases.schemas import Column
from hsfiq.releases.untrusted import shortened

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


def check_values(release: ReleaseFolder, table: str, findings: Findings) -> bool:
    """Check types, nulls and values; whether the table has the types that comparing it needs."""
    file, points = f"{table}.parquet", points_of(release.path)
    unlike: set[str] = set()
    for batch in release.batches(table):
        for column in release.tables[table]:
            place = batch.rows.schema.get_field_index(column.name)
            if place < 0 or column.name in unlike:
                continue
            values = batch.rows.column(place)
            if wrong := wrong_type(column, values):
                unlike.add(column.name)
                row, what = wrong
                findings.add(file, what, row=batch.start + row, column=column.name)
                continue
            for row in places(values.is_null()) if column.null is None else ():
                what = "is null, and this column never is"
                findings.add(file, what, row=batch.start + row, column=column.name)
            for row, what in wrong_values(column, values, points):
                findings.add(file, what, row=batch.start + row, column=column.name)
    schema = release.schema(table)
    foreign = [field for field in schema if field.name not in release.tables[table].names]
    for field in foreign:
        if not is_ours(field.type):
            unlike.add(field.name)
            what = f"has type {field.type}, which no column of a release has"
            findings.add(file, what, column=field.name)
    return not unlike and set(release.tables[table].key) <= set(schema.names)


def wrong_type(column: Column, values: Array) -> tuple[int, str] | None:
    """The place of a value that has another type, and what is wrong with it; nulls have any."""
    if values.type == column.type or values.null_count == len(values):
        return None
    shown = f"({shortened(str(values.type))})"
    for place, value in enumerate(values):
        if value.is_valid and not fits(value, column.type):
            try:
                text = shortened(repr(value.as_py()))
            except ValueError:  # nanoseconds
                text = "a value"
            return place, f"is {text} {shown}, and not of type {column.type}"
    place = pc.index(values.is_valid(), True).as_py()
    return place, f"has type {shortened(str(values.type))}, and not {column.type}"


def fits(value: Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return False
    return True


def wrong_values(column: Column, values: Array, points: int) -> Iterator[tuple[int, str]]:
    """The place of each wrong value, and what is wrong with it."""
    if values.type != column.type:  # all are null
        return
    parents = None
    if pa.types.is_list(values.type):
        parents, values = pc.list_parent_indices(values), pc.list_flatten(values)
    for place, what in outside(column, values, points):
        yield (parents[place].as_py() if parents is not None else place), what


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
