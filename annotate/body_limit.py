"""Reading the body of a request, within limits of size and time."""

from __future__ import annotations

import anyio
from fastapi import Request

from hsfiq.answer_rules import LONGEST_REASON
from hsfiq.errors import Refused

ESCAPED_CHARACTER = 12
"""Bytes of the longest JSON escape of a character, `\\ud83d\\udc57`."""

LARGEST_BODY = ESCAPED_CHARACTER * LONGEST_REASON + 16 * 1024
"""Bytes of any request: the longest reason, and more than the rest of an answer needs."""


LARGEST_PICTURE = 6 * 2**20
"""Bytes of a picture that is uploaded."""

UPLOAD = "/search/upload"

LARGEST_UPLOAD = 8 * 2**20 + 16 * 1024
"""Bytes of the request that uploads one: in base64, it is a third longer."""


LONGEST_ARRIVAL = 300.0
"""Seconds in which a body must have arrived: the largest one at 28 kB/s."""


class TooLarge(Refused):
    status = 413


class TooSlow(Refused):
    status = 408


class WrongType(Refused):
    """The body is not declared as JSON; a form on another site cannot declare it so."""

    status = 415


def largest_body(path: str) -> int:
    """Bytes of a request to this path of the app."""
    return LARGEST_UPLOAD if path == UPLOAD else LARGEST_BODY


async def limited_body(request: Request) -> bytes:
    """The request's JSON body; reading stops at the largest one for its route."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise WrongType("send JSON")
    largest = largest_body(request.scope["route"].path)
    body = bytearray()
    with anyio.move_on_after(LONGEST_ARRIVAL) as arrival:
        async for chunk in request.stream():
            body += chunk
            if len(body) > largest:
                raise TooLarge(f"more than {largest // 1024} kB")
    if arrival.cancelled_caught:
        raise TooSlow(f"did not arrive within {LONGEST_ARRIVAL:.0f} seconds; send it again")
    return bytes(body)
