"""Queries of own data: CSV, spreadsheets, JSON lines or Parquet, one row a query.

Columns: `query_id`; `text` or `reference` or both; where there are any `target`, `category`,
`split` and captions. Captions are a list `captions` in JSON lines and Parquet, and columns
`caption_1`, `caption_2`, ... in CSV and spreadsheets. Annotators read `text`, or else the captions
joined.

A table whose columns have other names is read with a mapping of ours to those; rows without an id
are then numbered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from hsfiq.errors import HsfiqError, InvalidRecord, UnreadableInput
from hsfiq.readers import files
from hsfiq.records import OwnQuery
from hsfiq.text import is_blank, joined

COLUMNS = ("query_id", "text", "reference", "target", "category", "split")
CAPTIONS = "captions"
CAPTION = re.compile(r"caption_([1-9]\d{0,3})")

T = TypeVar("T")

LONGEST_LABEL = 40
"""Characters of a category and of a split's name."""


class PlacedQuery(NamedTuple):
    """A query and its place in the file."""

    where: str
    query: OwnQuery


class WrongRow(NamedTuple):
    """The errors of a row's cells; `columns` has the column of each, "" for the row itself."""

    errors: Sequence[HsfiqError]
    columns: Sequence[str]
    row: files.Place


ImageId = Callable[[files.Place, str], str]
"""The id of the image that a cell names; `UnreadableInput` if there is none."""


def read(
    path: Path,
    image_id: ImageId = lambda _, name: name,
    columns: Mapping[str, str] | None = None,
) -> list[PlacedQuery | WrongRow]:
    """Read all rows of a file; `UnreadableInput` if it is no table with these columns.

    `columns` are the names of ours in the file, if they are not the same.
    """
    if columns:
        return queries_of(path, mapped_rows(path, columns), image_id)
    captions = CAPTIONS if path.suffix.lower() in (".jsonl", ".parquet") else "caption_1, ..."
    known = ", ".join((*COLUMNS, captions))
    rows = queries_of(path, files.read_rows(path, "query_id", is_column, known), image_id)
    if not rows:
        raise UnreadableInput(str(path), "contains no query")
    return rows


def queries_of(
    path: Path, rows: Iterable[files.Place], image_id: ImageId
) -> list[PlacedQuery | WrongRow]:
    """Read the rows of a file, with our columns."""
    reader = RowReader(path, image_id)
    return [reader.read(row) for row in rows]


def require_sound(rows: Sequence[PlacedQuery | WrongRow]) -> None:
    """Raise `FileErrors` with the errors of all wrong rows."""
    errors = files.ErrorList()
    for row in rows:
        for error in row.errors if isinstance(row, WrongRow) else ():
            errors.add(error)
    errors.require_none()


# Tables whose columns have other names.

USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "query_id": ("id", "qid", "query", "name", "no", "number", "번호"),
    "text": (
        *("request", "request text", "wish", "caption", "query text", "relative caption"),
        *("modification", "modification text", "sentence", "instruction", "description", "요청"),
    ),
    "reference": (
        *("start", "start image", "reference image", "ref", "photo", "image", "candidate"),
        *("source", "source image", "query image", "시작 이미지"),
    ),
    "target": (
        *("wanted", "wanted image", "answer", "target image", "target hard", "truth"),
        *("ground truth", "원하는 이미지"),
    ),
    "category": ("group", "type", "class", "kind", "그룹"),
    "split": ("part", "subset"),
}
"""Common names of our columns, the most usual first, in lower case."""


