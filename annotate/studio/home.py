"""The list of studies, from which a study is set up, watched and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.actors import Permission
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.studio.shell import Desk, Page, Said, Studio, add_page, desk_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.studio_tables import Draft
from hsfiq.db.tables import Study
from hsfiq.drafts import Content, create_draft, draft_of_study, free_name, new_content


@dataclass(frozen=True, slots=True)
class Row:
    """A study or a draft in the list."""

    title: str
    state: str
    address: str
    changed_at: datetime | None
    answered: int = 0
    questions: int = 0
    about: str = ""


def rows_of(session: Session) -> Sequence[Row]:
    drafts = {draft.study_id or -draft.id: draft for draft in session.scalars(select(Draft))}
    rows = []
    for study in reversed(list_studies(session)):
        draft = drafts.pop(study.id, None)
        if study.status == "draft" and draft is not None:
            drafts[-draft.id] = draft
            continue
        rows.append(study_row(session, study))
    waiting = [draft_row(draft) for draft in drafts.values() if draft.study_id is None or draft.id]
    return [*waiting, *rows]


def study_row(session: Session, study: Study) -> Row:
    state = "simulated" if study.origin == "simulated" else study.status
    return Row(study.title, state, f"study/{study.id}/watch", None)


def draft_row(draft: Draft) -> Row:
    content = Content.model_validate(draft.content)
    title = str(content.value("study.title")) or str(content.value("study.name"))
    return Row(title, "draft", f"draft/{draft.token}/images", draft.changed_at)


def view(desk: Desk) -> Mapping[str, object]:
    with desk.database.reading() as session:
        rows = rows_of(session)
    return {"title": desk.t("Studies"), "rows": rows}


def new_study(desk: Desk) -> Said:
    with desk.database.writing() as session:
        name = free_name(session, desk.text("name") or "study")
        draft = create_draft(
            session, desk.actor, new_content(name, desk.text("title") or desk.t("New study"))
        )
    return Said(go=f"draft/{draft.token}/images")


HOME = Page("", "studio_home.html", view, {"new": new_study}, permission=Permission.READ)


def add_home(app: FastAPI, studio: Studio) -> None:
    add_page(app, studio, HOME)

    @app.get(f"{OWNER}/study/{{study_id}}/setup")
    def setup(request: Request, study_id: int) -> Response:
        """The steps of a study, also of one that was made from a file."""
        desk = desk_of(studio, request, Permission.MANAGE)
        with desk.database.writing() as session:
            study = session.get(Study, study_id)
            if study is None:
                return RedirectResponse("../../", status_code=303)
            token = draft_of_study(session, study, desk.actor).token
        return RedirectResponse(f"../../draft/{token}/images", status_code=303)
