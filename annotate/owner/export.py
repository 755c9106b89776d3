"""The live export: a release of the current answers as a zip file."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.owner.identity import require_owner
from hsfiq.annotate.owner.login import OWNER, password_in
from hsfiq.db.engine import Database
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo
from hsfiq.releases import Filters, Release, build
from hsfiq.releases.kinds import release_kinds_of

LIVE = "0.0.0"
"""The version of a live export; real versions are given by `hsfiq export`."""

CHUNK = 256 * 1024
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip, so that the same answers give the same bytes."""


def add_export(app: FastAPI, database: Database, signer: Signer) -> None:
    @app.get(f"{OWNER}/export/{{study_id}}/{{kind}}")
    def export(request: Request, study_id: int, kind: str) -> Response:
        require_owner(request.headers, request.cookies, signer, password_in(database))
        with database.reading() as session:
            study = session.get(Study, study_id) if study_id < 2**31 else None
            if study is None:
                return JSONResponse({"error": "there is no such study"}, status_code=404)
            if kind not in release_kinds_of(study.kind):
                return JSONResponse({"error": "the study has no such release"}, status_code=404)
            try:
                release = build(
                    session, study, kind, Filters(),
                    schema_revision=head_revision(), version=LIVE,
                )  # fmt: skip
            except NothingToDo as error:
                return JSONResponse({"error": str(error)}, status_code=409)
        name = ascii_name(f"{release.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        content = zipped(release)
        return StreamingResponse(
            (content[start : start + CHUNK] for start in range(0, len(content), CHUNK)),
            media_type="application/zip",
            headers={"Content-Disposition": f'attachment; filename="{name}.zip"'},
        )


def zipped(release: Release) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(release.files.items()):
            member = zipfile.ZipInfo(f"{release.name}/{path}", TIMESTAMP)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return buffer.getvalue()


def ascii_name(name: str) -> str:
    """The file name with everything replaced that a header cannot hold."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
