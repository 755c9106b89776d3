"""The completion code and the address to return to, by the outcome of a participation."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from hsfiq.study.config import Recruitment

Outcome = Literal["done", "failed-checks", "full", "declined"]


def completion_code(recruitment: Recruitment, outcome: Outcome) -> str:
    """The code of an outcome; the usual one if it has none of its own.

    Nobody who has declined gets the usual code.
    """
    if outcome == "declined":
        return recruitment.declined_code
    own = {
        "done": "",
        "failed-checks": recruitment.failed_checks_code,
        "full": recruitment.full_code,
    }
    return own[outcome] or recruitment.completion_code


def completion_url(recruitment: Recruitment, outcome: Outcome) -> str:
    """The address with the outcome's code in the place of the usual one.

    An address without the usual code is that of the usual outcome only.
    """
    usual, code = recruitment.completion_code, completion_code(recruitment, outcome)
    if code == usual:
        return recruitment.completion_url
    if not usual or not code or quote(usual, safe="") not in recruitment.completion_url:
        return ""
    return recruitment.completion_url.replace(quote(usual, safe=""), quote(code, safe=""))


def has_failed(recruitment: Recruitment, n_failed: int) -> bool:
    """Whether so many failed gold and repeated pairs are more than the study accepts."""
    return 0 <= recruitment.max_failed_checks < n_failed
