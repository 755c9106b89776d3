"""The tables of what is added or changes while a study runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from hsfiq.db.types import DIGEST_LENGTH, Base, KeyedBase

BEING_CREATED = "being created "


class Extension(KeyedBase):
    """Forms that were added to a study after it was drawn; `number` counts them from 1.

    `seed` is that of the study; with the number, it makes the same draws. `request` is what the
    owner asked for, `added` the counts of what was added.
    """

    __tablename__ = "extensions"
    __table_args__ = (
        UniqueConstraint("study_id", "number"),
        CheckConstraint("number >= 1", name="number"),
    )

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int]
    created_at: Mapped[datetime]
    seed: Mapped[int]
    request: Mapped[dict[str, Any]]
    added: Mapped[dict[str, Any]]


class StudyCreation(Base):
    """A study that is being created: nobody sees it until this row is deleted.

    `continued_at` is when its last rows were stored; one that has not continued for long was
    interrupted. Until it is complete, the study's name begins with `BEING_CREATED`.
    """

    __tablename__ = "study_creations"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    continued_at: Mapped[datetime]


class CheckAnswer(KeyedBase):
    """One attempt at a check, right or wrong; append-only like responses."""

    __tablename__ = "check_answers"

    check_id: Mapped[int] = mapped_column(ForeignKey("checks.id"), index=True)
    given: Mapped[str]
    passed: Mapped[bool]
    answered_at: Mapped[datetime]


class StatusChange(KeyedBase):
    """A change of a participant's status, with the reason that the owner gave, if any.

    `rule` is set if the study's rule about checks made the change: what it does on a failure, the
    limit, and the number of failed checks.
    """

    __tablename__ = "status_changes"

    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"), index=True)
    changed_at: Mapped[datetime]
    before: Mapped[str] = mapped_column(String(20))
    after: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str | None]
    rule: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class TextVersion(KeyedBase):
    """What participants read, and the codes that they get, since `created_at`; never changed.

    `number` counts a study's versions from 1. `texts` has the value of each key of CONFIG.toml that
    may change. The time of texts from before versions were recorded is unknown.
    """

    __tablename__ = "text_versions"
    __table_args__ = (
        UniqueConstraint("study_id", "number"),
        CheckConstraint("number >= 1", name="number"),
    )

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int]
    created_at: Mapped[datetime | None]
    texts: Mapped[dict[str, Any]]


class Message(KeyedBase):
    """What the owner wrote to one participant, or to all (`participant_id` None); Markdown."""

    __tablename__ = "messages"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    participant_id: Mapped[int | None] = mapped_column(ForeignKey("participants.id"))
    text: Mapped[str]
    sent_at: Mapped[datetime]


class MessageRecipient(Base):
    """Somebody to whom a message was sent, and when they closed it; None until then."""

    __tablename__ = "message_recipients"

    message_id: Mapped[int] = mapped_column(ForeignKey("messages.id"), primary_key=True)
    participant_id: Mapped[int] = mapped_column(
        ForeignKey("participants.id"), primary_key=True, index=True
    )
    seen_at: Mapped[datetime | None]


class ExportedRelease(KeyedBase):
    """A release that `hsfiq export` has written, with a row of `exported_forms` for each form.

    `content_sha256` and `filters` are those of the manifest; `options` has the split, and what else
    was asked for. The same content under the same version is one row, with the times at which it
    was first and last written. `n_answers` counts the answers in the release, `n_forgotten` the
    participants in it whose data have been deleted since.
    """

    __tablename__ = "exported_releases"
    __table_args__ = (UniqueConstraint("study_id", "kind", "version", "content_sha256"),)

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    name: Mapped[str] = mapped_column(String(100))
    kind: Mapped[str] = mapped_column(String(10))
    version: Mapped[str] = mapped_column(String(40))
    content_sha256: Mapped[str] = mapped_column(String(64))
    filters: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    options: Mapped[dict[str, Any]]
    hsfiq_version: Mapped[str] = mapped_column(String(40))
    n_answers: Mapped[int]
    n_forgotten: Mapped[int] = mapped_column(default=0)
    first_exported_at: Mapped[datetime]
    last_exported_at: Mapped[datetime]


class ExportedForm(Base):
    """The answers of a form that a release has, or that its rules dropped.

    Each entry is `[first place, last place, revision]`: questions next to each other, with the
    revision of their answers; 0 for a search that was left. Attention checks are in neither list.
    One row for each answer would take fifty times the space.
    """

    __tablename__ = "exported_forms"

    release_id: Mapped[int] = mapped_column(ForeignKey("exported_releases.id"), primary_key=True)
    form_id: Mapped[int] = mapped_column(ForeignKey("forms.id"), primary_key=True, index=True)
    kept: Mapped[list[list[int]]] = mapped_column(JSON)
    dropped: Mapped[list[list[int]]] = mapped_column(JSON)


class AuditEntry(KeyedBase):
    """That somebody changed or took out study data; see `hsfiq.audit`.

    `study` is a name rather than a key, so that the entry outlives the study.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (CheckConstraint("outcome in ('done', 'refused')", name="outcome"),)

    at: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str]
    action: Mapped[str] = mapped_column(String(40))
    study: Mapped[str | None] = mapped_column(String(80))
    about: Mapped[str]
    outcome: Mapped[str] = mapped_column(String(10))


class QuestionnaireAnswers(KeyedBase):
    """A participant's answers to the questions at the end, given once; as `Response.extra`."""

    __tablename__ = "questionnaire_answers"

    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"), unique=True)
    submitted_at: Mapped[datetime]
    answers: Mapped[dict[str, Any]]


class EnrolmentByAddress(KeyedBase):
    """That somebody enrolled from an address, for an hour: it limits how many do.

    `client` is a keyed digest of the address and the study. No participant is named.
    """

    __tablename__ = "enrolments_by_address"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    client: Mapped[str] = mapped_column(String(64))
    enrolled_at: Mapped[datetime]


class AllowedPerson(Base):
    """The digest of a platform's id whose person may enrol; without any, all people may."""

    __tablename__ = "allowed_people"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    person_hash: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)


class WorkedHit(Base):
    """The HIT of Mechanical Turk that a participant works on, as the link to the study named it.

    `submit_to` is the origin of the site that the finished HIT is sent to.
    """

    __tablename__ = "worked_hits"
    __table_args__ = (
        CheckConstraint(
            "submit_to in ('https://www.mturk.com', 'https://workersandbox.mturk.com')",
            name="submit_to",
        ),
    )

    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"), primary_key=True)
    assignment_id: Mapped[str] = mapped_column(String(64), index=True)
    hit_id: Mapped[str] = mapped_column(String(64))
    submit_to: Mapped[str] = mapped_column(String(40))
