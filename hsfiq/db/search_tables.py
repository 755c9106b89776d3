"""The tables of searches over several turns, whose rows are written once and never changed.

A session is a question of kind `search`, with one system, or of kind `arena`, with two side by
side. Each of its turns is a `SearchTurn` (the query), a `SearchList` for each system (the answer)
and a `SearchFeedback` (the feedback on the lists). `SearchEnding` records the end of the search,
and the response of the question its judgement. Sides count from 1. Only published figures of votes
are replaced.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import CheckConstraint, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hsfiq.db.source_tables import Image, System
from hsfiq.db.types import Base, KeyedBase

Reason = Literal["declared", "stopped", "max-rounds"]
"""Of an ending."""


class StudyRetriever(Base):
    """A live retriever of a study, as it described itself when the study was created."""

    __tablename__ = "study_retrievers"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("systems.id"), primary_key=True)
    version: Mapped[str]
    corpus_name: Mapped[str]
    corpus_size: Mapped[int]
    corpus_sha256: Mapped[str] = mapped_column(String(64))

    system: Mapped[System] = relationship()


class SearchItem(Base):
    """A system with which a pair's query is searched for; a pair is what a question is about."""

    __tablename__ = "search_items"
    __table_args__ = (CheckConstraint("side in (1, 2)", name="side"),)

    pair_id: Mapped[int] = mapped_column(ForeignKey("pairs.id"), primary_key=True)
    side: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    system_id: Mapped[int] = mapped_column(ForeignKey("systems.id"))

    system: Mapped[System] = relationship()


class SearchTurn(KeyedBase):
    """The query of a turn: the text, and the image that it refers to.

    `submit_key` identifies one press of Search in the browser, as in responses. The first turn of a
    query with a text is the server's: its `submit_key` is "query", and nothing is known of typing.
    Seconds count from when the list was painted. Without a `reference_id`, the text is about the
    search's `SearchUpload`, which is no image of a dataset. `text` is None if it had been struck
    before the study was imported from a release.
    """

    __tablename__ = "search_turns"
    __table_args__ = (
        UniqueConstraint("question_id", "number"),
        UniqueConstraint("question_id", "submit_key"),
        CheckConstraint("number >= 1", name="number"),
    )

    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"))
    number: Mapped[int]
    submit_key: Mapped[str] = mapped_column(String(64))
    reference_id: Mapped[int | None] = mapped_column(ForeignKey("images.id"))
    text: Mapped[str | None]
    asked_at: Mapped[datetime]
    pasted: Mapped[bool | None]
    first_key_seconds: Mapped[float | None]
    last_key_seconds: Mapped[float | None]
    language: Mapped[str | None] = mapped_column(String(35))
    text_version: Mapped[int | None]

    reference: Mapped[Image | None] = relationship()


class SearchList(Base):
    """The images with which a system answered a turn, best first (database keys), with scores.

    All lists of a turn are stored in one transaction. `seconds` is how long the retriever took.
    `rank` and `ties` are of the target among the whole corpus, None without a target.
    `system_version` and `corpus_sha256` are of the answer.
    """

    __tablename__ = "search_lists"
    __table_args__ = (CheckConstraint("side in (1, 2)", name="side"),)

    turn_id: Mapped[int] = mapped_column(ForeignKey("search_turns.id"), primary_key=True)
    side: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    listed_at: Mapped[datetime]
    seconds: Mapped[float]
    image_ids: Mapped[list[int]]
    scores: Mapped[list[float]]
    rank: Mapped[int | None]
    ties: Mapped[int | None]
    system_version: Mapped[str]
    corpus_sha256: Mapped[str] = mapped_column(String(64))


