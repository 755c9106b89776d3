"""The page of a study's audit log, and the log as a file.

Both also have the entries about no study, such as logins and backups. The login's middleware lets
only owners reach the routes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import study_of, study_page
from hsfiq.audit import FORMATS, Selection, count_entries, entries, newest_entries, record
from hsfiq.db.tables import Study
from hsfiq.errors import Refused
from hsfiq.text import count_text

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
