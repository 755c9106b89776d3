"""Downloads of the owner: a release of the current answers, and the audit log."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.login import OWNER, Identities
from hsfiq.annotate.owner.study_pages import study_of, study_page
from hsfiq.audit import FORMATS, Selection, count_entries, entries, newest_entries, record
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo, Refused
from hsfiq.kinds import release_kinds_of
from hsfiq.releases.content import LIVE, Source, write_files
from hsfiq.study.filters import Filters
from hsfiq.text import count_text

# The page of a study's audit log, and the log as a file.
#
# Both also have the entries about no study, such as logins and backups. The login's middleware lets
# only owners reach the routes.

SHOWN = 300
"""The most entries on the page; the file has all."""

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}


def add_audit(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    path = f"{OWNER}/audit/{{study_id}}"

    @app.get(path)
    def page(study_id: int) -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            selection = Selection(study.name, with_general=True)
            return {
                "entries": newest_entries(session, selection, SHOWN),
                "number": count_entries(session, selection),
                "formats": FORMATS,
            }

        return study_page(database, study_id, "owner_audit.html", "Audit log of {}", content)

    @app.get(f"{path}/{{file_format}}")
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
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(write(rows), media_type=MEDIA_TYPES[file_format], headers=headers)


CHUNK = 256 * 1024
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip, so that the same answers give the same bytes."""


def add_export(app: FastAPI, identities: Identities) -> None:
    @app.get(f"{OWNER}/export/{{study_id}}/{{kind}}")
    def export(request: Request, study_id: int, kind: str) -> Response:
        identities.require(request, Permission.EXPORT)
        with identities.database.reading() as session:
            study = session.get(Study, study_id) if study_id < 2**31 else None
            if study is None:
                return JSONResponse({"error": "there is no such study"}, status_code=404)
            if kind not in release_kinds_of(study.kind):
                return JSONResponse({"error": "the study has no such release"}, status_code=404)
            source = Source(session, study, kind, Filters())
            try:
                archive = zipped(source)
            except NothingToDo as error:
                return JSONResponse({"error": str(error)}, status_code=409)
        with ExitStack() as on_error:
            on_error.enter_context(archive)
            about = f"{source.name} {LIVE}"
            # Writing it may take minutes: the account may have been disabled.
            actor = identities.actor_of(request, Permission.EXPORT)
            with identities.database.writing() as session:
                record(session, actor, Action.DATA_EXPORT, study=study.name, about=about)
            on_error.pop_all()
        name = ascii_name(f"{source.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        return StreamingResponse(
            chunks(archive),
            media_type="application/zip",
            headers={"Content-Disposition": f'attachment; filename="{name}.zip"'},
        )


def zipped(source: Source) -> BinaryIO:
    """A temporary file with the release as an archive; `NothingToDo` if there are no answers."""
    with TemporaryDirectory() as name:
        write_files(source, Path(name), schema_revision=head_revision(), version=LIVE)
        return zip_of_folder(Path(name), source.name)


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


def ascii_name(name: str) -> str:
    """The file name with everything replaced that a header cannot hold."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
