"""The dashboard's form that corrects a study's texts and codes, with a preview of what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Action
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.running.studies import change_study, study_page
from hsfiq.audit import record
from hsfiq.collect.owner import Edit, ForbiddenEdit, perform_edit, prepare_edit
from hsfiq.collect.studies import require_unfinished
from hsfiq.db.tables import Study
from hsfiq.errors import Conflict, Refused
from hsfiq.study.config import config_of
from hsfiq.study.texts import TextField, WrongTexts, corrected, difference, text_fields

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
