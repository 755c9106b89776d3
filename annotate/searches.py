"""Searches on the page: views built from the database alone, opinions, and uploaded pictures."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypedDict, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Assignment, Signer, read_assignment, required_participant
from hsfiq.annotate.images import HEADERS
from hsfiq.annotate.payloads import LARGEST_PICTURE, TooLarge
from hsfiq.collect import protocol, searches
from hsfiq.collect.asked_questions import lock_question
from hsfiq.collect.participant_row import ParticipantRow
from hsfiq.collect.stages import Position, current_position
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import Reason, SearchFeedback, SearchUpload
from hsfiq.db.source_tables import Image
from hsfiq.errors import Refused
from hsfiq.images.decode import UndecodableImage
from hsfiq.images.display import Reencoded, reencoded
from hsfiq.kinds.search_rows import Chooser, Task

# The page's feedback on the lists of a search.


def opinion_of(payload: protocol.OpinionPayload | None) -> searches.Opinion | None:
    if payload is None:
        return None
    vote = payload["vote"]
    return searches.Opinion(
        payload["satisfaction"],
        searches.Choice(vote["preference"], vote["both_bad"]) if vote else None,
        place_of(payload["nearest"]),
        tuple(tuple(states) for states in payload["images"]),
        payload["painted_seconds"],
        payload["active_seconds"],
    )


def place_of(payload: protocol.PlaceView | None) -> searches.Place | None:
    return searches.Place(payload["list"], payload["place"]) if payload else None


# Receiving the picture of a search, and showing it to the participant who uploaded it.
#
# A picture may be 8 MB of text on its way and 100 MB of pixels when it is decoded, so both are
# limited for each participant, and in all.

T = TypeVar("T")

READ_AT_ONCE = 2
"""Pictures that are decoded and stored at the same time."""

ARRIVING_AT_ONCE = 4
"""Simultaneous pictures of one participant: one, and those of broken connections."""


ARRIVING_IN_ALL = 32
"""Pictures that all participants together may be sending, because their bodies are in memory."""


class TooMany(Refused):
    status = 429


class Uploads:
    """The uploads of a process that are being received; only the event loop uses it.

    Uploads waiting to be read occupy no thread that another request needs.
    """

    def __init__(self) -> None:
        self._threads = CapacityLimiter(READ_AT_ONCE)
        self._arriving = Counter[str]()
        self._read = Counter[str]()

    @contextmanager
    def arriving(self, participants: Sequence[str]) -> Iterator[None]:
        """A block that receives a picture; `TooMany` if these participants, or all, send many."""
        if self._arriving.total() >= ARRIVING_IN_ALL:
            raise TooMany("many pictures are being received; send this one again later")
        with counted(self._arriving, participants, ARRIVING_AT_ONCE):
            yield

    async def read(self, participants: Sequence[str], store: Callable[[], T]) -> T:
        """The result of `store` in a thread; `TooMany` while another of their pictures is read."""
        with counted(self._read, participants, 1):
            return await to_thread.run_sync(store, limiter=self._threads)


@contextmanager
def counted(numbers: Counter[str], participants: Sequence[str], most: int) -> Iterator[None]:
    if any(numbers[participant] >= most for participant in participants):
        raise TooMany("another picture of yours is being received; send this one again later")
    numbers.update(participants)
    try:
        yield
    finally:
        for participant in participants:
            numbers[participant] -= 1
            if not numbers[participant]:
                del numbers[participant]


def receive_upload(
    database: Database, signer: Signer, cookies: Mapping[str, str], payload: protocol.UploadPayload
) -> tuple[ParticipantRow, Position]:
    """Store the picture of a search; returns the participant and their current place.

    Whether it may be stored is checked before it is decoded. No transaction lasts meanwhile.
    """
    signed, now = payload["assignment"], datetime.now(UTC)
    with database.reading() as session:
        participant = required_participant(session, cookies, signer)
        assignment = read_assignment(signer, participant.token_hash, signed, "search")
        searches.require_uploadable(
            session,
            participant,
            searches.state_of(session, assignment.key),
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
        )
    picture = read_picture(payload["picture"])
    with database.writing() as session:
        participant = required_participant(session, cookies, signer, lock=True)
        assignment = read_assignment(signer, participant.token_hash, signed, "search")
        lock_question(session, assignment.key)
        searches.add_upload(
            session,
            participant,
            searches.state_of(session, assignment.key),
            picture,
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
            now=now,
        )
        return participant, current_position(session, participant, now)


def read_picture(encoded: str) -> Reencoded:
    """The picture in its stored form; `Refused` if it is not a picture, broken or too large."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise Refused("picture: is not base64") from error
    if len(content) > LARGEST_PICTURE:
        raise TooLarge(f"picture: has more than {LARGEST_PICTURE // 2**20} MB")
    try:
        return reencoded(content, searches.LONGEST_SIDE, searches.MAX_PIXELS)
    except UndecodableImage as error:
        refusal = TooLarge if error.fault.kind == "too-large" else Refused
        raise refusal(f"picture: {error.fault.why}") from error


