"""The texts that an owner may correct, and their versions."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Form, Question, Response, Study, TextVersion
from hsfiq.errors import ConfigError
from hsfiq.study.config import (
    StudyConfig,
    config_of,
    rules_of,
    stored_config,
)

# The versions of a study's texts: what may change while it runs, and what each version said.
#
# Versions are append-only. A response has the number of the version under which it was given.

EDITABLE = (
    *("study.title", "study.guidelines", "study.consent", "study.minutes", "study.set_names"),
    *("study.institution", "study.contact", "study.ethics"),
    *("study.translations", "wording", "practice.explanation", "questionnaire.note"),
    *("recruitment.completion_code", "recruitment.completion_url"),
    *("recruitment.failed_checks_code", "recruitment.full_code", "recruitment.declined_code"),
    *("recruitment.panel.complete", "recruitment.panel.failed_checks"),
    *("recruitment.panel.screen_out", "recruitment.panel.quota_full"),
)
"""The keys of CONFIG.toml that may change, each with all keys below it."""

QUESTION_LISTS = ("questionnaire.after_each", "questionnaire.at_end")
QUESTION_TEXT = re.compile(rf"({'|'.join(map(re.escape, QUESTION_LISTS))})\.\d+\.(text|options)")
"""The keys of an extra question that may change; its name, its type and `required` may not."""

UNPUBLISHED = "recruitment."
"""Texts that releases leave out: anybody with a completion code can claim the payment."""

Texts = Mapping[str, Any]
"""The value of each editable key."""


@dataclass(frozen=True, slots=True)
class Change:
    """A key that has different values in two configs."""

    key: str
    before: Any
    after: Any


def texts_of(config: StudyConfig) -> dict[str, Any]:
    return {key: value for key, value in values_of(config).items() if is_editable(key)}


def values_of(config: StudyConfig) -> dict[str, Any]:
    """The value of each key of a config, as JSON has it."""
    content = json.loads(json.dumps(asdict(config)))
    return dict(leaves(content, ""))


def leaves(content: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The values by their dotted keys; the tables of an array are numbered from 1."""
    for name, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            numbered = {str(number): each for number, each in enumerate(value, start=1)}
            yield from leaves(numbered, f"{prefix}{name}.")
        elif isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def is_editable(key: str) -> bool:
    if QUESTION_TEXT.fullmatch(key):
        return True
    return any(key == editable or key.startswith(f"{editable}.") for editable in EDITABLE)


def changes_between(before: Texts, after: Texts) -> list[Change]:
    keys = dict.fromkeys((*before, *after))
    pairs = [Change(key, before.get(key), after.get(key)) for key in keys]
    return [change for change in pairs if change.before != change.after]


def forbidden_changes(stored: StudyConfig, wanted: StudyConfig) -> list[ConfigError]:
    """An error for each key that differs and may not change.

    The file need not name Prolific's study, which may have been bound at the first arrival.
    """
    errors = list(changed_lists(stored, wanted))
    if errors:
        return errors
    before, after = values_of(stored), values_of(wanted)
    bound = "recruitment.platform_study_id"
    after[bound] = after[bound] or before[bound]
    errors = [
        ConfigError(
            change.key,
            f"cannot change after the study was made; it is {as_toml(change.before)}",
            "write it as it was, or make another study",
        )
        for change in changes_between(before, after)
        if not is_editable(change.key)
    ]
    points = rules_of(stored).points
    if not errors and rules_of(wanted).points != points:
        what = f"the scale cannot change after the study was made; it has {points} points"
        errors.append(ConfigError("wording.anchors", what, f"write {points} anchors"))
    return errors


def changed_lists(stored: StudyConfig, wanted: StudyConfig) -> Iterator[ConfigError]:
    """An error for each list of extra questions, or of options, that has become longer or shorter.

    Answers are stored as the numbers of options.
    """
    for key in QUESTION_LISTS:
        name = key.partition(".")[2]
        before, after = getattr(stored.questionnaire, name), getattr(wanted.questionnaire, name)
        remedy = "correct their texts only, or make another study"
        if len(before) != len(after):
            what = f"the number of questions cannot change; it is {len(before)}"
            yield ConfigError(key, what, remedy)
            continue
        for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
            if len(old.options) != len(new.options):
                what = f"the number of options cannot change; it is {len(old.options)}"
                yield ConfigError(f"{key}.{number}.options", what, remedy)


