"""A search as it stands: its turns with their lists and the feedback on them, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.search_tables import (
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
)
from hsfiq.db.source_tables import Image, Triplet
from hsfiq.db.tables import Question
from hsfiq.errors import Refused
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Searches

SLACK = 2.0
"""Seconds by which a remembered target may be shown longer, while its image loads."""


@dataclass(frozen=True, slots=True)
class Place:
    """An image by its list and its place in it, both from 1."""

    side: int
    place: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn with its lists, that of side 1 first, and its feedback, as far as they are there."""

    asked: SearchTurn
    lists: tuple[SearchList, ...]
    feedback: SearchFeedback | None

    @property
    def image_ids(self) -> list[int]:
        """The keys of the images of all lists, in their order."""
        return [key for listed in self.lists for key in listed.image_ids]


@dataclass(frozen=True, slots=True)
class SearchState:
    """A question of a live kind as it stands."""

    question: Question
    turns: tuple[Turn, ...]
    ending: SearchEnding | None
    upload: SearchUpload | None

    @property
    def triplet(self) -> Triplet:
        return self.question.pair.query.triplet

    @property
    def first_text(self) -> str:
        """The text of the first turn if it is the query's; "" if the participant writes it."""
        is_own = searches_of(self.question).task == "own-wish"
        return "" if is_own else self.question.pair.query.text

    @property
    def awaits_list(self) -> bool:
        """Whether a list comes next; before the first turn, that of the query's text."""
        if self.ending is not None:
            return False
        if not self.turns:
            return bool(self.first_text.strip())
        return not self.turns[-1].lists

    @property
    def may_upload(self) -> bool:
        """Whether the participant may upload a picture now: once, before the first text."""
        is_new = self.upload is None and not self.turns and self.ending is None
        return is_new and searches_of(self.question).uploads

    @property
    def lists(self) -> Sequence[SearchList]:
        """Those of the last turn; `Refused` if there are none yet."""
        if not self.turns or not self.turns[-1].lists:
            raise Refused("this search has no list yet")
        return self.turns[-1].lists

    def image_at(self, at: Place, name: str) -> int:
        """The key of an image of the last lists; `Refused` if there is none at the place."""
        if not 1 <= at.side <= len(self.lists):
            raise Refused(f"{name}: is not in a list from 1 to {len(self.lists)}")
        images = self.lists[at.side - 1].image_ids
        if not 1 <= at.place <= len(images):
            raise Refused(f"{name}: is not a place from 1 to {len(images)}")
        return images[at.place - 1]


def state_of(session: Session, question_id: int) -> SearchState:
    rows = session.execute(
        select(SearchTurn, SearchFeedback)
        .outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id == question_id)
        .order_by(SearchTurn.number)
    ).all()
    lists = session.scalars(
        select(SearchList)
        .join(SearchTurn, SearchList.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id == question_id)
        .order_by(SearchList.side)
    ).all()
    return SearchState(
        session.get_one(Question, question_id),
        tuple(
            Turn(asked, tuple(each for each in lists if each.turn_id == asked.id), feedback)
            for asked, feedback in rows
        ),
        session.get(SearchEnding, question_id),
        session.get(SearchUpload, question_id),
    )


def searches_of(question: Question) -> Searches:
    return config_of(question.pair.study).searches


def target_seconds_left(question: Question, now: datetime) -> float:
    """How long a remembered target may still be shown; a preview serves no question."""
    seconds = searches_of(question).target_seconds
    if question.served_at is None:
        return float(seconds)
    until = question.served_at + timedelta(seconds=seconds + SLACK)
    return min(max((until - now).total_seconds(), 0.0), float(seconds))


def images_by_key(session: Session, keys: set[int]) -> dict[int, Image]:
    return {image.id: image for image in session.scalars(select(Image).where(Image.id.in_(keys)))}
