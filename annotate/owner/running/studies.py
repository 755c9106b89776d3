"""The dashboard's pages about one study, and the changes that their forms ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fastapi import Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.pages import render
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Refused, Unavailable

T = TypeVar("T")

Content = Callable[[Session, Study], Mapping[str, object]]
"""The values of a page's template, beside the study."""


def study_of(session: Session, study_id: int) -> Study:
    study = session.get(Study, study_id) if study_id < 2**31 else None
    if study is None:
        raise Refused("there is no such study")
    return study


def missing(title: str, error: Refused, root: str = "../") -> Response:
    page = render("owner_missing.html", title=title, root=root, reason=str(error))
    return HTMLResponse(page, status_code=404)


def study_page(
    database: Database,
    study_id: int,
    template: str,
    title: str,
    content: Content,
    *,
    root: str = "../",
    status: int = 200,
    refused: Callable[[Refused], Response] | None = None,
) -> Response:
    """A page about a study, whose name replaces `{}` in the title.

    If there is no such study, or `content` raises `Refused`: the answer of `refused`, by default
    status 404. `root` leads from the page to the dashboard's other pages.
    """
    try:
        with database.reading() as session:
            study = study_of(session, study_id)
            title = title.format(study.name)
            page = render(template, title=title, root=root, study=study, **content(session, study))
    except Unavailable:
        raise
    except Refused as error:
        return missing("Not found", error, root) if refused is None else refused(error)
    return HTMLResponse(page, status_code=status)


def change_study(
    database: Database,
    study_id: int,
    change: Callable[[Session, Study], T],
    *,
    done: Callable[[T], Response],
    refused: Callable[[Refused], Response],
) -> Response:
    """Change a study in one transaction; answer with `done` after its commit, or with `refused`."""
    try:
        with database.writing() as session:
            result = change(session, study_of(session, study_id))
    except Unavailable:
        raise  # the middleware's page sends what was typed again
    except Refused as error:
        return refused(error)
    return done(result)