def as_toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def difference(changes: Sequence[Change]) -> list[str]:
    """What changed, in lines: the key, then the removed lines with `-` and the added with `+`."""
    lines = []
    for change in changes:
        lines.append(f"{change.key}:")
        before, after = shown_lines(change.before), shown_lines(change.after)
        compared = difflib.unified_diff(before, after, n=1, lineterm="")
        lines += [f"  {line}" for line in compared if not line.startswith(("---", "+++", "@@"))]
    return lines


def shown_lines(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return value.splitlines() if isinstance(value, str) else [as_toml(value)]


# ------------------------------------------------------------------------------------- versions


def record_first_version(session: Session, study: Study, config: StudyConfig) -> None:
    """Record the texts with which a study is made."""
    add_version(session, study, texts_of(config), 1, datetime.now(UTC))


def record_next_version(
    session: Session, study: Study, wanted: StudyConfig, now: datetime
) -> TextVersion:
    """Give a locked study its new texts, as the next version.

    Of a study that was made before versions were recorded, the texts so far become version 1, whose
    time is unknown.
    """
    if study.text_version is None:
        add_version(session, study, texts_of(config_of(study)), 1, None)
    number = (study.text_version or 1) + 1
    values = stored_config(wanted)
    tables = {key.partition(".")[0] for key in EDITABLE}
    study.title, study.guidelines = wanted.study.title, wanted.study.guidelines
    study.consent = wanted.study.consent
    study.design = study.design | {name: values[name] for name in tables}
    return add_version(session, study, texts_of(wanted), number, now)


def add_version(
    session: Session, study: Study, texts: dict[str, Any], number: int, now: datetime | None
) -> TextVersion:
    version = TextVersion(study_id=study.id, number=number, created_at=now, texts=texts)
    session.add(version)
    study.text_version = number
    session.flush()
    return version


def versions_of(session: Session, study: Study) -> Sequence[TextVersion]:
    """The versions of a study's texts, oldest first."""
    own = select(TextVersion).where(TextVersion.study_id == study.id)
    return session.scalars(own.order_by(TextVersion.number)).all()


@dataclass(frozen=True, slots=True)
class VersionNote:
    """A version, and how it differs from the one before."""

    number: int
    created_at: datetime | None
    difference: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        at = self.created_at.isoformat() if self.created_at else None
        return {"number": self.number, "created_at": at, "difference": list(self.difference)}


def version_notes(session: Session, study: Study) -> list[VersionNote]:
    versions = versions_of(session, study)
    earlier = [versions[0].texts, *(version.texts for version in versions)] if versions else []
    return [
        VersionNote(
            version.number,
            version.created_at,
            tuple(difference(changes_between(before, recorded(version.texts, before)))),
        )
        for before, version in zip(earlier, versions, strict=False)
    ]


def recorded(texts: Texts, before: Texts) -> Texts:
    """The texts without those of questions that the version before does not have.

    The questions of a study stay the same, so their texts were only not recorded then.
    """
    return {key: text for key, text in texts.items() if key in before or not is_question(key)}


def is_question(key: str) -> bool:
    return key.startswith(QUESTION_LISTS)


def answers_by_version(session: Session, study: Study) -> dict[int | None, int]:
    """How many responses were given under each version; None: that is unknown."""
    rows = session.execute(
        select(Response.text_version, func.count())
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id)
        .group_by(Response.text_version)
    )
    return {row.text_version: row[1] for row in rows}


def published_versions(session: Session, study: Study) -> list[dict[str, Any]]:
    """The texts of all versions as releases contain them: without codes, and without times.

    The same answers and texts give the same release, whenever they were collected.
    """
    return [
        {
            "number": version.number,
            "texts": {
                key: value
                for key, value in version.texts.items()
                if not key.startswith(UNPUBLISHED)
            },
        }
        for version in versions_of(session, study)
    ]
