"""Rows of CSV, JSON lines and Parquet files, each with its place in the file.

In CSV every value is text, and an empty cell is absent. The separator is a comma, a semicolon or a
tab, as the header shows.
"""

from __future__ import annotations

import csv
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from hsfiq.errors import FileErrors, HsfiqError, UnreadableInput
from hsfiq.readers.files import LONGEST_NAME, Place, kind, numbered_lines, parse_json, read_text

SEPARATORS = (",", ";", "\t")

PANDAS_INDEX = "__index_level_"
"""The beginning of the columns in which pandas keeps an index; they are not data."""

LISTED = 20
"""The most errors of a file that are listed."""

ASCII_BLANKS = " \t\r\n\v\f"

IsColumn = Callable[[str], bool]


def read_rows(path: Path, key: str, is_column: IsColumn, known: str) -> Iterator[Place]:
    """Yield the rows of a table as objects without absent values.

    Args:
        path: its extension tells the format.
        key: a column that every file has.
        is_column: whether a column may have this name.
        known: the columns' names for error messages.

    Raises:
        UnreadableInput: the file is unreadable, lacks the key, or has an unknown column.
    """
    for place in rows_of(path, key):
        for name in place.value:
            if not is_column(name):
                raise place.wrong(f"unknown column {name!r}", f"known are {known}")
        yield place


def rows_of(path: Path, key: str) -> Iterator[Place]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return csv_rows(read_text(path), path, key)
    if suffix == ".jsonl":
        return jsonl_rows(path)
    if suffix == ".parquet":
        return parquet_rows(path, key)
    raise UnreadableInput(
        str(path), f"its extension is {suffix or 'missing'}", "write .csv, .jsonl or .parquet"
    )


def csv_rows(text: str, path: Path, key: str) -> Iterator[Place]:
    if not text.strip():
        what, columns = "the file is empty", f"the columns, {key!r} among them"
        raise UnreadableInput(str(path), what, f"write a first line with {columns}")
    separator = separator_of(text, key)
    if separator is None:
        raise UnreadableInput(
            f"{path}: line 1", f"there is no column {key!r}", "name the columns in the first line"
        )
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    names: list[str] = []
    start = 1
    try:
        for cells in reader:
            where, start = f"{path}: line {start}", reader.line_num + 1
            if not names:
                names = column_names(cells, where)
            elif not all(map(is_absent, cells)):
                if len(cells) != len(names):
                    raise UnreadableInput(
                        where, f"{len(cells)} cells, the first line has {len(names)}",
                        "put texts that contain the separator in double quotes",
                    )  # fmt: skip
                values = zip(names, cells, strict=True)
                yield Place({name: cell for name, cell in values if not is_absent(cell)}, where)
    except csv.Error as error:
        raise UnreadableInput(f"{path}: line {start}", f"broken CSV ({error})") from error


def has_header(text: str, key: str) -> bool:
    """Whether a text's first line names columns, one of them the key."""
    return separator_of(text, key) is not None


def separator_of(text: str, key: str) -> str | None:
    header = text.partition("\n")[0]
    return next((s for s in SEPARATORS if key in header_names(header, s)), None)


def header_names(header: str, separator: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
    except csv.Error:
        return []


def column_names(cells: Sequence[str], where: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if names.count(name) > 1:
            raise UnreadableInput(where, f"two columns are called {name!r}")
    return names


def jsonl_rows(path: Path) -> Iterator[Place]:
    for number, line in numbered_lines(read_text(path)):
        where = f"{path}: line {number}"
        value = parse_json(line, str(path), number)
        if not isinstance(value, dict):
            raise UnreadableInput(where, f"expected an object, found {kind(value)}")
        yield Place(present(value), where)


def parquet_rows(path: Path, key: str) -> Iterator[Place]:
    import pyarrow as pa  # noqa: PLC0415 -- slow, and needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            columns = [n for n in file.schema_arrow.names if not n.startswith(PANDAS_INDEX)]
            rows = file.read(columns=columns).to_pylist()
    except FileNotFoundError as error:
        raise UnreadableInput(str(path), "there is no such file") from error
    except (pa.ArrowException, OSError) as error:
        what = f"is not a readable Parquet file ({' '.join(str(error).split())})"
        raise UnreadableInput(str(path), what) from error
    if key not in columns:
        raise UnreadableInput(str(path), f"there is no column {key!r}")
    for number, row in enumerate(rows, start=1):
        yield Place(present(row), f"{path}: row {number}")


def present(values: dict[str, Any]) -> dict[str, Any]:
    """The values that are not absent: null, NaN (which pandas writes for null) or blank."""
    return {name: value for name, value in values.items() if not is_absent(value)}


def is_absent(value: object) -> bool:
    """Whether there is no value; other blanks than those of ASCII may be meant, and are kept."""
    if isinstance(value, str):
        return not value.strip(ASCII_BLANKS)
    return value is None or (isinstance(value, float) and math.isnan(value))


# ------------------------------------------------------------------------------------------ values


def outside_name(place: Place, longest: int = LONGEST_NAME) -> str:
    """An id or a name, without blanks around it; a whole number is written in decimal."""
    value = place.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    elif isinstance(value, float) and value.is_integer():  # pandas, where a column has gaps
        value = str(int(value))
    name = Place(value.strip() if isinstance(value, str) else value, place.where).name(longest)
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise place.wrong("has a line break or another control character")
    return name


def cell(row: Place, name: str) -> Place:
    """A value of a row, for errors that name its column."""
    return Place(row.value[name], f"{row.where}: {name}")


def required(row: Place, name: str) -> Place:
    """A value that every row has."""
    if name not in row.value:
        raise row.wrong(f"has no {name}")
    return cell(row, name)


class ErrorList:
    """Collects the errors of a file's rows, so that all are reported at once."""

    def __init__(self) -> None:
        self._errors: list[str] = []

    def add(self, error: HsfiqError | str) -> None:
        self._errors.append(str(error))

    def require_none(self) -> None:
        """Raise `FileErrors` if there is any error."""
        if self._errors:
            more = len(self._errors) - LISTED
            rest = [f"and {more:,} more errors"] if more > 0 else []
            raise FileErrors([*self._errors[:LISTED], *rest])
