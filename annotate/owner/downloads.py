"""Downloads of the owner: the audit log, and folders as archives."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from hsfiq.actors import Action
from hsfiq.annotate.owner.login import OWNER, Identities
from hsfiq.annotate.owner.study_pages import study_of
from hsfiq.audit import FORMATS, Selection, entries, record
from hsfiq.errors import Refused
from hsfiq.payout import csv_bytes
from hsfiq.text import count_text

# A study's audit log as a file, which the page "History" shows.
#
# It also has the entries about no study, such as logins and backups. The login's middleware lets
# only owners reach the route.

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}


def add_audit(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(f"{OWNER}/audit/{{study_id}}/{{file_format}}")
    def download(request: Request, study_id: int, file_format: str) -> Response:
        write = FORMATS.get(file_format)
        if write is None:
            return JSONResponse({"error": "there is no such format"}, status_code=404)
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
            except Refused as error:
                return JSONResponse({"error": str(error)}, status_code=404)
            rows = entries(session, Selection(study.name, with_general=True))
        about = count_text(len(rows), "entry", "entries")
        actor = identities.actor_of(request)
        with database.writing() as session:
            record(session, actor, Action.AUDIT_EXPORT, study=study.name, about=about)
        name = f"audit-{study.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{file_format}"
        return saved_file(name, write(rows), MEDIA_TYPES[file_format])


def saved_file(name: str, content: bytes | str, media_type: str) -> Response:
    """A file that the browser saves; every study name is valid in a header."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=media_type, headers=headers)


def csv_file(name: str, rows: Iterable[Sequence[object]]) -> Response:
    return saved_file(name, csv_bytes(rows), MEDIA_TYPES["csv"])


# Folders as archives.

CHUNK = 256 * 1024
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip, so that the same answers give the same bytes."""


def zip_of_folder(folder: Path, name: str) -> BinaryIO:
    """A temporary file with the files of a folder, below `name`, as an archive."""
    with ExitStack() as on_error:
        file = on_error.enter_context(TemporaryFile())
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(each for each in folder.rglob("*") if each.is_file()):
                member = zipfile.ZipInfo(f"{name}/{path.relative_to(folder)}", TIMESTAMP)
                member.compress_type = zipfile.ZIP_DEFLATED
                member.file_size = path.stat().st_size
                with path.open("rb") as content, archive.open(member, "w") as copy:
                    shutil.copyfileobj(content, copy)
        on_error.pop_all()
    file.seek(0)
    return file


def chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk
