"""The study that a page of the dashboard is about, and the page for one that does not exist."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.pages import render
from hsfiq.db.tables import Study
from hsfiq.errors import Refused


def study_of(session: Session, study_id: int) -> Study:
    study = session.get(Study, study_id) if study_id < 2**31 else None
    if study is None:
        raise Refused("there is no such study")
    return study


def missing(title: str, error: Refused, root: str = "../") -> Response:
    page = render("owner_missing.html", title=title, root=root, reason=str(error))
    return HTMLResponse(page, status_code=404)
