"""The largest body of a request, and reading no more than that."""

from __future__ import annotations

from fastapi import Request
from starlette.types import Message, Receive

from hsfiq.answer_rules import LONGEST_REASON
from hsfiq.errors import Refused

ESCAPED_CHARACTER = 12
"""Bytes of the longest JSON escape of a character, `\\ud83d\\udc57`."""

LARGEST_BODY = ESCAPED_CHARACTER * LONGEST_REASON + 16 * 1024
"""Bytes of any request: the longest reason, and more than the rest of an answer needs."""


class TooLarge(Refused):
    status = 413


class WrongType(Refused):
    """The body is not declared as JSON; a form on another site cannot declare it so."""

    status = 415


async def limited_body(request: Request) -> bytes:
    """The request's JSON body; reading stops at `LARGEST_BODY`."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise WrongType("send JSON")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise TooLarge(f"more than {LARGEST_BODY // 1024} kB")
    return bytes(body)


def limited(receive: Receive) -> Receive:
    """The same messages, until a body without a declared length exceeds `LARGEST_BODY`.

    The application then sees a disconnected client, and never holds more than the limit.
    """
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return {"type": "http.disconnect"} if received > LARGEST_BODY else message

    return receive_limited
