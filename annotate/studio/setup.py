"""The six steps on which a study is set up: their frame, and fields that save themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from fastapi import FastAPI, Request, Response

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.downloads import saved_file
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.studio.shell import Act, Desk, Page, Said, Studio, add_page, desk_of
from hsfiq.audit import record
from hsfiq.collect.owner import perform_edit, prepare_edit
from hsfiq.collect.studies import find_study
from hsfiq.drafts import (
    PEOPLE,
    ChangedElsewhere,
    Content,
    Material,
    Snapshot,
    change_draft,
    content_of,
    material_of,
    read_draft,
    save_value,
    snapshot,
    toml_of,
    undo,
)
from hsfiq.errors import Conflict, Refused
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.config_file import enclosing

MOST_WRONG = "recruitment.max_failed_checks"

State = Literal["", "good", "warn", "bad"]


class Summary(NamedTuple):
    """The line below a step's name; `bad` blocks the launch, `warn` does not."""

    text: str
    state: State = ""


@dataclass(frozen=True)
class Setup:
    """A draft at the time of a request, with the content of its tables and files."""

    desk: Desk
    draft: Snapshot

    @cached_property
    def read(self) -> tuple[StudyConfig, Mapping[str, str]]:
        return read_draft(self.draft.content, self.draft.folder)

    @property
    def config(self) -> StudyConfig:
        """Keys with errors have their defaults."""
        return self.read[0]

    @cached_property
    def errors(self) -> Mapping[str, str]:
        """The errors, by the key of study.toml."""
        return {key: self.desk.t(IN_WORDS.get(what, what)) for key, what in self.read[1].items()}

    @cached_property
    def material(self) -> Material:
        return material_of(self.draft.content, self.draft.folder)

    @property
    def is_fixed(self) -> bool:
        """Whether the study has been opened: then only words, places and end texts may change."""
        return self.draft.status not in (None, "draft")

    def wrong(self, step: str) -> str:
        """The first error of a step, in words; "" if there is none."""
        errors = self.errors.items()
        return next((f"{named(key)}: {what}" for key, what in errors if step_of(key) == step), "")

    def value(self, key: str, otherwise: Any = "") -> Any:
        return self.draft.content.value(key, otherwise)

    def require_seen(self, now: object) -> None:
        """`ChangedElsewhere` unless the field showed the draft's current value, or equals it."""
        given = self.desk.given
        if "seen" in given and text_of(now) not in map(
            text_of, (given["seen"], given.get("value"))
        ):
            raise ChangedElsewhere(now, self.draft)

    def change(self, change: Callable[[Content], Content]) -> None:
        """Change the draft; `Refused` once the study has been opened."""
        if self.is_fixed:
            raise Refused("this is fixed since the study was opened")
        with self.desk.database.writing() as session:
            change_draft(session, self.draft.token, self.desk.actor, change)


PLACES = {
    "images": ("queries.dataset", "queries.categories", "queries.splits"),
    "systems": ("queries", "design.k"),
    "question": (
        *("design.kind", "design.levels", "design.sets", "design.show_target"),
        *("design.reason_every", "design.preference_ties", "design.confirm_contradictions"),
    ),
    "design": ("design", "checks", "analysis", "queries.sample", PEOPLE, MOST_WRONG),
    "people": (
        *("recruitment", "release", "design.lease_minutes", "study.consent", "study.minutes"),
        *("study.institution", "study.contact", "study.ethics"),
    ),
}
"""The tables and keys of study.toml in each step; all others are in the step Question."""

STEP_OF = {key: step for step, keys in PLACES.items() for key in keys}


def step_of(key: str) -> str:
    return next((STEP_OF[each] for each in enclosing(key) if each in STEP_OF), "question")


def named(key: str) -> str:
    """A key of study.toml in words, without its table, such as "at end 1 text"."""
    parts = [str(int(part) + 1) if part.isdecimal() else part for part in key.split(".")[1:]]
    return " ".join(parts or [key]).replace("_", " ")


IN_WORDS = {
    'cannot be used with design.categories = "mixed": its forms have no category': (
        "are for groups of queries, and each person judges all groups"
    ),
    "needs max_failed_checks": "first choose in Design what happens to people who fail checks",
    "is missing; so is recruitment.completion_code": "is missing; so is a completion code",
}
"""The pages' wording for errors that name other keys of study.toml."""


SetupAct = Callable[[Setup], Said | None]


@dataclass(frozen=True, slots=True)
class Step:
    """One of the six steps; its template is `studio_NAME.html`."""

    name: str
    title: str
    summary: Callable[[Setup], Summary]
    view: Callable[[Setup], Mapping[str, object]]
    acts: Mapping[str, SetupAct] = field(default_factory=dict)


def setup_of(desk: Desk) -> Setup:
    with desk.database.reading() as session:
        return Setup(desk, snapshot(session, desk.database, desk.place["token"]))


