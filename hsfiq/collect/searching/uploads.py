"""The picture that a participant uploads for a search, where the study allows it."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from sqlalchemy.orm import Session

from hsfiq.collect.leases import extend_lease
from hsfiq.collect.searching.sessions import require_same
from hsfiq.collect.searching.state import SearchState, searches_of
from hsfiq.collect.steps import require_reached
from hsfiq.db.search_tables import SearchUpload
from hsfiq.db.tables import Participant
from hsfiq.errors import Conflict, Forbidden
from hsfiq.images.display import Reencoded

LONGEST_SIDE = 1024
"""Pixels of a stored picture."""

MAX_PIXELS = 25_000_000
"""Of a picture that is uploaded: phones take 12 or 24 million."""


def add_upload(
    session: Session,
    participant: Participant,
    state: SearchState,
    picture: Reencoded,
    *,
    expected_turns: int,
    submit_key: str,
    now: datetime,
) -> None:
    """Store the picture that the first text will be about.

    Raises:
        Forbidden: the study allows no pictures, or the participant is not at this question.
        NotOpen: the study takes no answers.
        Conflict: the search has a picture or a text already.
    """
    require_uploadable(
        session, participant, state, expected_turns=expected_turns, submit_key=submit_key
    )
    digest = sha256(picture.content).hexdigest()
    if (stored := state.upload) is not None:
        if stored.sha256 != digest:
            raise Conflict("this submit was used for another picture")
        return
    session.add(
        SearchUpload(
            question_id=state.question.id,
            submit_key=submit_key,
            content=picture.content,
            sha256=digest,
            width=picture.width,
            height=picture.height,
            uploaded_at=now,
        )
    )
    extend_lease(participant, now)
    session.flush()


def require_uploadable(
    session: Session,
    participant: Participant,
    state: SearchState,
    *,
    expected_turns: int,
    submit_key: str,
) -> None:
    """Raise as `add_upload` does, unless a picture can be stored or was stored by this submit."""
    require_reached(session, participant, state.question.id)
    if not searches_of(state.question).uploads:
        raise Forbidden("this study takes no pictures")
    if state.upload is not None and state.upload.submit_key == submit_key:
        return
    require_same(participant, state, expected_turns)
    if state.upload is not None or state.turns:
        raise Conflict("a picture is uploaded once, before the first text")
