"""Receiving the picture of a search, and showing it to the participant who uploaded it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.body_limit import LARGEST_PICTURE, TooLarge
from hsfiq.annotate.cookies import Signer, read_assignment, required_participant
from hsfiq.annotate.images.response import HEADERS
from hsfiq.collect.searching.protocol import UploadPayload
from hsfiq.collect.searching.state import state_of
from hsfiq.collect.searching.uploads import LONGEST_SIDE, add_upload, require_allowed
from hsfiq.collect.stages import Position, current_position
from hsfiq.collect.steps import lock_question, require_reached
from hsfiq.db.engine import Database
from hsfiq.db.searches.tables import SearchUpload
from hsfiq.db.tables import Participant
from hsfiq.errors import Refused
from hsfiq.images.decode import UndecodableImage
from hsfiq.images.reencode import Reencoded, reencoded


def receive_upload(
    database: Database, signer: Signer, cookies: Mapping[str, str], payload: UploadPayload
) -> tuple[Participant, Position]:
    """Store the picture of a search; the participant, and where they are.

    No transaction lasts while the picture is decoded.
    """
    signed, now = payload["assignment"], datetime.now(UTC)
    with database.reading() as session:
        participant = required_participant(session, cookies, signer)
        assignment = read_assignment(signer, participant.token_hash, signed, "search")
        require_reached(session, participant, assignment.key)
        require_allowed(state_of(session, assignment.key))
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
        return reencoded(content, LONGEST_SIDE)
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