class SearchFeedback(Base):
    """The participant's feedback on a turn's lists: a satisfaction with one, a vote between two.

    `preference` is the better list, 0 if neither is; `both_bad` is true only then. `nearest` is the
    place of the image that comes nearest, from 1, in the list of `nearest_side`; None if no image
    does. `images` has the states of the images as letters, in their order. `painted_seconds` is how
    long the images took to be painted, `active_seconds` the time with the lists while the page was
    in view.
    """

    __tablename__ = "search_feedback"
    __table_args__ = (
        CheckConstraint("satisfaction between 1 and 5", name="satisfaction"),
        CheckConstraint("nearest >= 1", name="nearest"),
        CheckConstraint("nearest_side in (1, 2)", name="nearest_side"),
        CheckConstraint("(nearest is null) = (nearest_side is null)", name="nearest_whole"),
        CheckConstraint(
            "(satisfaction is not null and preference is null and both_bad is null) or "
            "(satisfaction is null and preference in (1, 2) and not both_bad) or "
            "(satisfaction is null and preference = 0 and both_bad is not null)",
            name="said",
        ),
    )

    turn_id: Mapped[int] = mapped_column(ForeignKey("search_turns.id"), primary_key=True)
    satisfaction: Mapped[int | None]
    preference: Mapped[int | None]
    both_bad: Mapped[bool | None]
    nearest: Mapped[int | None]
    nearest_side: Mapped[int | None]
    images: Mapped[str]
    painted_seconds: Mapped[float | None]
    active_seconds: Mapped[float]
    given_at: Mapped[datetime]


class SearchEnding(Base):
    """How a search stopped: at an image of a list that the participant declared, or without one."""

    __tablename__ = "search_endings"
    __table_args__ = (
        CheckConstraint("reason in ('declared', 'stopped', 'max-rounds')", name="reason"),
        CheckConstraint("(reason = 'declared') = (declared_id is not null)", name="declared"),
        CheckConstraint("(declared_id is null) = (declared_side is null)", name="declared_whole"),
        CheckConstraint("declared_side in (1, 2)", name="declared_side"),
    )

    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"), primary_key=True)
    submit_key: Mapped[str] = mapped_column(String(64))
    reason: Mapped[Reason] = mapped_column(String(20))
    declared_id: Mapped[int | None] = mapped_column(ForeignKey("images.id"))
    declared_side: Mapped[int | None]
    ended_at: Mapped[datetime]


class SearchUpload(Base):
    """The picture that a participant has uploaded for a search, as a JPEG without metadata.

    It is uploaded before the first text, which is about it. Releases do not have it.
    `submit_key` identifies the upload in the browser; `sha256` is of the content.
    """

    __tablename__ = "search_uploads"

    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"), primary_key=True)
    submit_key: Mapped[str] = mapped_column(String(64))
    content: Mapped[bytes] = mapped_column(deferred=True)
    sha256: Mapped[str] = mapped_column(String(64))
    width: Mapped[int]
    height: Mapped[int]
    uploaded_at: Mapped[datetime]


class StruckText(Base):
    """A turn whose text the owner has redacted: releases omit the text."""

    __tablename__ = "struck_texts"

    turn_id: Mapped[int] = mapped_column(ForeignKey("search_turns.id"), primary_key=True)
    struck_at: Mapped[datetime]


class ImportedSearch(Base):
    """Facts from the release of an imported search that no other table holds.

    `place` counts the participant's searches from 1, including searches absent from the release;
    `uploaded`: the participant had uploaded a picture; `repeats` are the numbers of the turns with
    the text of an earlier one, which may be struck.
    """

    __tablename__ = "imported_searches"

    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"), primary_key=True)
    place: Mapped[int]
    uploaded: Mapped[bool]
    repeats: Mapped[list[int]]


class PublishedLeaderboard(Base):
    """The published leaderboard of an arena, kept until enough new people have voted.

    `figures` do not change with the votes, not even when votes are deleted. `number` counts the
    publications from 1; `last_response` is the key of the newest response that ended one of the
    searches counted in the figures.
    """

    __tablename__ = "published_leaderboards"
    __table_args__ = (CheckConstraint("number >= 1", name="number"),)

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    number: Mapped[int]
    last_response: Mapped[int]
    published_at: Mapped[datetime]
    figures: Mapped[dict[str, Any]]
