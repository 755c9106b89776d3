"""The view of a search, built from the database alone, and blind as all views are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypedDict

from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Assignment
from hsfiq.collect.protocol import ImageView, SearchTurnView
from hsfiq.collect.searching.sessions import (
    SearchState,
    Turn,
    images_by_key,
    searches_of,
    target_seconds_left,
)
from hsfiq.db.searches.tables import Reason
from hsfiq.db.tables import Image
from hsfiq.study.searching.config import Chooser, Task

ShowImage = Callable[[Image], ImageView]


def search_assignment(state: SearchState, revision: int) -> Assignment:
    """What the page shows: a search after so many turns or, after its end, a question."""
    if state.ending is not None:
        return Assignment("question", state.question.id, revision)
    return Assignment("search", state.question.id, len(state.turns))


class SearchParts(TypedDict):
    """The part of a `SearchView` that depends on the search."""

    task: Task
    chooser: Chooser
    rounds: int
    awaits_list: bool
    start: ImageView
    target: ImageView | None
    target_seconds: float | None
    turns: list[SearchTurnView]
    ending: Reason | None
    declared: int | None


def search_parts(session: Session, state: SearchState, show: ShowImage) -> SearchParts:
    searches = searches_of(state.question)
    images = images_by_key(session, keys_in(state))
    seconds = target_seconds(state)
    target = state.triplet.target_id if seconds is None or seconds > 0 else None
    if searches.task == "own-wish":
        target, seconds = None, None
    ending = state.ending
    declared = None
    if ending is not None and ending.declared_id is not None:
        listed = state.turns[-1].listed
        declared = listed.image_ids.index(ending.declared_id) + 1 if listed else None
    return {
        "task": searches.task,
        "chooser": searches.chooser,
        "rounds": searches.rounds,
        "awaits_list": state.ending is None and state.awaits_list,
        "start": show(images[state.triplet.reference_id or 0]),
        "target": None if target is None else show(images[target]),
        "target_seconds": seconds,
        "turns": [turn_view(turn, images, show) for turn in state.turns],
        "ending": ending.reason if ending else None,
        "declared": declared,
    }


def target_seconds(state: SearchState) -> float | None:
    """How much longer the target is in view; None if it stays."""
    if searches_of(state.question).task != "target-remembered":
        return None
    # Once something has been typed, the target is not shown again.
    if len(state.turns) > 1 or state.ending is not None:
        return 0.0
    return round(target_seconds_left(state.question, datetime.now(UTC)), 1)


def turn_view(turn: Turn, images: Mapping[int, Image], show: ShowImage) -> SearchTurnView:
    asked, listed, feedback = turn.asked, turn.listed, turn.feedback
    return {
        "number": asked.number,
        "text": asked.text,
        "reference": show(images[asked.reference_id]),
        "images": None if listed is None else [show(images[key]) for key in listed.image_ids],
        "satisfaction": feedback.satisfaction if feedback else None,
        "nearest": feedback.nearest if feedback else None,
    }


def keys_in(state: SearchState) -> set[int]:
    """The keys of all images that a search may show."""
    keys = {turn.asked.reference_id for turn in state.turns}
    for turn in state.turns:
        keys.update(turn.listed.image_ids if turn.listed else ())
    keys.update(filter(None, (state.triplet.reference_id, state.triplet.target_id)))
    return keys
