"""The list of studies, from which a study is set up, watched and reported; the first visit."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.access import user_with_id
from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.studio.learning import JOB_ACTS, jobs_view
from hsfiq.annotate.studio.shell import Desk, Page, Said, Studio, desk_of
from hsfiq.audit import last_time, record
from hsfiq.collect.progress import progress_of
from hsfiq.collect.studies import find_study, list_studies
from hsfiq.db.failures import first_existing
from hsfiq.db.source_tables import Dataset, Image, Login
from hsfiq.db.studio_tables import Draft, DraftChange, Job
from hsfiq.db.tables import Pair, RetrievedImage, RetrievedSet, Study
from hsfiq.drafts import (
    Content,
    copy_study,
    create_draft,
    draft_folder,
    draft_of_study,
    find_draft,
    free_name,
    list_drafts,
    new_content,
    stated,
)
from hsfiq.errors import Refused, UnreadableInput
from hsfiq.jobs import FOLDER, add_job, uploads_home
from hsfiq.public_url import is_local

STATES = ("draft", "open", "paused", "closed", "simulated")


@dataclass(frozen=True, slots=True)
class Row:
    """A study or a draft; `answered` of `questions` is its progress, None for a draft."""

    title: str
    about: str
    state: str
    address: str
    next: str
    key: str
    images: Sequence[str] = ()
    answered: int | None = None
    questions: int = 0
    people: int = 0
    can_copy: bool = False


def rows_of(session: Session, desk: Desk) -> list[Row]:
    """Drafts first, the one that was changed last at the top; then studies, the newest first."""
    studies = {study.id: study for study in list_studies(session)}
    not_opened = [
        draft
        for draft in list_drafts(session)
        if draft.study_id not in studies or studies[draft.study_id].status == "draft"
    ]
    shown = {draft.study_id for draft in not_opened}
    rows = [draft_row(draft, desk) for draft in not_opened] if desk.may("manage") else []
    return rows + [
        study_row(session, study, desk)
        for study in reversed(studies.values())
        if study.id not in shown
    ]


def draft_row(draft: Draft, desk: Desk) -> Row:
    content = Content.model_validate(draft.content)
    name = str(content.value("study.name"))
    return Row(
        title=str(content.value("study.title")) or name,
        about=name,
        state="draft",
        address=f"draft/{draft.token}/images",
        next=desk.t("Continue"),
        key=draft.token,
    )


def study_row(session: Session, study: Study, desk: Desk) -> Row:
    progress = progress_of(session, study)
    page, then = ("results", "Results") if study.status == "closed" else ("watch", "Watch")
    if not desk.may("read"):
        page, then = "recruiting", "Recruiting"
    return Row(
        title=study.title,
        about=study.name,
        state="simulated" if study.origin == "simulated" else study.status,
        address=f"study/{study.id}/{page}",
        next=desk.t(then),
        key=study.name,
        images=first_images(session, study.id) if desk.may("read") else (),
        answered=progress.answered,
        questions=progress.questions,
        people=progress.participants,
        can_copy=study.source_sha256 is None,
    )


def first_images(session: Session, study_id: int) -> Sequence[str]:
    """The addresses of five images that the study shows."""
    first_set = select(Pair.first_id).where(Pair.study_id == study_id).limit(1).scalar_subquery()
    shown = (
        select(Image.token)
        .join(RetrievedImage, RetrievedImage.image_id == Image.id)
        .join(RetrievedSet, RetrievedImage.set_id == RetrievedSet.id)
        .where(RetrievedSet.id == first_set)
        .order_by(RetrievedImage.rank)
        .limit(5)
    )
    return session.scalars(shown).all()


def view(desk: Desk) -> Mapping[str, object]:
    query = desk.request.query_params
    wanted, state = query.get("q", "").strip(), query.get("state", "")
    with desk.database.reading() as session:
        rows = rows_of(session, desk)
        installation = installation_of(session, desk) if desk.may("manage") else None
        jobs = jobs_view(session, desk) if desk.may("manage") else []
    matching = [row for row in rows if wanted.lower() in f"{row.title} {row.about}".lower()]
    return {
        "title": desk.t("Studies"),
        "rows": [row for row in matching if not state or row.state == state],
        "wanted": wanted,
        "state": state,
        "counts": {name: sum(row.state == name for row in matching) for name in STATES},
        "n_found": len(matching),
        "is_first": not rows,
        "installation": installation,
        "jobs": jobs,
    }


def installation_of(session: Session, desk: Desk) -> Mapping[str, object]:
    """Information about the server for owners; space is in GB."""
    home = uploads_home(desk.database)
    usage = shutil.disk_usage(first_existing(home) or Path("/"))
    valid = select(Login.account_id).where(Login.expires_at > datetime.now(UTC)).distinct()
    users = (user_with_id(session, key) for key in session.scalars(valid))
    address = str(desk.request.base_url)
    return {
        "address": address,
        "is_local": is_local(address),
        "free": usage.free / 1e9,
        "total": usage.total / 1e9,
        "backup": last_time(session, Action.DB_BACKUP),
        "people": [f"{user.name} ({user.role})" for user in users if user is not None],
    }


def new_study(desk: Desk) -> Said:
    with desk.database.writing() as session:
        content = new_content(free_name(session, "study"), desk.t("New study"))
        draft = create_draft(session, desk.actor, content, desk.text("once"))
    return Said(go=f"draft/{draft.token}/images")


def open_file(desk: Desk) -> Said:
    """A draft with the tables of a study.toml; its dataset must be in the database."""
    text, once = desk.text("file"), desk.text("once")
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise UnreadableInput("study.toml", f"broken TOML ({error})") from error
    with desk.database.writing() as session:
        content = stated(Content(config=tables))
        name = str(content.value("study.name"))
        if find_study(session, name) is not None:
            raise Refused(f"a study {name} already exists", remedy="change study.name")
        dataset = str(content.value("queries.dataset", "fashioniq"))
        if session.scalar(select(Dataset.id).where(Dataset.name == dataset)) is not None:
            content = content.model_copy(update={"dataset": dataset})
        draft = create_draft(session, desk.actor, content, once and once + text)
    return Said(go=f"draft/{draft.token}/images")


def sample(desk: Desk) -> Said:
    about, command = desk.t("Making the sample study"), ["study", "sample"]
    with desk.database.writing() as session:
        add_job(session, desk.actor, "sample", about, [command])
    return Said(desk.t("The sample study will appear in about a minute."))


def copy(desk: Desk) -> Said:
    draft = copy_study(
        desk.database, desk.actor, desk.text("study"), desk.t("copy"), desk.text("once")
    )
    line = desk.t("The copy is a draft at the top of the list.")
    return Said(line, {"act": "delete_draft", "draft": draft.token})


def delete_draft(desk: Desk) -> Said:
    """Delete a draft with its files; a study that was drawn from it must not have been opened."""
    token = desk.text("draft")
    with desk.database.writing() as session:
        draft = find_draft(session, token, lock=True)
        study = None if draft.study_id is None else session.get(Study, draft.study_id)
        if study is not None and study.status != "draft":
            raise Refused("this study has been opened", remedy="close it, then delete the study")
        session.execute(delete(DraftChange).where(DraftChange.draft_id == draft.id))
        session.execute(delete(Job).where(Job.draft_id == draft.id))
        session.delete(draft)
        record(session, desk.actor, Action.DRAFT_DELETE, about=f"draft {token}")
    shutil.rmtree(draft_folder(desk.database, token), ignore_errors=True)
    return Said(desk.t("The draft was deleted."))


def delete_study(desk: Desk) -> Said:
    """Delete a closed study, after a backup of the database."""
    name = desk.text("study")
    command = ["study", "delete", name, "--yes", "--backup", f"{FOLDER}/before-deletion.backup"]
    with desk.database.writing() as session:
        study = find_study(session, name)
        if study is None or study.status in ("open", "paused"):
            raise Refused("only closed studies can be deleted", remedy="close it first")
        about = desk.t("Deleting {title}, after a backup", title=study.title)
        add_job(session, desk.actor, "delete", about, [command])
    return Said(desk.t("The study will be deleted shortly."))


HOME = Page(
    "",
    "studio_home.html",
    view,
    {
        "new": new_study,
        "open_file": open_file,
        "sample": sample,
        "copy": copy,
        "delete_draft": delete_draft,
        "delete_study": delete_study,
        **JOB_ACTS,
    },
    permission=None,
)


def add_setup(app: FastAPI, studio: Studio) -> None:
    @app.get(f"{OWNER}/study/{{study_id}}/setup")
    def setup(request: Request, study_id: int, step: str = "") -> Response:
        """A step of a study, or else its first step that can change; there may be no draft yet."""
        desk = desk_of(studio, request, Permission.MANAGE)
        with desk.database.writing() as session:
            study = session.get(Study, study_id) if abs(study_id) < 2**31 else None
            if study is None:
                return RedirectResponse("../../", status_code=303)
            token = draft_of_study(session, study, desk.actor).token
            if not step.isalpha():
                step = "images" if study.status == "draft" else "question"
        return RedirectResponse(f"../../draft/{token}/{step}", status_code=303)
