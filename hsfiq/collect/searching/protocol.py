"""What the page sends in a search; `hsfiq.collect.protocol` has what it is sent."""

from __future__ import annotations

from typing import final

# pydantic reads typing.TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict

from hsfiq.answer_rules import ImageState


@final
class OpinionPayload(TypedDict):
    """What is said of a list; `images` are the states of its images, in their order.

    `nearest` is the place of an image from 1, null if none comes nearest. `painted_seconds` is null
    if an image was not painted.
    """

    satisfaction: int
    nearest: int | None
    images: list[ImageState]
    painted_seconds: float | None
    active_seconds: float


@final
class TypedPayload(TypedDict):
    """A text, and how it was typed; seconds from when the list was painted."""

    text: str
    pasted: bool
    first_key_seconds: float | None
    last_key_seconds: float | None


@final
class TurnPayload(TypedDict):
    """POST /search/turn: one press of Search; `opinion` is null before the first list."""

    assignment: str
    submit_key: str
    opinion: OpinionPayload | None
    typed: TypedPayload


@final
class ListPayload(TypedDict):
    """POST /search/list: get the list of the last turn; a repeated request changes nothing."""

    assignment: str


@final
class StopPayload(TypedDict):
    """POST /search/stop: the search ends, at the image at a place from 1 or at none (null).

    `opinion` is null if the list did not come.
    """

    assignment: str
    submit_key: str
    opinion: OpinionPayload | None
    declared: int | None
