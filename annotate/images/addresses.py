"""The addresses of images in a participant's views.

An address is signed for one participant, one content and one week. So a browser can keep what it
gets, and the server need not ask the database who may see it. A browser without the participant's
cookie gets nothing, and an address ends with the week after its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hsfiq.annotate.cookies import Signer

WEEK = 7 * 24 * 3600

ADDRESS = re.compile(r"([0-9a-f]{32})\.([0-9]{1,6})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Address:
    """An address that a browser has sent: an image's token, a week, and a signature."""

    token: str
    week: int
    signature: str

    @property
    def is_current(self) -> bool:
        """Whether it is of this week or one beside it, as clocks may differ."""
        return abs(self.week - this_week()) <= 1

    def is_signed_for(self, signer: Signer, participants: Sequence[str], digest: str) -> bool:
        text = signed_text(self.token, self.week, digest)
        return any(
            signer.confirms(purpose_for(participant), text, self.signature)
            for participant in participants
        )


def signed_address(signer: Signer, participant: str, token: str, digest: str | None) -> str:
    """The address of an image's content, for one participant; of no content without a digest."""
    week = this_week()
    signature = signer.derive(purpose_for(participant), signed_text(token, week, digest or ""))
    return f"{token}.{week}.{signature}"


def read_address(text: str) -> Address | None:
    match = ADDRESS.fullmatch(text)
    return Address(match[1], int(match[2]), match[3]) if match else None


def this_week() -> int:
    return int(time.time() // WEEK)


def signed_text(token: str, week: int, digest: str) -> str:
    return f"{token}:{week}:{digest}"


def purpose_for(participant: str) -> str:
    return f"images of {participant}"
