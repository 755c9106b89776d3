"""The step "Images and queries": uploads, the table of queries and its invalid rows."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from logging import getLogger
from threading import Thread

from fastapi import FastAPI, Request, Response
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from hsfiq.annotate.image_copies import lower_priority
from hsfiq.annotate.images import NO_SUCH_IMAGE, file_response, not_found
from hsfiq.annotate.owner.downloads import MEDIA_TYPES, saved_file
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.study_pages import number_in
from hsfiq.annotate.payloads import DRAFT_UPLOAD
from hsfiq.annotate.studio.setup import Setup, Step, Summary, setup_at
from hsfiq.annotate.studio.shell import Said, Studio
from hsfiq.db.source_tables import Dataset, Triplet
from hsfiq.drafts import Content, QueryTable, find_draft, image_root, images_of
from hsfiq.errors import HsfiqError, Refused
from hsfiq.images.folder import UnknownName
from hsfiq.payout import csv_bytes
from hsfiq.readers.own_queries import COLUMNS, WrongRow, row_number
from hsfiq.text import spreadsheet_text
from hsfiq.uploads import (
    LARGEST_IMAGE,
    MOST_BYTES,
    MOST_FILES,
    Sent,
    Upload,
    begin,
    facts_of,
    finish,
    receive,
    space_left,
    uploads_of,
)

logger = getLogger(__name__)

MOST_ROWS, MOST_IMAGES, EXAMPLES = 50, 40, 3
"""The numbers of invalid rows, images and queries that are shown."""


def summary(setup: Setup) -> Summary:
    desk, content, material = setup.desk, setup.draft.content, setup.material
    if any(upload.is_complete for upload in uploads_of(setup.draft.folder)):
        return Summary(desk.t("reading ..."), "warn")
    if content.dataset:
        return Summary(content.dataset)
    images = desk.n("{n} image", "{n} images", material.n_images)
    if not content.of_role("queries"):
        text = desk.t("{images}, no queries yet", images=images)
        return Summary(text, "bad") if material.images else Summary(desk.t("not yet"))
    if any(file.name in material.errors for file in content.of_role("queries")):
        return Summary(desk.t("a table cannot be read"), "bad")
    if material.wrong:
        count = len(material.wrong)
        return Summary(desk.n("{n} row to decide", "{n} rows to decide", count), "bad")
    queries = desk.n("{n} query", "{n} queries", len(material.queries))
    shows_images = any(query.reference or query.target for _, query in material.queries)
    return Summary(f"{queries}, {images}", "" if material.images or not shows_images else "bad")


def view(setup: Setup) -> Mapping[str, object]:
    content, material = setup.draft.content, setup.material
    start = number_of(setup.desk.request, "examples")
    queries = [query for _, query in material.queries]
    start = start if start < len(queries) else 0
    images = material.images.names if material.images else []
    sources = tuple(file.source for file in content.of_role("images"))
    return {
        **uploading(setup),
        "material": material,
        "filled": filled(material.table) if material.table else {},
        "facts": facts_of(sources, setup.draft.folder),
        "look": rows_to_look_at(setup, material.table) if material.table else [],
        "ids": ids_of(setup, material.table) if material.table else set(),
        "free_id": free_id,
        "undecided": len(material.wrong),
        "examples": queries[start : start + EXAMPLES],
        "next_examples": start + EXAMPLES if start + EXAMPLES < len(queries) else 0,
        "images": images[:MOST_IMAGES],
        "datasets": datasets(setup),
    }


def uploading(setup: Setup) -> dict[str, object]:
    """The values of `studio_upload.html`; complete files are put in place.

    The page `is_behind` if the draft has changed since it was read: a file that was put in place
    meanwhile is no upload any more, and not in the draft as it was read.
    """
    folder = setup.draft.folder
    for upload in uploads_of(folder):
        if upload.is_complete:
            settle(setup, upload, patience=0.05)
    uploads = uploads_of(folder)
    with setup.desk.database.reading() as session:
        current = find_draft(session, setup.draft.token).revision
    return {
        "uploads": uploads,
        "is_behind": current != setup.draft.revision,
        "most_files": MOST_FILES,
        "most_gb": MOST_BYTES // 10**9,
        "largest_mb": LARGEST_IMAGE // 10**6,
        "free_gb": space_left(folder) // 10**9,
    }


def filled(table: QueryTable) -> Mapping[str, int]:
    """The number of rows with each of the app's columns."""
    return {ours: sum(ours in row.value for row in table.rows) for ours in COLUMNS}