def setup_at(studio: Studio, request: Request) -> Setup:
    return setup_of(desk_of(studio, request, Permission.MANAGE))


def add_steps(app: FastAPI, studio: Studio, steps: tuple[Step, ...]) -> None:
    """Add the pages of the steps, in their order, and the study's file."""
    for step in steps:
        add_page(app, studio, step_page(step, steps))

    @app.get(f"{OWNER}/draft/{{token}}/study.toml")
    def file(request: Request) -> Response:
        draft = setup_at(studio, request).draft
        text = toml_of(draft.content, draft.folder)
        return saved_file(f"{draft.name or 'study'}.toml", text, "text/plain")


def step_page(step: Step, steps: tuple[Step, ...]) -> Page:
    def view(desk: Desk) -> Mapping[str, object]:
        setup = setup_of(desk)
        at = steps.index(step)
        values: dict[str, object] = {
            "title": desk.t(step.title),
            "setup": setup,
            "draft": setup.draft,
            "tab": "setup",
            "step": step,
            "steps": [(each, each.summary(setup)) for each in steps],
            "number": at + 1,
            "before": steps[at - 1] if at else None,
            "after": steps[at + 1] if at + 1 < len(steps) else None,
            "toml": toml_of(setup.draft.content, setup.draft.folder),
        }
        return values | dict(step.view(setup))

    acts = {name: on_draft(name, act) for name, act in {**COMMON, **step.acts}.items()}
    path = f"draft/{{token}}/{step.name}"
    return Page(path, f"studio_{step.name}.html", view, acts, Permission.MANAGE)


RELATIVE = ("undo", "points", "guidelines", "language", "add-question", "move-question")
"""Acts that depend on the content of the page: repeated, they would change something else."""


def on_draft(name: str, act: SetupAct) -> Act:
    def acted(desk: Desk) -> Said | None:
        setup = setup_of(desk)
        if name in RELATIVE and desk.text("revision") not in ("", str(setup.draft.revision)):
            raise Conflict("the page has changed in the meantime", remedy="check it, and try again")
        return act(setup)

    return acted


# What every step can do: save a field, and undo the last change.


KEY = re.compile(r"[a-z_]{1,40}(\.[\w-]{1,40}){1,4}", re.ASCII)


def save(setup: Setup) -> Said | None:
    """Store the entered value of a key of study.toml, valid or not."""
    desk = setup.desk
    if not KEY.fullmatch(desk.text("field")):
        raise Refused("this is not a key of study.toml")
    key, value = desk.text("field"), typed(desk.given.get("value"), desk.text("type", "text"))
    seen = typed(desk.given.get("seen"), desk.text("type", "text"))
    if setup.is_fixed:
        return change_texts(setup, lambda content: content.with_value(key, value), key)
    with desk.database.writing() as session:
        save_value(session, setup.draft.token, desk.actor, key, value, seen)
    return None


def change_texts(setup: Setup, change: Callable[[Content], Content], about: str) -> Said | None:
    """Change a value that may still change after the opening of a study."""
    desk, draft = setup.desk, setup.draft
    with desk.database.writing() as session:
        study = find_study(session, draft.study or "")
        if study is None:
            raise Refused("the study no longer exists")
        stored = content_of(config_of(study))
        wanted, errors = read_draft(change(stored), draft.folder)
        if new := errors.keys() - read_draft(stored, draft.folder)[1].keys():
            raise Refused(errors[min(new)])
        perform_edit(session, prepare_edit(study, wanted, study.text_version), datetime.now(UTC))
        record(session, desk.actor, Action.STUDY_EDIT, study=study.name, about=about)
        change_draft(session, draft.token, desk.actor, change)
    return Said(desk.t("Changed for everybody who has not finished yet."))


def text_of(value: object) -> str:
    """A value as its field shows it."""
    lines = value if isinstance(value, list) else [] if value is None else [value]
    return "\n".join(map(str, lines)).strip()


def typed(value: object, kind: str) -> object:
    """A field's value in the type of study.toml; an invalid value stays a text."""
    if kind == "bool" or not isinstance(value, str):
        return value
    text = value.strip()
    if kind in ("int", "float"):
        if not text:
            return None
        try:
            return int(text) if kind == "int" else float(text.replace(",", "."))
        except ValueError:
            return text
    if kind == "list":
        return [line.strip() for line in value.splitlines() if line.strip()] or None
    return value.replace("\r\n", "\n")


def take_back(setup: Setup) -> Said:
    if setup.is_fixed:
        raise Refused("this is fixed since the study was opened")
    with setup.desk.database.writing() as session:
        undo(session, setup.draft.token, setup.desk.actor)
    return Said(setup.desk.t("The last change was undone."))


COMMON: Mapping[str, SetupAct] = {"save": save, "undo": take_back}
