"""Queries of own data: CSV, JSON lines or Parquet, one row a query.

Columns: `query_id`; `text` or `reference` or both; where there are any `target`, `category`,
`split` and captions. Captions are a list `captions` in JSON lines and Parquet, and columns
`caption_1`, `caption_2`, ... in CSV. Annotators read `text`, or else the captions joined.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from hsfiq.errors import HsfiqError, InvalidRecord, UnreadableInput
from hsfiq.readers.files import ErrorList, Place, cell, is_absent, outside_name, read_rows, required
from hsfiq.records import OwnQuery
from hsfiq.text import is_blank, joined

COLUMNS = ("query_id", "text", "reference", "target", "category", "split")
CAPTIONS = "captions"
CAPTION = re.compile(r"caption_([1-9]\d{0,3})")

LONGEST_LABEL = 40
"""Characters of a category and of a split's name."""


class PlacedQuery(NamedTuple):
    """A query and its place in the file."""

    where: str
    query: OwnQuery


def read(path: Path) -> list[PlacedQuery]:
    """Read all queries of a file.

    Raises:
        UnreadableInput: the file cannot be read as a table with these columns.
        FileErrors: rows are wrong; all of them are listed.
    """
    captions = CAPTIONS if path.suffix.lower() in (".jsonl", ".parquet") else "caption_1, ..."
    queries: list[PlacedQuery] = []
    first: dict[str, str] = {}
    errors = ErrorList()
    for row in read_rows(path, "query_id", is_column, ", ".join((*COLUMNS, captions))):
        try:
            query = read_query(row)
            if query.query_id in first:
                where = first[query.query_id].removeprefix(f"{path}: ")
                raise row.wrong(f"query {query.query_id!r} occurs twice (first in {where})")
        except HsfiqError as error:
            errors.add(error)
            continue
        first[query.query_id] = row.where
        queries.append(PlacedQuery(row.where, query))
    errors.require_none()
    if not queries:
        raise UnreadableInput(str(path), "holds no query")
    return queries


def is_column(name: str) -> bool:
    return name in (*COLUMNS, CAPTIONS) or CAPTION.fullmatch(name) is not None


def read_query(row: Place) -> OwnQuery:
    def label(name: str, longest: int = LONGEST_LABEL) -> str | None:
        return outside_name(cell(row, name), longest) if name in row.value else None

    query_id = outside_name(required(row, "query_id"))
    captions = read_captions(row)
    text = shown_text(cell(row, "text")) if "text" in row.value else joined(captions)
    try:
        return OwnQuery(
            query_id=query_id,
            text=text,
            captions=captions or ((text,) if text else ()),
            reference=label("reference", LONGEST_PATH),
            target=label("target", LONGEST_PATH),
            category=label("category") or "",
            split=label("split"),
        )
    except InvalidRecord as error:
        raise row.wrong(f"query {query_id!r} {error}", "give it one of them") from error


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