def datasets(setup: Setup) -> Sequence[tuple[str, int]]:
    """The datasets of the database with the numbers of their queries, but not the draft's own."""
    query = (
        select(Dataset.name, func.count(Triplet.id))
        .join(Triplet, Triplet.dataset_id == Dataset.id)
        .where(Dataset.name != setup.value("study.name"))
        .group_by(Dataset.name)
        .order_by(Dataset.name)
    )
    with setup.desk.database.reading() as session:
        return [(name, count) for name, count in session.execute(query)]


def number_of(request: Request, name: str) -> int:
    return number_in(request.query_params.get(name, ""))


# Rows to look at: wrong rows, and rows that were repaired or left out.


def rows_to_look_at(setup: Setup, table: QueryTable) -> Sequence[Mapping[str, object]]:
    """The rows to repair, up to a maximum: undecided rows first, in the order of the file."""
    repairs = setup.draft.content.repairs
    rows = {row_number(row.where): row.value for row in table.rows}
    wrong = {row_number(row.row.where): row for row in table.found if isinstance(row, WrongRow)}
    now = {row_number(row.row.where): row for row in setup.material.wrong}
    others = [number for number in rows if number not in now and number in {*wrong, *repairs}]
    return [
        {
            "number": number,
            "cells": rows[number],
            "wrong": now.get(number) or wrong.get(number),
            "repair": repairs.get(number),
            "is_undecided": number in now,
        }
        for number in sorted([*now, *others][:MOST_ROWS], key=int)
    ]


def ids_of(setup: Setup, table: QueryTable) -> set[str]:
    """The ids of all rows, including repaired ones."""
    repairs = setup.draft.content.repairs.values()
    ids = {str(row.value.get("query_id", "")).strip() for row in table.rows}
    return ids | {repair["query_id"] for repair in repairs if "query_id" in repair}


def free_id(value: str, taken: set[str]) -> str:
    """An unused id similar to another id: q21 for q20."""
    stem = value.strip().rstrip("0123456789")[:40] or "q"
    digits = value.strip()[len(stem) :][-9:] or "0"
    numbers = range(int(digits) + 1, int(digits) + len(taken) + 2)
    return next(wanted for n in numbers if (wanted := f"{stem}{n:0{len(digits)}}") not in taken)


def repair(setup: Setup) -> Said:
    """Replace a cell of a row; without a column, leave the row out."""
    row, column, value = (setup.desk.text(name) for name in ("row", "column", "value"))
    table = setup.material.table
    if table is None or not any(row_number(other.where) == row for other in table.rows):
        raise Refused("there is no such row")
    if column and column not in COLUMNS:
        raise Refused("there is no such column")
    before = setup.draft.content.repairs.get(row) or {}
    put_repairs(setup, {row: {**before, column: value} if column else {}})
    return Said(setup.desk.t("Done."), undo={"act": "restore", "row": row})


def leave_all(setup: Setup) -> Said:
    put_repairs(setup, {row_number(row.row.where): {} for row in setup.material.wrong})
    return Said(setup.desk.t("They are left out."), undo={"act": "undo"})


def restore(setup: Setup) -> None:
    """Restore the row of the file."""
    row = setup.desk.text("row")

    def without(content: Content) -> Content:
        others = {number: cells for number, cells in content.repairs.items() if number != row}
        return content.model_copy(update={"repairs": others})

    setup.change(without)


def put_repairs(setup: Setup, repairs: Mapping[str, Mapping[str, str]]) -> None:
    setup.change(
        lambda content: content.model_copy(update={"repairs": content.repairs | dict(repairs)})
    )


# Files, columns and datasets.


def remove(setup: Setup) -> Said:
    name = setup.desk.text("name")
    if setup.draft.content.file(name) is None:
        raise Refused("there is no such file")
    setup.change(lambda content: content.without_file(name))
    return Said(setup.desk.t("{name} was removed.", name=name), undo={"act": "undo"})


