"""The proof that somebody pressed Begin on our welcome page, which is in the page's form.

A script that sends the form without it, or the same form again and again, takes no place: each
proof makes one participant of a study, for a short time.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from hsfiq.annotate.cookies import Signer
from hsfiq.errors import Forbidden

PURPOSE = "welcome page"

VALID_FOR = timedelta(hours=1)
"""How long somebody may read the welcome page."""


class NotProven(Forbidden):
    """The form is not from our welcome page, or the page is too old, or was used already."""


def new_proof(signer: Signer, now: datetime) -> str:
    return signer.sign(PURPOSE, f"{int(now.timestamp())}:{secrets.token_urlsafe(16)}")


def token_for(signer: Signer, proof: str, study_id: int, now: datetime) -> str:
    """The token of the participant whom this proof makes in a study.

    It is the same each time, so that a form that was sent twice makes one participant.

    Raises:
        NotProven: the proof is not valid.
    """
    text = signer.read(PURPOSE, proof)
    if text is None:
        raise NotProven("the form is not from the welcome page")
    seconds, _, _ = text.partition(":")
    if abs(now.timestamp() - int(seconds)) > VALID_FOR.total_seconds():
        raise NotProven("the welcome page is too old")
    return signer.derive("token of a participant", f"{text}:{study_id}")
