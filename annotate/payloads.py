"""What the page sends, read strictly: the right type, no more than it may be, no key too many."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from fastapi import Request

from hsfiq.errors import Refused
from hsfiq.records import HIGHEST_SCORE, LOWEST_SCORE, require_whole

LARGEST_BODY = 64 * 1024
LONGEST_TEXT = 400
SUBMIT_KEY = re.compile(r"[0-9A-Za-z_-]{16,64}")


class TooLarge(Refused):
    """The body is longer than any answer can be."""

    status = 413


class WrongType(Refused):
    """The body is not announced as JSON; other sites cannot announce it so unasked."""

    status = 415


class Unreadable(Refused):
    """The body is no JSON."""

    status = 400


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The values of an answer and the page's clock: seconds, by which no moment is trusted."""

    score_1: int
    score_2: int
    preferred: int
    irrelevant: bool
    reason: str | None
    active_seconds: float
    seconds_since_first_interaction: float | None


@dataclass(frozen=True, slots=True)
class Submit:
    """One press of Next; `answer` is None where the question is skipped."""

    assignment: str
    submit_key: str
    answer: GivenAnswer | None


@dataclass(frozen=True, slots=True)
class CheckTry:
    """One try at a check."""

    assignment: str
    given: str


async def limited_body(request: Request) -> bytes:
    """The request's body.

    Raises:
        WrongType: it is not announced as JSON.
        TooLarge: it is longer than `LARGEST_BODY`; no more than that is read.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise WrongType("send JSON")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise TooLarge(f"more than {LARGEST_BODY // 1024} kB")
    return bytes(body)


def read_submit(body: bytes) -> Submit:
    """Read the body of a submit.

    Raises:
        Refused: anything in it is not as the page sends it.
    """
    values = read_object(body)
    if "skip" in values:
        require_keys(values, {"assignment", "submit_key", "skip"})
        if values["skip"] is not True:
            raise Refused("skip is not true")
        answer = None
    else:
        require_keys(values, {"assignment", "submit_key", "answer"})
        answer = read_answer(values["answer"])
    submit_key = text(values, "submit_key")
    if not SUBMIT_KEY.fullmatch(submit_key):
        raise Refused("submit_key is not 16 to 64 letters and digits")
    return Submit(text(values, "assignment"), submit_key, answer)


def read_check(body: bytes) -> CheckTry:
    """Read the body of a try at a check.

    Raises:
        Refused: anything in it is not as the page sends it.
    """
    values = read_object(body)
    require_keys(values, {"assignment", "given"})
    return CheckTry(text(values, "assignment"), text(values, "given"))


def read_consent(body: bytes) -> bool:
    """Read what is said on the consent page: whether they take part.

    Raises:
        Refused: anything in it is not as the page sends it.
    """
    values = read_object(body)
    require_keys(values, {"agrees"})
    if not isinstance(values["agrees"], bool):
        raise Refused("agrees is neither true nor false")
    return values["agrees"]


def read_nothing(body: bytes) -> None:
    """Read a body that says nothing but that it comes from our page.

    Raises:
        Refused: it says something.
    """
    require_keys(read_object(body), set())


def read_answer(values: object) -> GivenAnswer:
    """Read the answer within a submit."""
    if not isinstance(values, dict):
        raise Refused("answer is no object")
    require_keys(values, set(GivenAnswer.__slots__))
    for name in ("score_1", "score_2"):
        require_whole(name, values[name], LOWEST_SCORE, HIGHEST_SCORE)
    require_whole("preferred", values["preferred"], 0, 2)
    if not isinstance(values["irrelevant"], bool):
        raise Refused("irrelevant is neither true nor false")
    since = values["seconds_since_first_interaction"]
    return GivenAnswer(
        score_1=values["score_1"],
        score_2=values["score_2"],
        preferred=values["preferred"],
        irrelevant=values["irrelevant"],
        reason=None if values["reason"] is None else clean(values, "reason").strip(),
        active_seconds=seconds(values, "active_seconds"),
        seconds_since_first_interaction=(
            None if since is None else seconds(values, "seconds_since_first_interaction")
        ),
    )


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in the body, no NaN and no key twice.

    Raises:
        Unreadable: there is none.
    """
    try:
        values = json.loads(
            body.decode("utf-8"), parse_constant=no_constant, object_pairs_hook=unique_keys
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable("the body is no JSON that can be read") from error
    if not isinstance(values, dict):
        raise Unreadable("the body is no JSON object")
    return values


def no_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, JSON knows neither."""
    raise ValueError(name)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's pairs as a dict, where no key may come twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key comes twice")
    return values


def require_keys(values: dict[str, Any], wanted: set[str]) -> None:
    """Refuse an object with other keys than the wanted ones."""
    if set(values) != wanted:
        odd = ", ".join(sorted(set(values) ^ wanted))[:100]
        raise Refused(f"keys missing or unknown: {odd}")


def text(values: dict[str, Any], name: str) -> str:
    """A short text."""
    value = clean(values, name)
    if len(value) > LONGEST_TEXT:
        raise Refused(f"{name} is too long")
    return value


def clean(values: dict[str, Any], name: str) -> str:
    """A text that every database can keep: no NUL, no half of a surrogate pair."""
    value = values[name]
    if not isinstance(value, str):
        raise Refused(f"{name} is no text")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Refused(f"{name} holds a character that is none")
    return value


def seconds(values: dict[str, Any], name: str) -> float:
    """A number of seconds, not negative."""
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{name} is no number")
    if not 0 <= value < math.inf:
        raise Refused(f"{name} is {value}, not a number of seconds")
    return float(min(value, 1e9))