def forget(setup: Setup) -> None:
    """Delete the part of a file that has arrived."""
    for upload in uploads_of(setup.draft.folder):
        if upload.sent.key == setup.desk.text("key") and not upload.is_complete:
            upload.forget()


def column(setup: Setup) -> None:
    ours, theirs, table = setup.desk.text("field"), setup.desk.text("value"), setup.material.table
    if table is None or ours not in COLUMNS or theirs not in ("", *table.names):
        raise Refused("there is no such column")
    setup.change(
        lambda content: content.model_copy(update={"columns": content.columns | {ours: theirs}})
    )


def dataset(setup: Setup) -> Said:
    """Use the queries of a dataset, or the uploaded queries again."""
    name = setup.desk.text("dataset")
    if name and name not in dict(datasets(setup)):
        raise Refused("there is no such dataset")
    used = name or setup.value("study.name")
    setup.change(
        lambda content: content.model_copy(update={"dataset": name}).with_value(
            "queries.dataset", used
        )
    )
    return Said(go="images")


ACTS = (repair, restore, leave_all, remove, forget, column, dataset)
STEP = Step("images", "Images and queries", summary, view, {act.__name__: act for act in ACTS})


# Routes: parts of files, images, and the wrong rows as a table.


def add_uploads(app: FastAPI, studio: Studio) -> None:
    def received(request: Request, body: bytes) -> dict[str, object]:
        setup = setup_at(studio, request)
        if setup.is_fixed:
            raise Refused("this is fixed since the study was opened")
        given = request.query_params
        names = ("name", "stamp", "replaces")
        name, stamp, replaces = (given.get(each, "")[:1000] for each in names)
        upload = begin(setup.draft, Sent(name, number_of(request, "size"), stamp, replaces))
        n_bytes = receive(upload, number_of(request, "offset"), body)
        if upload.is_complete:
            settle(setup, upload)
        return {"key": upload.sent.key, "received": n_bytes}

    @app.post(DRAFT_UPLOAD)
    async def part(request: Request) -> dict[str, object]:
        """Store a part of a file; none if the offset is 0 and the body empty."""
        return await run_in_threadpool(received, request, await request.body())

    @app.get(f"{OWNER}/draft/{{token}}/image/{{name:path}}")
    def image(request: Request, name: str) -> Response:
        draft = setup_at(studio, request).draft
        images = images_of(draft.content, draft.folder)
        try:
            image_id = "" if images is None else images.id_of(name)
        except UnknownName:
            image_id = ""
        if not image_id:
            return not_found(NO_SUCH_IMAGE)
        path = image_root(draft.content, draft.folder) / image_id
        return file_response(studio.services.images.copies, path, request)

    @app.get(f"{OWNER}/draft/{{token}}/rows.csv")
    def rows(request: Request) -> Response:
        lines = csv_bytes(csv_lines(setup_at(studio, request)))
        return saved_file("rows.csv", BOM_UTF8 + lines, MEDIA_TYPES["csv"])


def csv_lines(setup: Setup) -> Iterator[Sequence[object]]:
    """The invalid rows, with the file's own column names."""
    table = setup.material.table
    columns = {} if table is None else {"query_id": "query_id", **table.columns}
    yield [*map(spreadsheet_text, ("row", *columns.values(), "what is wrong"))]
    for row in setup.material.wrong:
        why = "; ".join(error.what for error in row.errors)
        values = (str(row.row.value.get(ours, "")) for ours in columns)
        yield [*map(spreadsheet_text, (row_number(row.row.where), *values, why))]


PATIENCE = 2.0
"""Seconds that a request waits for a small file to be put in place."""


def settle(setup: Setup, upload: Upload, patience: float = PATIENCE) -> None:
    """Put a complete file in place in a thread, which continues after the request."""

    def work() -> None:
        lower_priority()
        try:
            finish(setup.desk.database, setup.draft.token, setup.desk.actor, upload)
        except (HsfiqError, SQLAlchemyError, OSError):
            logger.exception("an upload could not be put in place; the next visit tries again")

    thread = Thread(target=work, name="upload", daemon=True)
    thread.start()
    thread.join(patience)