def guessed_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns of a table by our names, as far as recognized."""
    plain = {re.sub(r"[\W_]+", " ", name).strip().lower(): name for name in reversed(names)}
    guessed = {}
    for ours, usual in USUAL_NAMES.items():
        found = next((name for name in (ours.replace("_", " "), *usual) if name in plain), None)
        if found is not None:
            guessed[ours] = plain.pop(found)
    return guessed


def named_columns(options: Sequence[str]) -> dict[str, str]:
    """The columns that options `OURS=THEIRS` of a command name."""
    columns = {ours: theirs for ours, _, theirs in (each.partition("=") for each in options)}
    for ours, theirs in columns.items():
        if ours not in COLUMNS or not theirs:
            known = ", ".join(COLUMNS)
            raise UnreadableInput(
                "--column", f"{ours!r} is not one of {known}", "such as text=wish"
            )
    return columns


def mapped_rows(path: Path, columns: Mapping[str, str]) -> list[files.Place]:
    """The rows of a table with our columns; `columns` has their names in the file.

    Without a column of ids, the rows are numbered: q01, q02, ...
    """
    missing = set(columns.values()) - set(files.columns_of(path))
    if missing:
        raise files.no_column(str(path), min(missing), files.columns_of(path))
    rows = [
        files.Place(
            {ours: row.value[theirs] for ours, theirs in columns.items() if theirs in row.value}
            | {name: row.value[name] for name in row.value if is_caption(name)},
            row.where,
        )
        for row in files.rows_of(path, next(iter(columns.values())))
    ]
    if not rows:
        raise UnreadableInput(str(path), "contains no query")
    if "query_id" not in columns:
        digits = max(2, len(str(len(rows))))
        for number, row in enumerate(rows, start=1):
            row.value["query_id"] = f"q{number:0{digits}}"
    return rows


def row_number(where: str) -> str:
    """The number of a row in its file, from its place in words."""
    return where.rpartition(" ")[2]


def is_column(name: str) -> bool:
    return name in COLUMNS or is_caption(name)


def is_caption(name: str) -> bool:
    return name == CAPTIONS or CAPTION.fullmatch(name) is not None


class RowReader:
    """Reads rows one after the other, since an id may occur only once."""

    def __init__(self, path: Path, image_id: ImageId) -> None:
        self.path, self.image_id = path, image_id
        self.first: dict[str, str] = {}
        self.errors: list[HsfiqError] = []
        self.columns: list[str] = []

    def read(self, row: files.Place) -> PlacedQuery | WrongRow:
        self.errors, self.columns = [], []
        query = self.query(row)
        if query is None:
            return WrongRow(self.errors, self.columns, row)
        return PlacedQuery(row.where, query)

    def query(self, row: files.Place) -> OwnQuery | None:
        """The query of a row; None if a cell is wrong."""
        query_id = self.sound("query_id", lambda: self.new_id(row), "")
        captions: tuple[str, ...] = self.sound("captions", lambda: read_captions(row), ())
        text = self.sound("text", lambda: read_text_of(row, captions), "")
        reference = self.sound("reference", lambda: self.image(row, "reference"), None)
        target = self.sound("target", lambda: self.image(row, "target"), None)
        category = self.sound("category", lambda: label(row, "category"), None)
        split = self.sound("split", lambda: label(row, "split"), None)
        if self.errors:
            return None
        try:
            return OwnQuery(
                query_id=query_id,
                text=text,
                captions=captions or ((text,) if text else ()),
                reference=reference,
                target=target,
                category=category or "",
                split=split,
            )
        except InvalidRecord as error:
            self.errors.append(
                row.wrong(f"query {query_id!r} {error}", "give the query a text or a reference")
            )
            self.columns.append("")
            return None

    def sound(self, column: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except HsfiqError as error:
            self.errors.append(error)
            self.columns.append(column)
            return otherwise

    def new_id(self, row: files.Place) -> str:
        query_id = files.outside_name(files.required(row, "query_id"))
        if query_id in self.first:
            where = self.first[query_id].removeprefix(f"{self.path}: ")
            raise row.wrong(f"query {query_id!r} occurs twice (first in {where})")
        self.first[query_id] = row.where
        return query_id

    def image(self, row: files.Place, name: str) -> str | None:
        written = label(row, name, LONGEST_PATH)
        return None if written is None else self.image_id(files.cell(row, name), written)


def label(row: files.Place, name: str, longest: int = LONGEST_LABEL) -> str | None:
    return files.outside_name(files.cell(row, name), longest) if name in row.value else None


def read_text_of(row: files.Place, captions: Sequence[str]) -> str:
    return shown_text(files.cell(row, "text")) if "text" in row.value else joined(captions)


LONGEST_PATH = 1_000
"""Characters of an image's name as written; its path below the image folder may be shorter."""


def read_captions(row: files.Place) -> tuple[str, ...]:
    """The captions that are not blank, in order."""
    numbered = sorted(
        (int(match[1]), name) for name in row.value if (match := CAPTION.fullmatch(name))
    )
    places = [files.cell(row, name) for _, name in numbered]
    if CAPTIONS in row.value:
        places += files.cell(row, CAPTIONS).list()
    return tuple(shown_text(place) for place in places if not files.is_absent(place.value))


def shown_text(place: files.Place) -> str:
    text = place.text()
    if is_blank(text):
        raise place.wrong("contains only spaces", "write a text, or leave it empty")
    return text
