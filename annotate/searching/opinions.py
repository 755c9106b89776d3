"""The page's feedback on the lists of a search."""

from __future__ import annotations

from hsfiq.collect.protocol import OpinionPayload, PlaceView
from hsfiq.collect.searches import Choice, Opinion, Place


def opinion_of(payload: OpinionPayload | None) -> Opinion | None:
    if payload is None:
        return None
    vote = payload["vote"]
    return Opinion(
        payload["satisfaction"],
        Choice(vote["preference"], vote["both_bad"]) if vote else None,
        place_of(payload["nearest"]),
        tuple(tuple(states) for states in payload["images"]),
        payload["painted_seconds"],
        payload["active_seconds"],
    )


def place_of(payload: PlaceView | None) -> Place | None:
    return Place(payload["list"], payload["place"]) if payload else None
