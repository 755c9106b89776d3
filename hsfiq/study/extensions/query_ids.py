"""Read the queries of an extension from a file with one query id a line."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import Query, Triplet
from hsfiq.errors import FileErrors, UnreadableInput
from hsfiq.readers.files import read_text


def queries_of_file(
    session: Session, path: Path, available: Set[int], asked: Set[int]
) -> list[int]:
    """The keys of the queries that a file lists, sorted; empty lines are skipped.

    Raises:
        FileErrors: lines that name a query twice, one that is not available, or one that is asked
            already.
        UnreadableInput: the file cannot be read, or lists nothing.
    """
    rows = session.execute(
        select(Query.id, Triplet.external_id + Query.suffix).join(
            Triplet, Query.triplet_id == Triplet.id
        )
    ).all()
    keys = {name: key for key, name in rows if key in available}
    known = {name for key, name in rows if key in asked}
    chosen: dict[str, int] = {}
    errors = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name = line.strip()
        if not name:
            continue
        if name in chosen:
            errors.append(f"{path}: line {number}: {name!r} is listed twice; delete one")
        elif name in keys:
            chosen[name] = keys[name]
        elif name in known:
            errors.append(
                f"{path}: line {number}: the study asks about {name!r} already; delete it"
            )
        else:
            errors.append(
                f"{path}: line {number}: no query {name!r} matches the study's [queries]; "
                "delete it, or import the query and its runs first"
            )
    if errors:
        raise FileErrors(errors)
    if not chosen:
        raise UnreadableInput(str(path), "lists no query", "write one query id a line")
    return sorted(chosen.values())
