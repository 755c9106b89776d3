"""The one description of a release's tables: columns with their types, units, meanings and nulls.

Everything else that names columns is made of it: the Parquet schema, the dataset card,
croissant.json, docs/releases.md, and the checks of a release. To use it:

- `RELEASE_KINDS[kind].all_tables()` (`hsfiq.releases.kinds`) has the tables of a kind by name, in
  the order of the card. A release has those for which there is something: see `Table.present`.
- `table.arrow()` is the pyarrow schema to write Parquet with. A column without a null rule is not
  nullable in it, so that pyarrow refuses to write a null there.
- `table.columns` are in the order of the files; `table["score"]` is a column by name.
- `table.key` identifies a row, `column.refers_to` ("queries.query_id") names the column that has
  the value, and `column.values`, `lowest` and `highest` say which values there can be; of a column
  with `on_scale`, the highest is `points_of(folder)` (`hsfiq.releases.folder`). Of a list they
  are about its members.

A column is added here or in a module of `hsfiq.releases.kinds`, and nowhere else. Releases that
were exported before lack it, so readers of releases ask whether it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
FLAG = pa.bool_()
POINTS, WHOLE, WHOLES = pa.int8(), pa.int32(), pa.list_(pa.int32())
NUMBER, NUMBERS = pa.float64(), pa.list_(pa.float64())
TIME = pa.timestamp("us", tz="UTC")
CONTENT = pa.binary()

TYPE_NAMES: dict[pa.DataType, str] = {
    TEXT: "text",
    TEXTS: "list of texts",
    FLAG: "true or false",
    POINTS: "whole number",
    WHOLE: "whole number",
    WHOLES: "list of whole numbers",
    NUMBER: "number",
    NUMBERS: "list of numbers",
    TIME: "time (UTC)",
    CONTENT: "bytes of a file",
}
"""For people, in the card and in docs/releases.md."""

UNKNOWN = "it is unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        meaning: what a value says, without the name, the type or the unit.
        unit: such as "seconds"; None for ids, texts, flags and places.
        null: when the value is null, as in "null if {null}"; None if it never is.
        values: all that there can be, if they are few.
        refers_to: the table and the column that have the value, as in "queries.query_id".
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str | None = None
    null: str | None = None
    values: tuple[str | int, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    on_scale: bool = False
    refers_to: str | None = None

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.type]

    @property
    def null_rule(self) -> str:
        """For example: "null if times were not recorded", or "never null"."""
        return f"null if {self.null}" if self.null else "never null"

    def arrow(self) -> pa.Field[pa.DataType]:
        return pa.field(self.name, self.type, nullable=self.null is not None)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a release.

    Attributes:
        meaning: what a row is, as in "one row a question: ...".
        key: the columns that identify a row; empty if rows may be equal.
        present: the condition under which a release has the table; empty for always.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    present: str = ""
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {column.name: column for column in self.columns}
        if len(by_name) < len(self.columns) or not by_name.keys() >= set(self.key):
            raise ValueError(f"table {self.name} has a column twice, or lacks one of its key")
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, column: str) -> Column:
        return self._by_name[column]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    @property
    def has_lines(self) -> bool:
        """Whether the table is also there as JSON lines, which cannot hold files."""
        return all(column.type != CONTENT for column in self.columns)

    def arrow(self) -> pa.Schema:
        return pa.schema([column.arrow() for column in self.columns])


def without(columns: tuple[Column, ...], *names: str) -> tuple[Column, ...]:
    """The columns but those with these names."""
    return tuple(column for column in columns if column.name not in names)


def renamed(columns: tuple[Column, ...], suffix: str) -> tuple[Column, ...]:
    return tuple(replace(column, name=f"{column.name}{suffix}") for column in columns)
