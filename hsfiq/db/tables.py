"""The tables of studies, forms, questions and responses, with their constraints.

Database keys stay inside the database; outside ids are in `hsfiq.ids`. Responses are append-only:
a changed answer is a row with the next revision, and the latest counts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hsfiq.db import search_tables, studio_tables  # noqa: F401 -- METADATA holds their tables
from hsfiq.db.source_tables import Image, Query, System
from hsfiq.db.types import DIGEST_LENGTH, Base, CountsAnswers, KeyedBase, WithToken, partial_index

# The tables of what is added or changes while a study runs.

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

    `rule` is set if a rule made the change. Of the study's rule about checks it has what that does
    on a failure, the limit, and the number of failed checks; of a rule of the owner about people,
    its text, and whether it was declared before the launch.
    """

    __tablename__ = "status_changes"

    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"), index=True)
    changed_at: Mapped[datetime]
    before: Mapped[str] = mapped_column(String(20))
    after: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str | None]
    rule: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class TextVersion(KeyedBase):
    """A version of the participants' texts and codes, valid from `created_at`; never changed.

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
    """A message of the owner to one participant, or to all (`participant_id` None); Markdown."""

    __tablename__ = "messages"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    participant_id: Mapped[int | None] = mapped_column(ForeignKey("participants.id"))
    text: Mapped[str]
    sent_at: Mapped[datetime]


class MessageRecipient(Base):
    """A recipient of a message, and the time of closing it; None until then."""

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
    """A change or an export of study data; see `hsfiq.audit`.

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
    """An enrolment from an address, kept for an hour to limit the rate.

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


class Payment(KeyedBase):
    """The decision about a participant's pay; decisions about people from Prolific are sent there.

    `cents` are hundredths of the currency. `state` is `sent` while nobody knows whether Prolific
    has it, and `confirmed` once it has agreed. `submission_id` is None before something is about to
    be sent, and of a person who was forgotten.
    """

    __tablename__ = "payments"
    __table_args__ = (
        UniqueConstraint("participant_id", "kind"),
        CheckConstraint("kind in ('approve', 'reject', 'screen-out', 'bonus')", name="kind"),
        CheckConstraint("state in ('recorded', 'sent', 'confirmed')", name="state"),
        CheckConstraint("cents >= 0", name="cents"),
    )

    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"))
    kind: Mapped[str] = mapped_column(String(10))
    submission_id: Mapped[str | None] = mapped_column(String(64))
    cents: Mapped[int]
    currency: Mapped[str] = mapped_column(String(3))
    state: Mapped[str] = mapped_column(String(10))
    bulk_id: Mapped[str | None] = mapped_column(String(64))
    recorded_at: Mapped[datetime]
    sent_at: Mapped[datetime | None]
    confirmed_at: Mapped[datetime | None]


class Study(KeyedBase):
    """Queries, pairs, guidelines and design under one name.

    `kind` is what its questions ask (`hsfiq.kinds`).
    `design` is the config as `hsfiq.study.config` stores it; it is empty for imported studies.
    `image_path` is the pattern of image paths in the published layout; `source_sha256` identifies
    the file of an imported study. `platform_study_id` is Prolific's STUDY_ID, which the study is
    bound to; None until the first participant arrives with one. `text_version` is the number of the
    version of its texts, None if versions are not recorded.
    """

    __tablename__ = "studies"
    __table_args__ = (
        CheckConstraint("status in ('draft', 'open', 'paused', 'closed')", name="status"),
        CheckConstraint("origin in ('collected', 'imported', 'simulated')", name="origin"),
        CheckConstraint("k >= 1", name="k"),
    )

    name: Mapped[str] = mapped_column(String(80), unique=True)
    title: Mapped[str]
    guidelines: Mapped[str]
    consent: Mapped[str]
    status: Mapped[str] = mapped_column(String(10))
    origin: Mapped[str] = mapped_column(String(10))
    kind: Mapped[str] = mapped_column(String(10), default="pair", server_default="pair")
    k: Mapped[int]
    ties_allowed: Mapped[bool]
    forms_per_participant: Mapped[int]
    design: Mapped[dict[str, Any]]
    image_path: Mapped[str]
    source_sha256: Mapped[str | None] = mapped_column(String(64))
    platform_study_id: Mapped[str | None] = mapped_column(String(64), unique=True, index=True)
    text_version: Mapped[int | None]


class RetrievedSet(KeyedBase):
    """The top-k images that a system returned for a query; published sets name no system."""

    __tablename__ = "retrieved_sets"
    __table_args__ = (UniqueConstraint("id", "query_id"),)

    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    system_id: Mapped[int | None] = mapped_column(ForeignKey("systems.id"))

    system: Mapped[System | None] = relationship()
    images: Mapped[list[RetrievedImage]] = relationship(order_by="RetrievedImage.rank")


class RetrievedImage(Base):
    """An image of a retrieved set; `rank` 0 is the best."""

    __tablename__ = "retrieved_images"
    __table_args__ = (CheckConstraint("rank >= 0", name="rank"),)

    set_id: Mapped[int] = mapped_column(ForeignKey("retrieved_sets.id"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[int] = mapped_column(ForeignKey("images.id"))

    image: Mapped[Image] = relationship()


class Pair(KeyedBase):
    """The item of a question: two retrieved sets of one query, which the composite keys ensure.

    Questions of other kinds than `pair` are about no set, the first only, or further ones, too.
    """

    __tablename__ = "pairs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["first_id", "query_id"], ["retrieved_sets.id", "retrieved_sets.query_id"]
        ),
        ForeignKeyConstraint(
            ["second_id", "query_id"], ["retrieved_sets.id", "retrieved_sets.query_id"]
        ),
    )

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    first_id: Mapped[int | None] = mapped_column(index=True)
    second_id: Mapped[int | None] = mapped_column(index=True)

    study: Mapped[Study] = relationship()
    query: Mapped[Query] = relationship()
    first: Mapped[RetrievedSet | None] = relationship(
        primaryjoin="foreign(Pair.first_id) == RetrievedSet.id", viewonly=True
    )
    second: Mapped[RetrievedSet | None] = relationship(
        primaryjoin="foreign(Pair.second_id) == RetrievedSet.id", viewonly=True
    )
    further: Mapped[list[FurtherSet]] = relationship(order_by="FurtherSet.place", viewonly=True)


class FurtherSet(Base):
    """The third or a later set of a question about more than two; `place` counts from 2."""

    __tablename__ = "further_sets"
    __table_args__ = (
        ForeignKeyConstraint(
            ["set_id", "query_id"], ["retrieved_sets.id", "retrieved_sets.query_id"]
        ),
        CheckConstraint("place >= 2", name="place"),
    )

    pair_id: Mapped[int] = mapped_column(ForeignKey("pairs.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"))
    set_id: Mapped[int] = mapped_column(index=True)

    retrieved: Mapped[RetrievedSet] = relationship(
        primaryjoin="foreign(FurtherSet.set_id) == RetrievedSet.id", viewonly=True
    )


class PracticeQuestion(Base):
    """The contents of a study's practice question, if its owner has chosen one of its queries.

    The sets are shown in the pair's order, their images best first.
    """

    __tablename__ = "practice_questions"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    pair_id: Mapped[int] = mapped_column(ForeignKey("pairs.id"))

    pair: Mapped[Pair] = relationship()


class Participant(WithToken, CountsAnswers):
    """An annotator, known only by a random token and the id of a recruitment platform.

    `name` is the pseudonym in releases. `seen_at` is the time of the last activity: the lease
    on unanswered questions runs from it. `external_id` is the platform's id of the person,
    `platform_study_id` that of the platform's study through which they came, if it is known, and
    `platform_session_id` that of their visit, if the address to which they return has it.
    `language` is the language chosen, None for the study's first one.
    """

    __tablename__ = "participants"
    __table_args__ = (
        UniqueConstraint("study_id", "name"),
        UniqueConstraint("study_id", "external_id"),
        CheckConstraint(
            "status in ('active', 'paused', 'returned', 'screened-out', 'excluded')", name="status"
        ),
        CheckConstraint(
            "source in ('open', 'invitation', 'prolific', 'mturk', 'panel', 'imported')",
            name="source",
        ),
        Index("ix_participants_study_id_seen_at", "study_id", "seen_at"),
        partial_index(
            "ix_participants_not_begun", "study_id", "seen_at", where="consented_at IS NULL"
        ),
    )

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    name: Mapped[str] = mapped_column(String(80))
    category: Mapped[str | None] = mapped_column(String(40))
    language: Mapped[str | None] = mapped_column(String(35))
    status: Mapped[str] = mapped_column(String(20), default="active")
    source: Mapped[str] = mapped_column(String(20), default="open")
    external_id: Mapped[str | None] = mapped_column(String(200))
    platform_study_id: Mapped[str | None] = mapped_column(String(64))
    platform_session_id: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[datetime | None]
    consented_at: Mapped[datetime | None]
    practised_at: Mapped[datetime | None]
    enrolled_at: Mapped[datetime | None]
    seen_at: Mapped[datetime | None]

    study: Mapped[Study] = relationship()


class Form(KeyedBase):
    """Questions in a fixed order; without a participant until it is assigned.

    Forms with one `batch` number are assigned to one participant together, with no triplet twice.
    `number` counts the study's forms, `position` those of its participant. `n_questions` is the
    number of questions that it was made with, without checks: it does not change.
    """

    __tablename__ = "forms"
    __table_args__ = (
        UniqueConstraint("study_id", "number"),
        UniqueConstraint("participant_id", "position"),
        UniqueConstraint("participant_id", "name"),
        CheckConstraint(
            "(participant_id is null and position is null and name is null) or "
            "(participant_id is not null and position is not null and name is not null)",
            name="taken",
        ),
        partial_index(
            "ix_forms_unassigned", "study_id", "portion", "category", where="participant_id IS NULL"
        ),
    )

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int]
    batch: Mapped[int] = mapped_column("portion")
    category: Mapped[str] = mapped_column(String(40))
    participant_id: Mapped[int | None] = mapped_column(ForeignKey("participants.id"))
    position: Mapped[int | None]
    name: Mapped[str | None] = mapped_column(String(80))
    n_questions: Mapped[int] = mapped_column(default=0, server_default="0")

    participant: Mapped[Participant | None] = relationship()


class Question(KeyedBase):
    """One pair at one place of one form, as drawn: `swapped` puts the pair's second set first.

    `order_1` and `order_2` are the orders in which the sets' images are shown, None if as ranked.
    With more than two sets, `set_order` has the places of the pair's sets as they are shown, and
    `image_orders` the orders of their images.
    `reassigned` marks a question that was reassigned to another participant. `text` is set only if
    the source of this question spells the query's text differently (double spaces, escapes):
    releases contain exactly the text that was shown.
    """

    __tablename__ = "questions"
    __table_args__ = (
        UniqueConstraint("form_id", "place"),
        CheckConstraint("place >= 0", name="place"),
        partial_index(
            "ix_questions_reassigned", "form_id", where="handed_on", sqlite_where="handed_on = 1"
        ),
    )

    form_id: Mapped[int] = mapped_column(ForeignKey("forms.id"))
    place: Mapped[int]
    pair_id: Mapped[int] = mapped_column(ForeignKey("pairs.id"), index=True)
    swapped: Mapped[bool]
    order_1: Mapped[list[int] | None]
    order_2: Mapped[list[int] | None]
    set_order: Mapped[list[int] | None]
    image_orders: Mapped[list[list[int]] | None]
    reassigned: Mapped[bool] = mapped_column("handed_on", default=False)
    text: Mapped[str | None]
    served_at: Mapped[datetime | None]

    form: Mapped[Form] = relationship()
    pair: Mapped[Pair] = relationship()


class Response(KeyedBase):
    """One revision of the answer to a question; a skipped question has a reason and no scores.

    `judgement` has the answer to a question of another kind than `pair`, `extra` the answers to the
    owner's extra questions. `confirmed` is true if the participant kept a preference for the set
    scored much lower when asked whether it is meant; None if not asked, or unknown.
    `submit_key` identifies one press of Next in the browser: a repeated request is stored once.
    None if unknown: `irrelevant`, the flag; `images`, the letters of
    `hsfiq.answer_rules.ImageStates` with what was seen for earlier revisions; `text_in_view`,
    whether the whole text of the query was in view before this revision or an earlier one (also
    None without a text); `text_version` and `language` of the texts that the page showed.
    """

    __tablename__ = "responses"
    __table_args__ = (
        UniqueConstraint("question_id", "revision"),
        UniqueConstraint("question_id", "submit_key"),
        CheckConstraint("revision >= 1", name="revision"),
        CheckConstraint("score_1 between 1 and 7", name="score_1"),
        CheckConstraint("score_2 between 1 and 7", name="score_2"),
        CheckConstraint("preferred between 0 and 2", name="preferred"),
        CheckConstraint("active_seconds >= 0", name="active_seconds"),
        CheckConstraint(
            "(skipped is null and judgement is null and score_1 is not null "
            "and score_2 is not null and preferred is not null) or "
            "((skipped is null) = (judgement is not null) "
            "and score_1 is null and score_2 is null and preferred is null)",
            name="whole",
        ),
    )

    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"))
    revision: Mapped[int]
    submit_key: Mapped[str] = mapped_column(String(64))
    score_1: Mapped[int | None]
    score_2: Mapped[int | None]
    preferred: Mapped[int | None]
    confirmed: Mapped[bool | None]
    judgement: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    extra: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    irrelevant: Mapped[bool | None]
    reason: Mapped[str | None]
    skipped: Mapped[str | None] = mapped_column(String(40))
    served_at: Mapped[datetime | None]
    first_interaction_at: Mapped[datetime | None]
    submitted_at: Mapped[datetime | None]
    active_seconds: Mapped[float | None]
    images: Mapped[str | None]
    text_in_view: Mapped[bool | None]
    text_version: Mapped[int | None]
    language: Mapped[str | None] = mapped_column(String(35))

    question: Mapped[Question] = relationship()


class Check(KeyedBase):
    """An attention check, drawn with the form.

    `arithmetic` is a sum before a place. `gold` and `repeat` are questions of the form: a planted
    one with an obvious answer (`expected`, as the question kind reads it; of a pair, the winner's
    side), and another question of the form asked again, with its sets in another order.
    """

    __tablename__ = "checks"
    __table_args__ = (
        UniqueConstraint("form_id", "place", "kind"),
        CheckConstraint("kind in ('arithmetic', 'gold', 'repeat')", name="kind"),
        CheckConstraint(
            "(kind = 'arithmetic' and prompt is not null and expected is not null) or "
            "(kind = 'gold' and question_id is not null and expected is not null) or "
            "(kind = 'repeat' and question_id is not null and repeats_id is not null)",
            name="whole",
        ),
    )

    form_id: Mapped[int] = mapped_column(ForeignKey("forms.id"))
    place: Mapped[int]
    kind: Mapped[str] = mapped_column(String(20))
    prompt: Mapped[str | None]
    expected: Mapped[str | None]
    question_id: Mapped[int | None] = mapped_column(ForeignKey("questions.id"), unique=True)
    repeats_id: Mapped[int | None] = mapped_column(ForeignKey("questions.id"), index=True)

    form: Mapped[Form] = relationship()


METADATA = Base.metadata
"""All tables, including those of `search_tables` and `source_tables`."""
