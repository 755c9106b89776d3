"""Queries of own data: CSV, spreadsheets, JSON lines or Parquet, one row a query.

Columns: `query_id`; `text` or `reference` or both; where there are any `target`, `category`,
`split` and captions. Captions are a list `captions` in JSON lines and Parquet, and columns
`caption_1`, `caption_2`, ... in CSV and spreadsheets. Annotators read `text`, or else the captions
joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from hsfiq.errors import HsfiqError, InvalidRecord, UnreadableInput
from hsfiq.readers.files import ErrorList, Place, cell, is_absent, outside_name, read_rows, required
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
    """The errors of a row's cells."""

    errors: Sequence[HsfiqError]


ImageId = Callable[[Place, str], str]
"""The id of the image that a cell names; `UnreadableInput` if there is none."""


def read(path: Path, image_id: ImageId = lambda _, name: name) -> list[PlacedQuery | WrongRow]:
    """Read all rows of a file; `UnreadableInput` if it is no table with these columns."""
    captions = CAPTIONS if path.suffix.lower() in (".jsonl", ".parquet") else "caption_1, ..."
    reader = RowReader(path, image_id)
    rows = [
        reader.read(row)
        for row in read_rows(path, "query_id", is_column, ", ".join((*COLUMNS, captions)))
    ]
    if not rows:
        raise UnreadableInput(str(path), "holds no query")
    return rows


def require_sound(rows: Sequence[PlacedQuery | WrongRow]) -> None:
    """Raise `FileErrors` with the errors of all wrong rows."""
    errors = ErrorList()
    for row in rows:
        for error in row.errors if isinstance(row, WrongRow) else ():
            errors.add(error)
    errors.require_none()


def is_column(name: str) -> bool:
    return name in (*COLUMNS, CAPTIONS) or CAPTION.fullmatch(name) is not None


class RowReader:
    """Reads rows one after the other, since an id may occur only once."""

    def __init__(self, path: Path, image_id: ImageId) -> None:
        self.path, self.image_id = path, image_id
        self.first: dict[str, str] = {}
        self.errors: list[HsfiqError] = []

    def read(self, row: Place) -> PlacedQuery | WrongRow:
        self.errors = []
        query = self.query(row)
        return WrongRow(self.errors) if query is None else PlacedQuery(row.where, query)

    def query(self, row: Place) -> OwnQuery | None:
        """The query of a row; None if a cell is wrong."""
        query_id = self.sound(lambda: self.new_id(row), "")
        captions: tuple[str, ...] = self.sound(lambda: read_captions(row), ())
        text = self.sound(lambda: read_text_of(row, captions), "")
        reference = self.sound(lambda: self.image(row, "reference"), None)
        target = self.sound(lambda: self.image(row, "target"), None)
        category = self.sound(lambda: label(row, "category"), None)
        split = self.sound(lambda: label(row, "split"), None)
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
            self.errors.append(row.wrong(f"query {query_id!r} {error}", "give it one of them"))
            return None

    def sound(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except HsfiqError as error:
            self.errors.append(error)
            return otherwise

    def new_id(self, row: Place) -> str:
        query_id = outside_name(required(row, "query_id"))
        if query_id in self.first:
            where = self.first[query_id].removeprefix(f"{self.path}: ")
            raise row.wrong(f"query {query_id!r} occurs twice (first in {where})")
        self.first[query_id] = row.where
        return query_id

    def image(self, row: Place, name: str) -> str | None:
        written = label(row, name, LONGEST_PATH)
        return None if written is None else self.image_id(cell(row, name), written)


def label(row: Place, name: str, longest: int = LONGEST_LABEL) -> str | None:
    return outside_name(cell(row, name), longest) if name in row.value else None


def read_text_of(row: Place, captions: Sequence[str]) -> str:
    return shown_text(cell(row, "text")) if "text" in row.value else joined(captions)


LONGEST_PATH = 1_000
"""Characters of an image's name as written; its path below the image folder may be shorter."""


def read_captions(row: Place) -> tuple[str, ...]:
    """The captions that are not blank, in order."""
    numbered = sorted(
        (int(match[1]), name) for name in row.value if (match := CAPTION.fullmatch(name))
    )
    places = [cell(row, name) for _, name in numbered]
    if CAPTIONS in row.value:
        places += cell(row, CAPTIONS).list()
    return tuple(shown_text(place) for place in places if not is_absent(place.value))


def shown_text(place: Place) -> str:
    text = place.text()
    if is_blank(text):
        raise place.wrong("holds only blanks", "write a text, or leave it empty")
    return text
