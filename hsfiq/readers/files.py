"""Reading text, JSON and tables, with errors that name the file and the place in it."""

from __future__ import annotations

import csv
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from hsfiq.errors import FileErrors, HsfiqError, UnreadableInput
from hsfiq.text import first_few, is_storable_text, one_line

LONGEST_NAME = 200
LONGEST_PATH = 1000
"""Characters of a path of keys in an error; the middle of a longer one is left out."""
DEEPEST = 50
"""Levels of lists and objects; functions that call themselves read them."""
TOO_DEEP = "the JSON is nested too deeply"
BYTE_ORDER_MARK = "\ufeff"


def read_text(path: Path) -> str:
    """The file's text without a byte order mark; `UnreadableInput` if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8").removeprefix(BYTE_ORDER_MARK)
    except FileNotFoundError as error:
        raise UnreadableInput(str(path), "there is no such file") from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            f"{path}: byte {error.start}",
            "this is not UTF-8 text",
            "save the file as UTF-8 (in Excel: CSV UTF-8)",
        ) from error
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


def read_json(path: Path) -> Any:
    """The file's JSON value; `UnreadableInput` if it is not JSON or an object has a key twice."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str, line: int | None = None) -> Any:
    """Parse JSON: all of the file `where`, or the part of it that starts at a line."""
    place = where if line is None else f"{where}: line {line}"
    try:
        value = json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise UnreadableInput(
            f"{where}: line {error.lineno + (line or 1) - 1}, column {error.colno}",
            f"invalid JSON ({error.msg})",
        ) from error
    except ValueError as error:
        raise UnreadableInput(place, why_unreadable(error)) from error
    except RecursionError as error:
        raise UnreadableInput(place, TOO_DEEP) from error
    # A text with few brackets, such as most JSON lines, cannot be deep.
    if text.count("[") + text.count("{") > DEEPEST and is_deeper(value, DEEPEST):
        raise UnreadableInput(place, TOO_DEEP)
    return value


