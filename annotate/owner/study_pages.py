"""The owner's pages for running studies: invitations, messages, texts and states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, TypeVar

from fastapi import Depends, FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor, Permission
from hsfiq.annotate.owner.login import OWNER, Identities
from hsfiq.annotate.pages import render
from hsfiq.annotate.preview import new_preview, preview_path
from hsfiq.audit import record
from hsfiq.collect.messages import send_message, sent_messages
from hsfiq.collect.owner import Edit, ForbiddenEdit, perform_edit, prepare_edit
from hsfiq.collect.participants import by_name_or_platform_id, invite, places_for_invitations
from hsfiq.collect.studies import is_finished, require_unfinished
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Conflict, Refused, Unavailable
from hsfiq.study.config import config_of
from hsfiq.study.texts import (
    TextField,
    WrongTexts,
    answers_by_version,
    corrected,
    difference,
    text_fields,
    version_notes,
)
from hsfiq.text import count_text

# The dashboard's pages about one study, and the changes that their forms ask for.

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


# The dashboard's page of invitations: making personal links, which are shown once.

MOST_AT_ONCE = 500

Link = tuple[str, str]
"""A participant's name and their link."""


def new_links(
    session: Session, study: Study, number: int, actor: Actor, root: str
) -> Sequence[Link]:
    """Invite so many people to a study; their links, which begin with the address `root`."""
    if not 1 <= number <= MOST_AT_ONCE:
        raise Refused(f"Choose a number from 1 to {MOST_AT_ONCE}.")
    require_unfinished(study)
    people = invite(session, study.id, number, now=datetime.now(UTC))
    about = count_text(number, "invitation")
    record(session, actor, Action.STUDY_INVITE, study=study.name, about=about)
    return [(each.name, f"{root}start/{each.token}") for each in people]


def add_invitations(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    path = f"{OWNER}/invitations/{{study_id}}"

    @app.get(path)
    def invitations(study_id: int) -> Response:
        return page(study_id)

    @app.post(path)
    def create(request: Request, study_id: int, count: Annotated[str, Form()] = "") -> Response:
        number = int(count) if count.isascii() and count.isdigit() and len(count) < 9 else 0
        if not 1 <= number <= MOST_AT_ONCE:
            return page(study_id, f"Choose a number from 1 to {MOST_AT_ONCE}.")
        actor = identities.actor_of(request)

        def change(session: Session, study: Study) -> Sequence[Link]:
            return new_links(session, study, number, actor, str(request.base_url))

        return change_study(
            database,
            study_id,
            change,
            done=lambda links: page(study_id, links=links),
            refused=lambda error: page(study_id, f"No invitation was made: {error}"),
        )

    def page(study_id: int, notice: str = "", links: Sequence[Link] = ()) -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "places": places_for_invitations(session, study, datetime.now(UTC)),
                "notice": notice,
                "links": links,
                "most": MOST_AT_ONCE,
            }

        template, title = "owner_invitations.html", "Invitations to {}"
        status = Refused.status if notice else 200
        return study_page(database, study_id, template, title, content, status=status)


# The dashboard's page of messages: sending them, and how many have seen them.


def add_messages(app: FastAPI, identities: Identities) -> None:
    database = identities.database

    @app.get(f"{OWNER}/messages/{{study_id}}")
    def messages(study_id: int) -> Response:
        return page(study_id)

    @app.post(f"{OWNER}/messages/{{study_id}}")
    def send(
        request: Request,
        study_id: int,
        text: Annotated[str, Form()] = "",
        participant: Annotated[str, Form()] = "",
    ) -> Response:
        actor, name = identities.actor_of(request), participant.strip()

        def change(session: Session, study: Study) -> None:
            person = by_name_or_platform_id(session, study, name) if name else None
            send_message(session, study, text, to=person, now=datetime.now(UTC))
            whom = person.name if person else "everybody"
            record(session, actor, Action.STUDY_MESSAGE, study=study.name, about=whom)

        return change_study(
            database,
            study_id,
            change,
            done=lambda _: RedirectResponse(str(study_id), status_code=303),
            refused=lambda error: page(study_id, f"Not sent: {error}", text, participant),
        )

    def page(study_id: int, notice: str = "", text: str = "", participant: str = "") -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "messages": sent_messages(session, study),
                "notice": notice,
                "text": text,
                "participant": participant,
            }

        template, title = "owner_messages.html", "Messages of {}"
        status = Refused.status if notice else 200
        return study_page(database, study_id, template, title, content, status=status)


# The dashboard's form that corrects a study's texts and codes, with a preview of what changes.

FORM = "owner_edit_texts.html", "Correct the texts of {}"
CHANGES = "owner_text_changes.html", "Changes of the texts of {}"
ROOT = "../../"

PREFIX = "text:"
"""Before a text's key in the names of the form's fields."""

HINTS = {
    "study.guidelines": "Markdown; empty: the standard text",
    "study.consent": "Markdown; empty: the standard text",
    "study.minutes": "0: measured, or estimated",
    "study.set_names": "one on each line",
    "wording.anchors": "one on each line, lowest first; empty: the standard ones",
    "wording.levels": "one on each line, lowest first; empty: the standard ones",
}
GROUPS = {
    "study": "Study",
    "wording": "Words of the question page; empty: the standard ones",
    "practice": "Practice question",
    "questionnaire": "Extra questions",
    "recruitment": "Completion codes",
}


async def form_values(request: Request) -> dict[str, str]:
    """The form's fields, whose size the app's middleware limits."""
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


Values = Annotated[dict[str, str], Depends(form_values)]