def upload_response(
    session: Session, signer: Signer, cookies: Mapping[str, str], signed: str
) -> Response:
    """The picture that the participant has uploaded; `Forbidden` to anybody else."""
    participant = required_participant(session, cookies, signer)
    key = read_assignment(signer, participant.token_hash, signed, "upload").key
    return jpeg_response(session.get(SearchUpload, key))


def jpeg_response(upload: SearchUpload | None) -> Response:
    if upload is None:
        headers = {"Cache-Control": "no-store"}
        return JSONResponse({"error": "there is no picture"}, status_code=404, headers=headers)
    return Response(upload.content, media_type="image/jpeg", headers=HEADERS)


# The view of a search, built from the database alone, and blind as all views are.

ShowImage = Callable[[Image], protocol.ImageView]


def search_assignment(state: searches.SearchState, revision: int) -> Assignment:
    """The content of the page: a search after its last turn or, after its end, a question."""
    if state.ending is not None:
        return Assignment("question", state.question.id, revision)
    return Assignment("search", state.question.id, len(state.turns))


class SearchParts(TypedDict):
    """The part of a `SearchView` that depends on the search."""

    task: Task
    chooser: Chooser
    rounds: int
    awaits_list: bool
    start: protocol.ImageView
    is_own_picture: bool
    may_upload: bool
    target: protocol.ImageView | None
    target_seconds: float | None
    turns: list[protocol.SearchTurnView]
    ending: Reason | None
    declared: protocol.PlaceView | None


def search_parts(
    session: Session,
    state: searches.SearchState,
    show: ShowImage,
    upload: protocol.ImageView | None,
) -> SearchParts:
    """The parts; `upload` is the picture that the participant has uploaded."""
    settings = searches.searches_of(state.question)
    images = searches.images_by_key(session, keys_in(state))
    seconds = target_seconds(state)
    target = state.triplet.target_id if seconds is None or seconds > 0 else None
    if settings.task == "own-wish":
        target, seconds = None, None
    ending = state.ending
    return {
        "task": settings.task,
        "chooser": settings.chooser,
        "rounds": settings.rounds,
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


def upload_view(
    state: searches.SearchState, signer: Signer, participant: ParticipantRow
) -> protocol.ImageView | None:
    """The uploaded picture, under an address that only this participant's browser can use.

    A preview, whose participant is not stored, shows no uploaded picture.
    """
    if state.upload is None:
        return None
    assignment = Assignment("upload", state.question.id)
    return {
        "token": f"upload/{assignment.signed(signer, participant.token_hash)}",
        "missing": not participant.id,
    }


def declared_place(state: searches.SearchState) -> protocol.PlaceView | None:
    ending = state.ending
    if ending is None or ending.declared_id is None or ending.declared_side is None:
        return None
    images = state.lists[ending.declared_side - 1].image_ids
    return {"list": ending.declared_side, "place": images.index(ending.declared_id) + 1}


def target_seconds(state: searches.SearchState) -> float | None:
    """The remaining seconds in which the target is shown; None without a limit."""
    if searches.searches_of(state.question).task != "target-remembered":
        return None
    # Once something has been typed, the target is not shown again.
    if len(state.turns) > 1 or state.ending is not None:
        return 0.0
    return round(searches.target_seconds_left(state.question, datetime.now(UTC)), 1)


def turn_view(
    turn: searches.Turn,
    images: Mapping[int, Image],
    show: ShowImage,
    upload: protocol.ImageView | None,
) -> protocol.SearchTurnView:
    """A turn; `upload` is the picture that its text refers to, if any."""
    asked, feedback = turn.asked, turn.feedback
    lists = [[show(images[key]) for key in listed.image_ids] for listed in turn.lists]
    return {
        "number": asked.number,
        "text": asked.text or "",
        "is_given": asked.submit_key == searches.OF_QUERY,
        "reference": upload or show(images[asked.reference_id or 0]),
        "lists": lists or None,
        "satisfaction": feedback.satisfaction if feedback else None,
        "vote": vote_of(feedback) if feedback else None,
        "nearest": nearest_of(feedback) if feedback else None,
    }


def vote_of(feedback: SearchFeedback) -> protocol.VoteView | None:
    if feedback.preference is None:
        return None
    return {"preference": feedback.preference, "both_bad": bool(feedback.both_bad)}


def nearest_of(feedback: SearchFeedback) -> protocol.PlaceView | None:
    if feedback.nearest is None or feedback.nearest_side is None:
        return None
    return {"list": feedback.nearest_side, "place": feedback.nearest}


def keys_in(state: searches.SearchState) -> set[int]:
    """The keys of all images that a search may show."""
    keys = {key for turn in state.turns if (key := turn.asked.reference_id) is not None}
    for turn in state.turns:
        keys.update(turn.image_ids)
    keys.update(filter(None, (state.triplet.reference_id, state.triplet.target_id)))
    return keys
