"""Who is asking: the signed cookie that names a participant, and nothing else about a person."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response
from sqlalchemy.orm import Session

from hsfiq.annotate.signing import Signer
from hsfiq.collect import participants
from hsfiq.db.tables import Participant
from hsfiq.errors import Refused

COOKIE = "hsfiq_participant"
PURPOSE = "participant"
HALF_A_YEAR = 180 * 24 * 3600


class Unknown(Refused):
    """The request comes without a cookie of ours."""

    status = 401


def token_in(cookies: Mapping[str, str], signer: Signer) -> str | None:
    """The participant's token in these cookies, None where it is absent or not signed by us."""
    return signer.read(PURPOSE, cookies.get(COOKIE, ""))


def participant_in(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant | None:
    """The participant whom these cookies name, None for a stranger."""
    token = token_in(cookies, signer)
    return participants.by_token(session, token) if token else None


def required_participant(
    session: Session, cookies: Mapping[str, str], signer: Signer
) -> Participant:
    """The participant whom these cookies name.

    Raises:
        Unknown: they name nobody.
    """
    participant = participant_in(session, cookies, signer)
    if participant is None:
        raise Unknown("this browser is not known here; begin at the welcome page")
    return participant


def remember(response: Response, participant: Participant, signer: Signer, *, secure: bool) -> None:
    """Let the browser carry the participant's token; scripts cannot read it."""
    response.set_cookie(
        COOKIE,
        signer.sign(PURPOSE, participant.token),
        max_age=HALF_A_YEAR,
        httponly=True,
        samesite="lax",
        secure=secure,
    )
