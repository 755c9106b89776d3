"""The JSON with which the page of a participation that has ended is made."""

from __future__ import annotations

from typing import NotRequired

# pydantic reads typing.TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict


class HitForm(TypedDict):
    """The address and the fields of the form that sends a HIT to Mechanical Turk."""

    action: str
    fields: dict[str, str]


class Completion(TypedDict):
    """The completion code and the address to return to; absent if not due.

    `hit` is in their place for who works on a HIT of Mechanical Turk: null if they have to return
    it, because they are not paid.
    """

    code: NotRequired[str]
    url: NotRequired[str]
    hit: NotRequired[HitForm | None]
