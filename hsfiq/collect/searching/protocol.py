"""What the page sends in a search; `hsfiq.collect.protocol` has most of what it is sent."""

from __future__ import annotations

from typing import final

# pydantic reads typing.TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict

from hsfiq.answer_rules import ImageState


class PlaceView(TypedDict):
    """An image of a search, by its list and its place in it, both from 1."""

    list: int
    place: int


class VoteView(TypedDict):
    """A vote between two lists: the better one, or 0 for neither, and then whether both are bad."""

    preference: int
    both_bad: bool


@final
class OpinionPayload(TypedDict):
    """The feedback on a turn's lists; `images` are the states of each list's images, in order.

    One list has a `satisfaction`, two have a `vote`; the other is null. `nearest` is null if no
    image comes nearest, `painted_seconds` if an image was not painted.
    """

    satisfaction: int | None
    vote: VoteView | None
    nearest: PlaceView | None
    images: list[list[ImageState]]
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
class UploadPayload(TypedDict):
    """POST /search/upload: the picture that the first text will be about, in base64."""

    assignment: str
    submit_key: str
    picture: str


@final
class ListPayload(TypedDict):
    """POST /search/list: get the list of the last turn; a repeated request changes nothing."""

    assignment: str


@final
class StopPayload(TypedDict):
    """POST /search/stop: the search ends, at an image of the last lists or at none (null).

    `opinion` is null if the list did not come.
    """

    assignment: str
    submit_key: str
    opinion: OpinionPayload | None
    declared: PlaceView | None