def is_deeper(value: Any, deepest: int) -> bool:
    """Whether lists and objects are nested more than so many levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(deepest):
        level = [
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
            if isinstance(member, dict | list)
        ]
    return bool(level)


def why_unreadable(error: ValueError) -> str:
    """The error's own words, but for numbers of more digits than Python reads."""
    return "a number is too long" if "integer string conversion" in str(error) else str(error)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members; a repeated key is refused, where `json` would keep the last one."""
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {repeated!r} occurs twice")
    return members


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which Python accepts but JSON does not allow."""
    raise ValueError(f"{name} is not a JSON value")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """A file's lines that are not blank, numbered from 1.

    Only line feeds end a line: JSON may contain the other separators of `str.splitlines`.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


class Place:
    """A JSON value with its place in the file, for errors that name the place.

    `where` is the place in words or, for a member of another value, its key or its index there.
    """

    __slots__ = ("above", "step", "value")

    def __init__(self, value: Any, where: str | int, above: Place | None = None) -> None:
        self.value, self.step, self.above = value, where, above

    @property
    def where(self) -> str:
        """The place in words, made only when it is asked for: there may be millions of values."""
        steps: list[str] = []
        place = self
        while place.above is not None:
            steps.append(f"[{place.step}]" if isinstance(place.step, int) else f".{place.step}")
            place = place.above
        root, path = str(place.step), "".join(reversed(steps))
        # The file's name ends with ": ", the keys below it are joined with dots.
        path = path.removeprefix(".") if root.endswith(": ") else path
        half = LONGEST_PATH // 2
        return root + (path if len(path) <= LONGEST_PATH else f"{path[:half]}...{path[-half:]}")

    def with_value(self, value: Any) -> Place:
        """Another value at the same place, such as a part of a text."""
        return Place(value, self.step, self.above)

    def wrong(self, what: str, remedy: str = "") -> UnreadableInput:
        return UnreadableInput(self.where.removesuffix(": "), what, remedy)

    def items(self, longest: int = LONGEST_NAME) -> Iterator[tuple[str, Place]]:
        """The members of an object whose keys are ids of at most `longest` characters."""
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected an object, found {kind(self.value)}")
        for key, value in self.value.items():
            if not 1 <= len(key) <= longest or not is_storable_text(key):
                Place(key, f"{self.where}{key[:40]!r}").name(longest)
            yield key, Place(value, key, self)

    def key(self, name: str) -> Place:
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected an object, found {kind(self.value)}")
        if name not in self.value:
            raise self.wrong(f"the key {name!r} is missing")
        return Place(self.value[name], name, self)

    def only(self, *names: str) -> None:
        unknown = [key for key, _ in self.items() if key not in names]
        if unknown:
            raise self.wrong(f"unknown key {unknown[0]!r}", f"known keys: {', '.join(names)}")

    def members(self) -> Iterator[Place]:
        """The members of a list, one at a time."""
        if not isinstance(self.value, list):
            raise self.wrong(f"expected a list, found {kind(self.value)}")
        for index, value in enumerate(self.value):
            yield Place(value, index, self)

    def list(self) -> list[Place]:
        return [*self.members()]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"expected text, found {kind(self.value)}")
        if not is_storable_text(self.value):
            raise self.wrong("the text has characters that cannot be stored")
        return self.value

    def name(self, longest: int = LONGEST_NAME) -> str:
        name = self.text()
        if not 1 <= len(name) <= longest:
            raise self.wrong(f"an id must have 1 to {longest} characters, not {len(name):,}")
        return name

    def names(self) -> tuple[str, ...]:
        """The ids in a list."""
        if self.holds_names():
            return tuple(self.value)
        return tuple(place.name() for place in self.members())

    def holds_names(self) -> bool:
        """Whether this is a list of ids without a mistake: most are, and some hold millions."""
        return (
            isinstance(self.value, list)
            and all(isinstance(each, str) and 1 <= len(each) <= LONGEST_NAME for each in self.value)
            and is_storable_text("".join(self.value))
        )

    def integer(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong(f"expected an integer, found {kind(self.value)}")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong(f"expected true or false, found {kind(self.value)}")
        return self.value

    def number(self) -> float:
        """A finite number that fits in a float."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong(f"expected a number, found {kind(self.value)}")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if math.isnan(number):
            raise self.wrong(f"{kind(self.value)} is not a number")
        if not math.isfinite(number):
            raise self.wrong(f"{kind(self.value)} is too large to be stored")
        return number


def open_place(path: Path) -> Place:
    return Place(read_json(path), f"{path}: ")


def kind(value: object) -> str:
    """A JSON value in words; strings and numbers are shown, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


# Rows of CSV, JSON lines, Parquet and spreadsheet files, each with its place in the file.
#
# In CSV and in spreadsheets every value is text, and an empty cell is absent. The separator of CSV
# is a comma, a semicolon or a tab, as the header shows. Of a spreadsheet the first sheet is read.

SEPARATORS = (",", ";", "\t")

SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
"""The extensions of spreadsheets."""

PANDAS_INDEX = "__index_level_"
"""The beginning of the columns in which pandas keeps an index; they are not data."""

LISTED = 20
"""The most errors of a file that are listed."""

FIRST_ROWS = 100
"""The rows of JSON lines whose keys are the columns that are offered."""

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
    if suffix in SHEETS:
        return sheet_rows(path, key)
    if suffix == ".jsonl":
        return jsonl_rows(path)
    if suffix == ".parquet":
        return parquet_rows(path, key)
    raise UnreadableInput(
        str(path),
        f"its extension is {suffix or 'missing'}",
        "write .csv, .xlsx, .jsonl or .parquet",
    )


def columns_of(path: Path) -> list[str]:
    """The names of a table's columns; of JSON lines, those of the first rows."""
    suffix = path.suffix.lower()
    if suffix in SHEETS:
        first = next(iter(sheet_lines(path)), [])
        return [sheet_cell(name).strip() for name in first if not is_absent(name)]
    if suffix == ".parquet":
        with parquet_file(path) as (_, columns):
            return columns
    if suffix == ".jsonl":
        first_rows = islice(jsonl_rows(path), FIRST_ROWS)
        return list(dict.fromkeys(name for row in first_rows for name in row.value))
    header = read_text(path).lstrip().partition("\n")[0]
    return max((header_names(header, separator) for separator in SEPARATORS), key=len)