@dataclass(frozen=True, slots=True)
class Field:
    """A field as the page shows it."""

    name: str
    label: str
    hint: str
    type: str
    value: str
    rows: int


def add_text_form(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    path = f"{OWNER}/texts/{{study_id}}/edit"

    @app.get(path)
    def form(study_id: int) -> Response:
        def content(_session: Session, study: Study) -> dict[str, object]:
            require_unfinished(study)
            return form_content(study, {}, study.text_version)

        return study_page(database, study_id, *FORM, content, root=ROOT)

    @app.post(path)
    def change(request: Request, study_id: int, values: Values) -> Response:
        entered = {
            name.removeprefix(PREFIX): value
            for name, value in values.items()
            if name.startswith(PREFIX)
        }
        version_seen, action = version_in(values), values.get("action")
        actor = identities.actor_of(request)

        def form_again(error: Refused | None = None) -> Response:
            """The form with what was entered so far, and why that was refused."""
            status = error.status if error else 200

            def content(_session: Session, study: Study) -> dict[str, object]:
                return form_content(study, entered, version_seen, error)

            return study_page(database, study_id, *FORM, content, root=ROOT, status=status)

        def changes(_session: Session, study: Study) -> dict[str, object]:
            edit = prepared(study, entered, version_seen)
            return changes_content(edit, entered)

        def store(session: Session, study: Study) -> None:
            edit = prepared(study, entered, version_seen)
            about = f"text version {perform_edit(session, edit, datetime.now(UTC)).number}"
            record(session, actor, Action.STUDY_EDIT, study=study.name, about=about)

        if action == "edit":
            return form_again()
        if action == "store":
            return change_study(
                database,
                study_id,
                store,
                done=lambda _: RedirectResponse(f"../{study_id}", status_code=303),
                refused=form_again,
            )
        return study_page(database, study_id, *CHANGES, changes, root=ROOT, refused=form_again)


def version_in(values: Mapping[str, str]) -> int | None:
    """The version of the texts that the form was filled with."""
    number = values.get("version", "")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None


def prepared(study: Study, entered: Mapping[str, str], version_seen: int | None) -> Edit:
    """The edit that the form asks for, or `Refused`."""
    if study.text_version != version_seen:
        raise Conflict(
            f"the texts are now version {study.text_version}",
            remedy="open this page again; what you wrote is still here to be copied",
        )
    return prepare_edit(study, corrected(config_of(study), entered), version_seen)


def form_content(
    study: Study,
    entered: Mapping[str, str],
    version_seen: int | None,
    error: Refused | None = None,
) -> dict[str, object]:
    fields = [field_of(field, entered) for field in text_fields(config_of(study))]
    groups = [
        (title, list(members))
        for title, members in groupby(fields, lambda field: group_of(field.name))
    ]
    return {"version": shown_version(version_seen), "groups": groups, "errors": errors_in(error)}


def errors_in(error: Refused | None) -> list[str]:
    if isinstance(error, WrongTexts | ForbiddenEdit):
        return list(map(str, error.errors))
    return [str(error)] if error else []


def changes_content(edit: Edit, entered: Mapping[str, str]) -> dict[str, object]:
    """What would change, and the form's content for storing it or for going on."""
    return {
        "version": shown_version(edit.version_seen),
        "difference": difference(edit.changes),
        "given": {f"{PREFIX}{key}": text for key, text in entered.items()},
    }


def shown_version(version: int | None) -> int | str:
    return "" if version is None else version


def field_of(field: TextField, entered: Mapping[str, str]) -> Field:
    value = entered.get(field.key, field.value)
    lines = value.count("\n") + 1 + len(value) // 90
    least = {"text": 4, "lines": 3, "json": 3}.get(field.type, 1)
    hint = HINTS.get(field.key, "")
    if not hint and field.type in ("lines", "text", "json"):
        hint = {"lines": "one on each line", "json": "as in the language's JSON file"}.get(
            field.type, "Markdown"
        )
    return Field(
        name=f"{PREFIX}{field.key}",
        label=label_of(field.key),
        hint=hint,
        type=field.type,
        value=value,
        rows=min(max(least, lines), 24),
    )


def label_of(key: str) -> str:
    """The key of study.toml, or the name of a language file."""
    label = key.replace("study.translations.", "study.")
    return f"{label.split('.')[1]}.json" if label.endswith(".texts") else label


def group_of(name: str) -> str:
    key = name.removeprefix(PREFIX)
    if key.startswith("study.translations."):
        return f"Language {key.split('.')[2]}"
    return GROUPS[key.partition(".")[0]]


# The routes of the dashboard's links; the login's middleware lets only the owner reach them.


def add_running_study(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    add_invitations(app, identities)
    add_messages(app, identities)
    add_text_form(app, identities)

    @app.get(f"{OWNER}/preview/{{study_id}}")
    def preview(request: Request, study_id: int) -> Response:
        user = identities.require(request, Permission.READ)
        with database.reading() as session:
            try:
                study = study_of(session, study_id)
                place = new_preview(session, study, account=user.account_id)
            except Refused as error:
                return missing("No preview", error)
        with database.writing() as session:
            record(session, Actor(user.name), Action.STUDY_PREVIEW, study=study.name)
        return RedirectResponse(f"../..{preview_path(identities.signer, place)}", status_code=303)

    @app.get(f"{OWNER}/texts/{{study_id}}")
    def texts(study_id: int) -> Response:
        def content(session: Session, study: Study) -> dict[str, object]:
            return {
                "versions": version_notes(session, study),
                "counts": answers_by_version(session, study),
                "may_edit": not is_finished(study),
            }

        return study_page(database, study_id, "owner_texts.html", "Texts of {}", content)
