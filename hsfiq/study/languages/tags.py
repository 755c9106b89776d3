"""Language tags, as BCP 47 defines them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Direction = Literal["ltr", "rtl"]

LONGEST_TAG = 35

_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-(?P<script>[A-Z][a-z]{3}))?(?:-(?:[A-Z]{2}|[0-9]{3}))?"
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
)
_RTL_SCRIPTS = {"Adlm", "Arab", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"}
_RTL_LANGUAGES = {
    *("ar", "arc", "arz", "ckb", "dv", "fa", "glk", "he", "ks", "lrc", "mzn", "nqo", "pnb", "ps"),
    *("sd", "syr", "ug", "ur", "yi"),
}
"""Written from right to left unless the tag names another script."""


def is_tag(text: str) -> bool:
    """Whether this is a tag in its usual spelling: `de`, `pt-BR`, `zh-Hant`."""
    return len(text) <= LONGEST_TAG and _TAG.fullmatch(text) is not None


def direction(tag: str) -> Direction:
    """The direction in which a language is written."""
    match = _TAG.fullmatch(tag)
    if match and match["script"]:
        return "rtl" if match["script"] in _RTL_SCRIPTS else "ltr"
    return "rtl" if match and match["language"] in _RTL_LANGUAGES else "ltr"


def preferred(accept_language: str, offered: Sequence[str]) -> str:
    """The language offered that a header `Accept-Language` prefers; otherwise the first one.

    A tag matches one that is the same, then one that differs only in what follows the language.
    """
    for wanted in _by_preference(accept_language):
        for same in (str.lower, _language):
            for tag in offered:
                if same(tag) == same(wanted):
                    return tag
    return offered[0]


def _language(tag: str) -> str:
    return tag.lower().partition("-")[0]


def _by_preference(accept_language: str) -> list[str]:
    """The tags of the header, the most wanted first; those of quality 0 are not wanted."""
    weighted = []
    for part in accept_language.split(","):
        tag, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        weight = float(quality) if re.fullmatch(r"[01](\.[0-9]{0,3})?", quality) else 0.0
        if tag and weight > 0:
            weighted.append((weight, tag))
    return [tag for _, tag in sorted(weighted, key=lambda pair: -pair[0])]
