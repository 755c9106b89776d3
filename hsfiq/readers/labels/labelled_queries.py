"""Queries with labels: ids alone, tables of ours, and the files of CIRCUS.

CIRCUS (Attimonelli et al. 2026, github.com/matteoattimonelli/CIRCUS) labels the queries of CIRR,
FashionIQ, LaSCo and CIRCO. Its files name queries by M-BEIR's ids; with them are the reference
image's path and the text, which identify a query of the benchmark.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place, numbered_lines, read_text
from hsfiq.readers.own_queries import LONGEST_PATH
from hsfiq.readers.tables import cell, has_header, outside_name, rows_of

ID_COLUMNS = ("query_id", "qid")
LABEL_COLUMNS = ("label", "aggregate_label", "hidden_category")
REFERENCE_COLUMNS = ("reference", "query_img_path", "query_image_ref", "query_image_path")
TEXT_COLUMNS = ("text", "query_text", "query_txt")

UNIONS = {"shortcut_free": ("composition_required", "unresolved")}
"""Labels of CIRCUS that stand for several."""


class LabelledQuery(NamedTuple):
    """A query as a file names it: by its id, by its reference and text, or by both.

    Attributes:
        reference: the image's name without folder and extension.
    """

    where: str
    query_id: str | None
    reference: str | None
    text: str | None
    label: str | None


def read(path: Path, label: str | None) -> list[LabelledQuery]:
    """The file's queries with this label, or all.

    `.txt` files have an id on each line. Tables have an id, or a reference and a text; other
    columns are ignored. UnreadableInput: no query has the label, or a row identifies no query.
    """
    queries = read_ids(path) if path.suffix.lower() == ".txt" else read_table(path)
    if not queries:
        raise UnreadableInput(str(path), "holds no query")
    if label is None:
        return queries
    wanted = UNIONS.get(label, (label,))
    chosen = [query for query in queries if query.label in wanted]
    if not chosen:
        labels = sorted({query.label for query in queries if query.label is not None})
        known = f"its labels are {', '.join(labels)}" if labels else "it has no labels"
        raise UnreadableInput(str(path), f"no query has the label {label!r}", known)
    return chosen


def read_ids(path: Path) -> list[LabelledQuery]:
    return [
        LabelledQuery(f"{path}: line {number}", line.strip(), None, None, None)
        for number, line in numbered_lines(read_text(path))
    ]


def read_table(path: Path) -> list[LabelledQuery]:
    columns = (*ID_COLUMNS, *TEXT_COLUMNS)
    key = columns[0]
    if path.suffix.lower() in (".csv", ".tsv"):
        text = read_text(path)
        key = next((name for name in columns if has_header(text, name)), key)
    return [read_row(row) for row in rows_of(path, key)]


def read_row(row: Place) -> LabelledQuery:
    query_id = first_of(row, ID_COLUMNS)
    reference = first_of(row, REFERENCE_COLUMNS)
    text = first_of(row, TEXT_COLUMNS)
    if query_id is None and (reference is None or text is None):
        raise row.wrong("names no query", f"give {ID_COLUMNS[0]}, or reference and text")
    stem = None if reference is None else PurePosixPath(reference).stem
    return LabelledQuery(row.where, query_id, stem, text, first_of(row, LABEL_COLUMNS))


def first_of(row: Place, names: tuple[str, ...]) -> str | None:
    """The first of the columns that the row has."""
    for name in names:
        if name in row.value:
            return outside_name(cell(row, name), LONGEST_PATH)
    return None