LONGEST_SHOWN = 40
"""Characters of a column's name in a message."""


def no_column(where: str, key: str, columns: Sequence[str]) -> UnreadableInput:
    found = first_few([one_line(name)[:LONGEST_SHOWN] for name in columns], 8)
    remedy = f"rename the column that holds it; the file has {found or 'none'}"
    return UnreadableInput(where, f"there is no column {key!r}", remedy)


def csv_rows(text: str, path: Path, key: str) -> Iterator[Place]:
    if not text.strip():
        what, columns = "the file is empty", f"the columns, {key!r} among them"
        raise UnreadableInput(str(path), what, f"write a first line with {columns}")
    separator = separator_of(text, key)
    if separator is None:
        raise no_column(f"{path}: line 1", key, columns_of(path))
    yield from named_cells(csv_lines(text, path, separator))


def csv_lines(text: str, path: Path, separator: str) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            where, start = f"{path}: line {start}", reader.line_num + 1
            yield where, cells
    except csv.Error as error:
        raise UnreadableInput(f"{path}: line {start}", f"invalid CSV ({error})") from error


def named_cells(lines: Iterator[tuple[str, list[str]]]) -> Iterator[Place]:
    """The lines after the first, which names the columns; each line has its place."""
    names: list[str] = []
    for where, cells in lines:
        if not names:
            names = column_names(cells, where)
        elif not all(map(is_absent, cells)):
            if len(cells) != len(names):
                raise UnreadableInput(
                    where, f"{len(cells)} cells, but the first line has {len(names)}",
                    "put texts that contain the separator in double quotes",
                )  # fmt: skip
            values = zip(names, cells, strict=True)
            yield Place({name: cell for name, cell in values if not is_absent(cell)}, where)


def is_sheet(path: Path) -> bool:
    return path.suffix.lower() in SHEETS


def sheet_lines(path: Path) -> list[list[Any]]:
    """The cells of a spreadsheet's first sheet."""
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 (rarely needed)

    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file")
    try:
        with CalamineWorkbook.from_path(path) as workbook:
            return workbook.get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (CalamineError, OSError) as error:
        what = f"is not a readable spreadsheet ({' '.join(str(error).split())})"
        raise UnreadableInput(str(path), what, "save it as .xlsx without a password") from error


def sheet_rows(path: Path, key: str) -> Iterator[Place]:
    """The rows of a spreadsheet's first sheet."""
    rows = sheet_lines(path)
    named = [place for place, name in enumerate(rows[0] if rows else ()) if not is_absent(name)]
    header = [sheet_cell(rows[0][place]).strip() for place in named]
    if key not in header:
        raise no_column(f"{path}: line 1", key, header)
    lines = (
        (f"{path}: line {number}", [sheet_cell(cells[place]) for place in named])
        for number, cells in enumerate(rows, start=1)
    )
    yield from named_cells(lines)


def sheet_cell(value: object) -> str:
    """A cell as CSV has it; spreadsheets store whole numbers as 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


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


@contextmanager
def parquet_file(path: Path) -> Iterator[tuple[Any, list[str]]]:
    """A Parquet file with the names of its columns."""
    import pyarrow as pa  # noqa: PLC0415 -- slow, and needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            columns = [n for n in file.schema_arrow.names if not n.startswith(PANDAS_INDEX)]
            yield file, columns
    except FileNotFoundError as error:
        raise UnreadableInput(str(path), "there is no such file") from error
    except (pa.ArrowException, OSError) as error:
        what = f"is not a readable Parquet file ({' '.join(str(error).split())})"
        raise UnreadableInput(str(path), what) from error


def parquet_rows(path: Path, key: str) -> Iterator[Place]:
    with parquet_file(path) as (file, columns):
        if key not in columns:
            raise no_column(str(path), key, columns)
        rows = file.read(columns=columns).to_pylist()
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
