"""The view of a search, built from the database alone, and blind as all views are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypedDict

from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Assignment, Signer
from hsfiq.collect.protocol import ImageView, PlaceView, SearchTurnView, VoteView
from hsfiq.collect.searches import (
    OF_QUERY,
    SearchState,
    Turn,
    images_by_key,
    searches_of,
    target_seconds_left,
)
from hsfiq.db.search_tables import Reason, SearchFeedback
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Participant
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
    is_own_picture: bool
    may_upload: bool
    target: ImageView | None
    target_seconds: float | None
    turns: list[SearchTurnView]
    ending: Reason | None
    declared: PlaceView | None


def search_parts(
    session: Session, state: SearchState, show: ShowImage, upload: ImageView | None
) -> SearchParts:
    """The parts; `upload` is the picture that the participant has uploaded."""
    searches = searches_of(state.question)
    images = images_by_key(session, keys_in(state))
    seconds = target_seconds(state)
    target = state.triplet.target_id if seconds is None or seconds > 0 else None
    if searches.task == "own-wish":
        target, seconds = None, None
    ending = state.ending
    return {
        "task": searches.task,
        "chooser": searches.chooser,
        "rounds": searches.rounds,
        "awaits_list": state.awaits_list,
        "start": upload or show(images[state.triplet.reference_id or 0]),
        "is_own_picture": upload is not None,
        "may_upload": state.may_upload,
        "target": None if target is None else show(images[target]),
        "target_seconds": seconds,
        "turns": [
            turn_view(turn, images, show, upload if turn.asked.reference_id is None else None)
            for turn in state.turns
        ],
        "ending": ending.reason if ending else None,
        "declared": declared_place(state),
    }


def upload_view(state: SearchState, signer: Signer, participant: Participant) -> ImageView | None:
    """The uploaded picture, under an address that only this participant's browser can use.

    A preview, whose participant has no row, does not show what somebody has uploaded.
    """
    if state.upload is None:
        return None
    assignment = Assignment("upload", state.question.id)
    return {
        "token": f"upload/{assignment.signed(signer, participant.token_hash)}",
        "missing": not participant.id,
    }


def declared_place(state: SearchState) -> PlaceView | None:
    ending = state.ending
    if ending is None or ending.declared_id is None or ending.declared_side is None:
        return None
    images = state.lists[ending.declared_side - 1].image_ids
    return {"list": ending.declared_side, "place": images.index(ending.declared_id) + 1}


def target_seconds(state: SearchState) -> float | None:
    """How much longer the target is in view; None if it stays."""
    if searches_of(state.question).task != "target-remembered":
        return None
    # Once something has been typed, the target is not shown again.
    if len(state.turns) > 1 or state.ending is not None:
        return 0.0
    return round(target_seconds_left(state.question, datetime.now(UTC)), 1)


def turn_view(
    turn: Turn, images: Mapping[int, Image], show: ShowImage, upload: ImageView | None
) -> SearchTurnView:
    """A turn; `upload` is the picture that its text is about, if it is about one."""
    asked, feedback = turn.asked, turn.feedback
    lists = [[show(images[key]) for key in listed.image_ids] for listed in turn.lists]
    return {
        "number": asked.number,
        "text": asked.text or "",
        "is_given": asked.submit_key == OF_QUERY,
        "reference": upload or show(images[asked.reference_id or 0]),
        "lists": lists or None,
        "satisfaction": feedback.satisfaction if feedback else None,
        "vote": vote_of(feedback) if feedback else None,
        "nearest": nearest_of(feedback) if feedback else None,
    }


def vote_of(feedback: SearchFeedback) -> VoteView | None:
    if feedback.preference is None:
        return None
    return {"preference": feedback.preference, "both_bad": bool(feedback.both_bad)}


def nearest_of(feedback: SearchFeedback) -> PlaceView | None:
    if feedback.nearest is None or feedback.nearest_side is None:
        return None
    return {"list": feedback.nearest_side, "place": feedback.nearest}


def keys_in(state: SearchState) -> set[int]:
    """The keys of all images that a search may show."""
    keys = {key for turn in state.turns if (key := turn.asked.reference_id) is not None}
    for turn in state.turns:
        keys.update(turn.image_ids)
    keys.update(filter(None, (state.triplet.reference_id, state.triplet.target_id)))
    return keys
