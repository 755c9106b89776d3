"""The tables: the nouns of a study as rows, with the constraints that keep them true.

Database keys stay inside the database; outsiders meet the ids of design section 4.8 (`hsfiq.ids`).
Responses are append-only: a changed answer is a row with the next revision, the latest counts.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """An aware moment, kept as UTC; SQLite forgets zones, so the zone is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Refuse a moment without a zone: it would be stored as whatever zone is read later."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a moment without a time zone: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give the moment back in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """What all tables share: named constraints, so that migrations can speak of them."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it as a plain class attribute)
        datetime: UtcTime(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
        list[int]: JSON(),
        list[float]: JSON(none_as_null=True),
        str: Text(),
    }


# --------------------------------------------------------------------------------------- sources


class Setting(Base):
    """One value that belongs to this database, such as the key that signs its pages."""

    __tablename__ = "settings"

    key: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str]


class Dataset(Base):
    """A CIR dataset: whose triplets and images these are, and where its images lie, if anywhere."""

    __tablename__ = "datasets"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    image_root: Mapped[str | None]


class Image(Base):
    """An image of a dataset; its file may be absent.

    `token` is all that a browser learns of it: random, so that neither its name nor the order of
    import (a reference next to its target) can be read from an address.
    """

    __tablename__ = "images"
    __table_args__ = (UniqueConstraint("dataset_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    name: Mapped[str] = mapped_column(String(200))
    token: Mapped[str] = mapped_column(
        String(32), unique=True, default=lambda: secrets.token_hex(16)
    )

    dataset: Mapped[Dataset] = relationship()


class Corpus(Base):
    """The images that a split file names: the candidates of its queries."""

    __tablename__ = "corpora"
    __table_args__ = (UniqueConstraint("dataset_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    name: Mapped[str] = mapped_column(String(80))


corpus_images = Table(
    "corpus_images",
    Base.metadata,
    Column("corpus_id", ForeignKey("corpora.id"), primary_key=True),
    Column("image_id", ForeignKey("images.id"), primary_key=True, index=True),
)


class Triplet(Base):
    """A reference, a target (None where it is withheld) and the captions between them."""

    __tablename__ = "triplets"
    __table_args__ = (UniqueConstraint("dataset_id", "external_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    external_id: Mapped[str] = mapped_column(String(200))
    category: Mapped[str] = mapped_column(String(40))
    split: Mapped[str | None] = mapped_column(String(40))
    reference_id: Mapped[int] = mapped_column(ForeignKey("images.id"), index=True)
    target_id: Mapped[int | None] = mapped_column(ForeignKey("images.id"), index=True)
    captions: Mapped[list[str]]

    dataset: Mapped[Dataset] = relationship()
    reference: Mapped[Image] = relationship(foreign_keys=[reference_id])
    target: Mapped[Image | None] = relationship(foreign_keys=[target_id])


class Query(Base):
    """A triplet with the text as shown; its outside id is the triplet's plus `suffix`."""

    __tablename__ = "queries"
    __table_args__ = (UniqueConstraint("triplet_id", "suffix"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    triplet_id: Mapped[int] = mapped_column(ForeignKey("triplets.id"))
    suffix: Mapped[str] = mapped_column(String(20))
    text: Mapped[str]

    triplet: Mapped[Triplet] = relationship()


class System(Base):
    """A retrieval model whose results are judged; its name never reaches an annotator."""

    __tablename__ = "systems"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)


class RankedList(Base):
    """What a system returned for a query, best first, as long as its run gave it."""

    __tablename__ = "ranked_lists"
    __table_args__ = (UniqueConstraint("system_id", "query_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("systems.id"))
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    image_ids: Mapped[list[int]]
    scores: Mapped[list[float] | None]


# ----------------------------------------------------------------------------------------- study


class Study(Base):
    """Queries, pairs, guidelines and design under one name.

    `origin` says whose answers it holds: people's (`collected`, `imported`) or `simulated` ones.
    `image_path` is the pattern by which the published layout names its images; `source_sha256`
    identifies the file that an imported study came from.
    """

    __tablename__ = "studies"
    __table_args__ = (
        CheckConstraint("status in ('draft', 'open', 'paused', 'closed')", name="status"),
        CheckConstraint("origin in ('collected', 'imported', 'simulated')", name="origin"),
        CheckConstraint("k >= 1", name="k"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    title: Mapped[str]
    guidelines: Mapped[str]
    status: Mapped[str] = mapped_column(String(10))
    origin: Mapped[str] = mapped_column(String(10))
    k: Mapped[int]
    ties_allowed: Mapped[bool]
    forms_per_participant: Mapped[int]
    design: Mapped[dict[str, Any]]
    image_path: Mapped[str]
    source_sha256: Mapped[str | None] = mapped_column(String(64))


class RetrievedSet(Base):
    """The top-k images that a system returned for a query; published sets name no system."""

    __tablename__ = "retrieved_sets"
    __table_args__ = (UniqueConstraint("id", "query_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    system_id: Mapped[int | None] = mapped_column(ForeignKey("systems.id"))

    system: Mapped[System | None] = relationship()
    images: Mapped[list[RetrievedImage]] = relationship(order_by="RetrievedImage.rank")


class RetrievedImage(Base):
    """One image of a retrieved set; `rank` counts from 0, the best."""

    __tablename__ = "retrieved_images"
    __table_args__ = (CheckConstraint("rank >= 0", name="rank"),)

    set_id: Mapped[int] = mapped_column(ForeignKey("retrieved_sets.id"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[int] = mapped_column(ForeignKey("images.id"))

    image: Mapped[Image] = relationship()


class Pair(Base):
    """Two retrieved sets of the same query (the composite keys see to that)."""

    __tablename__ = "pairs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["first_id", "query_id"], ["retrieved_sets.id", "retrieved_sets.query_id"]
        ),
        ForeignKeyConstraint(
            ["second_id", "query_id"], ["retrieved_sets.id", "retrieved_sets.query_id"]
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    first_id: Mapped[int]
    second_id: Mapped[int]

    study: Mapped[Study] = relationship()
    query: Mapped[Query] = relationship()
    first: Mapped[RetrievedSet] = relationship(
        primaryjoin="foreign(Pair.first_id) == RetrievedSet.id", viewonly=True
    )
    second: Mapped[RetrievedSet] = relationship(
        primaryjoin="foreign(Pair.second_id) == RetrievedSet.id", viewonly=True
    )


class Participant(Base):
    """An annotator, known by a random token only; `name` is the public pseudonym of releases."""

    __tablename__ = "participants"
    __table_args__ = (UniqueConstraint("study_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    name: Mapped[str] = mapped_column(String(80))
    token: Mapped[str] = mapped_column(
        String(64), unique=True, default=lambda: secrets.token_urlsafe(24)
    )
    category: Mapped[str | None] = mapped_column(String(40))
    created_at: Mapped[datetime | None]

    study: Mapped[Study] = relationship()


class Form(Base):
    """An ordered batch of questions; without a participant until somebody takes it.

    `number` is its place in the study's pool, `position` its place before its participant.
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
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int]
    category: Mapped[str] = mapped_column(String(40))
    participant_id: Mapped[int | None] = mapped_column(ForeignKey("participants.id"))
    position: Mapped[int | None]
    name: Mapped[str | None] = mapped_column(String(80))

    participant: Mapped[Participant | None] = relationship()


class Question(Base):
    """One pair at one place of one form, as drawn: `swapped` puts the pair's second set first.

    `text` is set only where this question's source spells its query's text in another way
    (double spaces, escapes): releases give back what was shown, to the letter.
    """

    __tablename__ = "questions"
    __table_args__ = (
        UniqueConstraint("form_id", "place"),
        CheckConstraint("place >= 0", name="place"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    form_id: Mapped[int] = mapped_column(ForeignKey("forms.id"))
    place: Mapped[int]
    pair_id: Mapped[int] = mapped_column(ForeignKey("pairs.id"), index=True)
    swapped: Mapped[bool]
    text: Mapped[str | None]
    served_at: Mapped[datetime | None]

    form: Mapped[Form] = relationship()
    pair: Mapped[Pair] = relationship()


class Response(Base):
    """One revision of the answer to a question; a skipped question has a reason and no scores.

    `submit_key` is the browser's own name for one press of Next: the same press twice is one row.
    """

    __tablename__ = "responses"
    __table_args__ = (
        UniqueConstraint("question_id", "revision"),
        UniqueConstraint("question_id", "submit_key"),
        CheckConstraint("revision >= 1", name="revision"),
        CheckConstraint("score_1 between 1 and 5", name="score_1"),
        CheckConstraint("score_2 between 1 and 5", name="score_2"),
        CheckConstraint("preferred between 0 and 2", name="preferred"),
        CheckConstraint("active_seconds >= 0", name="active_seconds"),
        CheckConstraint(
            "(skipped is null and score_1 is not null and score_2 is not null "
            "and preferred is not null) or "
            "(skipped is not null and score_1 is null and score_2 is null and preferred is null)",
            name="whole",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"))
    revision: Mapped[int]
    submit_key: Mapped[str] = mapped_column(String(64))
    score_1: Mapped[int | None]
    score_2: Mapped[int | None]
    preferred: Mapped[int | None]
    irrelevant: Mapped[bool]
    reason: Mapped[str | None]
    skipped: Mapped[str | None] = mapped_column(String(40))
    served_at: Mapped[datetime | None]
    first_interaction_at: Mapped[datetime | None]
    submitted_at: Mapped[datetime | None]
    active_seconds: Mapped[float | None]

    question: Mapped[Question] = relationship()


class Check(Base):
    """Something that shows attention, drawn with the form: here the sum asked before a place."""

    __tablename__ = "checks"
    __table_args__ = (
        UniqueConstraint("form_id", "place", "kind"),
        CheckConstraint("kind in ('arithmetic')", name="kind"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    form_id: Mapped[int] = mapped_column(ForeignKey("forms.id"))
    place: Mapped[int]
    kind: Mapped[str] = mapped_column(String(20))
    prompt: Mapped[str]
    expected: Mapped[str]

    form: Mapped[Form] = relationship()


class CheckAnswer(Base):
    """One try at a check, right or wrong; append-only like responses."""

    __tablename__ = "check_answers"

    id: Mapped[int] = mapped_column(primary_key=True)
    check_id: Mapped[int] = mapped_column(ForeignKey("checks.id"), index=True)
    given: Mapped[str]
    passed: Mapped[bool]
    answered_at: Mapped[datetime]
