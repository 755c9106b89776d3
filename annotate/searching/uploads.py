"""Receiving the picture of a search, and showing it to the participant who uploaded it.

A picture may be 8 MB of text on its way and 100 MB of pixels when it is decoded, so both are
limited for each participant, and in all.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.body_limit import LARGEST_PICTURE, TooLarge
from hsfiq.annotate.cookies import Signer, read_assignment, required_participant
from hsfiq.annotate.images.response import HEADERS
from hsfiq.collect.protocol import UploadPayload
from hsfiq.collect.searches import (
    LONGEST_SIDE,
    MAX_PIXELS,
    add_upload,
    require_uploadable,
    state_of,
)
from hsfiq.collect.stages import Position, current_position
from hsfiq.collect.steps import lock_question
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchUpload
from hsfiq.db.tables import Participant
from hsfiq.errors import Refused
from hsfiq.images.decode import UndecodableImage
from hsfiq.images.display import Reencoded, reencoded

T = TypeVar("T")

READ_AT_ONCE = 2
"""Pictures that are decoded and stored at the same time."""

ARRIVING_AT_ONCE = 4
"""Pictures that one participant may be sending: one, and those of connections that broke off."""


ARRIVING_IN_ALL = 32
"""Pictures that all participants together may be sending, because their bodies are in memory."""


class TooMany(Refused):
    status = 429


class Uploads:
    """The uploads of a process that are being received; only the event loop uses it.

    Those that wait to be read take no thread that another request needs.
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
        """What `store` returns in a thread; `TooMany` while another picture of theirs is read."""
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
    database: Database, signer: Signer, cookies: Mapping[str, str], payload: UploadPayload
) -> tuple[Participant, Position]:
    """Store the picture of a search; the participant, and where they are.

    Whether it may be stored is checked before it is decoded. No transaction lasts meanwhile.
    """
    signed, now = payload["assignment"], datetime.now(UTC)
    with database.reading() as session:
        participant = required_participant(session, cookies, signer)
        assignment = read_assignment(signer, participant.token_hash, signed, "search")
        require_uploadable(
            session,
            participant,
            state_of(session, assignment.key),
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
        )
    picture = read_picture(payload["picture"])
    with database.writing() as session:
        participant = required_participant(session, cookies, signer, lock=True)
        assignment = read_assignment(signer, participant.token_hash, signed, "search")
        lock_question(session, assignment.key)
        add_upload(
            session,
            participant,
            state_of(session, assignment.key),
            picture,
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
            now=now,
        )
        return participant, current_position(session, participant, now)


def read_picture(encoded: str) -> Reencoded:
    """The picture as it is stored; `Refused` if it is none, broken or too large."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise Refused("picture: is not base64") from error
    if len(content) > LARGEST_PICTURE:
        raise TooLarge(f"picture: has more than {LARGEST_PICTURE // 2**20} MB")
    try:
        return reencoded(content, LONGEST_SIDE, MAX_PIXELS)
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
