"""The texts in `annotate/languages`: the standard ones, and the structure of the owner's files.

The texts of a language are nested: `page` for the question page, `entry` for the plain pages
before it, `sets` for the usual names of sets, and one part for each overlay, such as
`text_queries` or `single_questions`, which replaces some of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hsfiq.kinds import KINDS
from hsfiq.study.query_form import QueryForm

FOLDER = Path(__file__).parents[2] / "annotate" / "languages"
LANGUAGES = ("en", "ko")
"""The languages whose texts are complete; others fall back to the first."""

PARTS = ("page", "entry", "sets")
OVERLAYS = (
    *("text_queries", "image_queries"),
    *(f"{kind}_questions" for kind in KINDS if kind != "pair"),
)

BEFORE_A_STUDY = frozenset(
    {
        *("page.no_access", "page.no_access_text", "page.to_welcome"),
        *("entry.welcome", "entry.no_study_title", "entry.no_study", "entry.to_welcome"),
        *("entry.unknown_browser_title", "entry.unknown_browser", "entry.no_cookies"),
        *("entry.unknown_link_title", "entry.unknown_link"),
        *("entry.other_site_title", "entry.other_site"),
        *("entry.other_platform_study_title", "entry.other_platform_study"),
        "entry.other_platform_study_help",
    }
)
"""What is read before it is known which study somebody belongs to: never in the owner's words."""

Texts = Mapping[str, Any]


@cache
def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def standard_texts(language: str) -> dict[str, Any]:
    """The texts of a language with all overlays; none if it is not one of `LANGUAGES`."""
    if language not in LANGUAGES:
        return {}
    content: dict[str, Any] = json.loads(read(f"{language}.json"))
    return content | {name: json.loads(read(f"{name}.{language}.json")) for name in OVERLAYS}


def overlays_for(form: QueryForm, kind: str) -> list[str]:
    """The overlays that apply to a study's queries and its question kind, the last one first."""
    names = [f"{kind}_questions", f"{form}_queries"]
    return [name for name in names if name in OVERLAYS]


def overlaid(values: Texts, others: Texts) -> dict[str, Any]:
    """The values with those of `others` in their place, at every level."""
    return dict(values) | {
        key: overlaid(values.get(key, {}), other) if isinstance(other, dict) else other
        for key, other in others.items()
    }


def worded_texts(
    language: str, form: QueryForm, kind: str = "pair", own: Texts | None = None
) -> dict[str, Any]:
    """The short texts for a study's queries and its kind; `own` are the owner's in the language.

    What is missing is in English. That is decided in each overlay, so that a text for other queries
    never stands in for one that is missing.
    """
    texts = overlaid(standard_texts(LANGUAGES[0]), standard_texts(language))
    texts = overlaid(texts, own or {})
    worded = {part: texts[part] for part in PARTS}
    for name in reversed(overlays_for(form, kind)):
        worded = overlaid(worded, texts[name])
    return worded


def own_name(language: str, own: Texts | None = None) -> str:
    """What a language is called in itself; its tag if nobody has said."""
    named = (own or {}).get("name") or standard_texts(language).get("name")
    return str(named or language)


def leaves(texts: Texts, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The texts and lists of texts, by their dotted keys."""
    for key, value in texts.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nested(texts: Texts) -> dict[str, Any]:
    """Texts by dotted keys as objects within objects."""
    objects: dict[str, Any] = {}
    for key, text in texts.items():
        *parents, name = key.split(".")
        place = objects
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = text
    return objects


def missing_texts(language: str, form: QueryForm, kind: str, own: Texts) -> dict[str, Any]:
    """The texts in English that such a study shows in a language for lack of others, by key."""
    translated = dict(leaves(overlaid(standard_texts(language), own)))
    overlays = overlays_for(form, kind)
    overlaying: set[str] = set()
    shown: dict[str, Any] = {}
    for name in overlays:
        texts = dict(leaves(standard_texts(LANGUAGES[0])[name]))
        shown |= {f"{name}.{key}": text for key, text in texts.items() if key not in overlaying}
        overlaying |= texts.keys()
    base = {part: standard_texts(LANGUAGES[0])[part] for part in ("name", *PARTS)}
    usual = {key: text for key, text in leaves(base) if key not in overlaying}
    return {
        key: text
        for key, text in (usual | shown).items()
        if key not in translated and key not in BEFORE_A_STUDY
    }
