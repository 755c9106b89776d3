"""Requests of the page, read strictly: bounded bodies, exact types, no unknown or missing keys."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeVar

import anyio
from fastapi import Request
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from hsfiq.answer_rules import LONGEST_REASON
from hsfiq.collect import protocol
from hsfiq.errors import Refused
from hsfiq.text import is_storable_text

# Reading the body of a request, within limits of size and time.

ESCAPED_CHARACTER = 12
"""Bytes of the longest JSON escape of a character, `\\ud83d\\udc57`."""

LARGEST_BODY = ESCAPED_CHARACTER * LONGEST_REASON + 16 * 1024
"""Bytes of any request: the longest reason, and more than the rest of an answer needs."""


LARGEST_PICTURE = 6 * 2**20
"""Bytes of a picture that is uploaded."""

UPLOAD = "/search/upload"

LARGEST_UPLOAD = 8 * 2**20 + 16 * 1024
"""Bytes of the request that uploads one: in base64, it is a third longer."""


DRAFT_UPLOAD = "/owner/draft/{token}/upload"

LARGEST_PART = 2**20
"""Bytes of a part of a file that an owner uploads."""


LONGEST_ARRIVAL = 300.0
"""Seconds in which a body must have arrived: the largest one at 28 kB/s."""


class TooLarge(Refused):
    status = 413


class TooSlow(Refused):
    status = 408


class WrongType(Refused):
    """The body is not declared as JSON; a form on another site cannot declare JSON."""

    status = 415


def largest_body(path: str) -> int:
    """Bytes of a request to this path of the app."""
    if path.startswith("/owner/draft/") and path.endswith("/upload"):
        return LARGEST_PART
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


T = TypeVar("T")

LONGEST_TEXT = 400
"""Characters of every text except the reason, which `hsfiq.answer_rules` limits."""

SUBMIT_KEY = re.compile(r"[0-9A-Za-z_-]{16,64}")

KEY_ERRORS = ("missing", "extra_forbidden")
"""pydantic's types of errors for keys that are absent or unknown."""

STRICT = ConfigDict(strict=True, extra="forbid", str_max_length=LONGEST_TEXT)

ANSWERS = (
    protocol.AnswerPayload,
    protocol.QuestionnairePayload,
    protocol.OpinionPayload,
    protocol.TypedPayload,
)
for _answer in ANSWERS:
    with_config(STRICT | {"allow_inf_nan": False, "str_max_length": None})(_answer)
SUBMITS = (protocol.SubmitPayload, protocol.SkipPayload)
PAYLOADS = (
    protocol.EmptyPayload,
    protocol.SeenPayload,
    protocol.ConsentPayload,
    protocol.WithdrawalPayload,
    protocol.ImagesPayload,
    *SUBMITS,
    protocol.CheckPayload,
    protocol.LanguagePayload,
    protocol.TurnPayload,
    protocol.ListPayload,
    protocol.StopPayload,
)
for _payload in PAYLOADS:
    with_config(STRICT)(_payload)
with_config(STRICT | {"str_max_length": None})(protocol.UploadPayload)

EMPTY = TypeAdapter(protocol.EmptyPayload)
CONSENT = TypeAdapter(protocol.ConsentPayload)
WITHDRAWAL = TypeAdapter(protocol.WithdrawalPayload)
SEEN = TypeAdapter(protocol.SeenPayload)
SUBMIT = TypeAdapter(protocol.SubmitPayload)
SKIP = TypeAdapter(protocol.SkipPayload)
CHECK = TypeAdapter(protocol.CheckPayload)
LANGUAGE = TypeAdapter(protocol.LanguagePayload)
QUESTIONNAIRE = TypeAdapter(protocol.QuestionnairePayload)
TURN = TypeAdapter(protocol.TurnPayload)
LIST = TypeAdapter(protocol.ListPayload)
STOP = TypeAdapter(protocol.StopPayload)
UPLOADED = TypeAdapter(protocol.UploadPayload)


class Unreadable(Refused):
    status = 400


class OutdatedPage(Refused):
    """Keys are missing or unknown, for example in requests of a page from an older server."""


def read_payload(adapter: TypeAdapter[T], body: bytes) -> T:
    return validated(adapter, read_object(body))


def read_submit(body: bytes) -> protocol.SubmitPayload | protocol.SkipPayload:
    values = read_object(body)
    payload: protocol.SubmitPayload | protocol.SkipPayload
    if "skip" in values:
        if values["skip"] is not True:  # strict pydantic takes 1 for Literal[True]
            raise Refused("skip: must be true")
        payload = validated(SKIP, values)
    else:
        payload = validated(SUBMIT, values)
        require_durations(payload["answer"])
    require_submit_key(payload["submit_key"])
    return payload


def read_turn(body: bytes) -> protocol.TurnPayload:
    """One press of Search."""
    payload = read_payload(TURN, body)
    require_submit_key(payload["submit_key"])
    typed = payload["typed"]
    require_seconds(typed["first_key_seconds"], typed["last_key_seconds"])
    require_opinion(payload["opinion"])
    return payload


def read_stop(body: bytes) -> protocol.StopPayload:
    payload = read_payload(STOP, body)
    require_submit_key(payload["submit_key"])
    require_opinion(payload["opinion"])
    return payload


def read_upload(body: bytes) -> protocol.UploadPayload:
    payload = read_payload(UPLOADED, body)
    require_submit_key(payload["submit_key"])
    return payload


def require_opinion(opinion: protocol.OpinionPayload | None) -> None:
    if opinion is not None:
        require_seconds(opinion["painted_seconds"], opinion["active_seconds"])


def require_submit_key(key: str) -> None:
    if not SUBMIT_KEY.fullmatch(key):
        raise Refused("submit_key: must be 16 to 64 letters, digits, hyphens or underscores")


def require_durations(answer: protocol.AnswerPayload) -> None:
    require_seconds(answer["active_seconds"], answer["seconds_since_first_interaction"])


def require_seconds(*durations: float | None) -> None:
    if any(seconds is not None and seconds < 0 for seconds in durations):
        raise Refused("answer: a number of seconds is negative")


def validated(adapter: TypeAdapter[T], values: dict[str, Any]) -> T:
    try:
        return adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        refusal = OutdatedPage if first["type"] in KEY_ERRORS else Refused
        raise refusal(f"{key[:100]}: {first['msg']}") from error


def read_object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(
            body.decode("utf-8"), parse_constant=refuse_constant, object_pairs_hook=checked_object
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable("the body is not readable JSON") from error
    if not isinstance(values, dict):
        raise Unreadable("the body is not a JSON object")
    return values


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads but JSON does not allow."""
    raise ValueError(name)


def checked_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's pairs as a dict; neither repeated keys nor unstorable characters are allowed."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is repeated")
    for key, value in pairs:
        if not is_storable_text(key):
            raise ValueError("a key has characters that cannot be stored")
        if isinstance(value, str) and not is_storable_text(value):
            raise Refused(f"{key} has characters that cannot be stored")
    return values
