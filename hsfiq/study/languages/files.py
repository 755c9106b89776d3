"""The owner's language files, `de.json` beside study.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import read_json
from hsfiq.study.config import StudyConfig
from hsfiq.study.languages.owners_texts import owners_texts
from hsfiq.study.languages.standard import LANGUAGES, Texts, overlaid, standard_texts
from hsfiq.text import is_storable_text

_PLACEHOLDER = re.compile(r"\{(\w+)\}")

_CHOICES = re.compile(r"(^|\.)(anchors|relevance_levels\.\d|options)$")
"""The keys of lists of which one is chosen."""

LONGEST_TEXT = 2000


def read_language_file(path: Path, config: StudyConfig) -> tuple[dict[str, Any], list[str]]:
    """The texts of a language file, and what is wrong with it: a line for each error.

    It may also translate what the owner says in the rest of `config`; the scale must have as many
    points in every language. An empty file has no texts: `hsfiq study texts ... > de.json` begins
    with one.
    """
    try:
        content = read_json(path) if path.stat().st_size else {}
    except UnreadableInput as error:
        return {}, [str(error)]
    errors = [
        f"{path}: {f'{key}: ' if key else ''}{what}"
        for key, what in language_errors(content, config)
    ]
    return {} if errors else content, errors


def language_errors(content: Any, config: StudyConfig) -> Iterator[tuple[str, str]]:
    """What is wrong with the content of a language file, by its dotted keys."""
    yield from _errors("", content, overlaid(standard_texts(LANGUAGES[0]), owners_texts(config)))


def _errors(key: str, given: Any, english: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with a value, compared with the English one, by its dotted key."""
    if isinstance(english, dict):
        yield from _errors_of_object(key, given, english)
    elif isinstance(english, list):
        yield from _errors_of_list(key, given, english)
    elif not isinstance(given, str):
        yield key, "must be a text"
    else:
        yield from ((key, what) for what in _errors_of_text(given))
        yield from _errors_of_placeholders(key, given, english)


def _errors_of_object(key: str, given: Any, english: Texts) -> Iterator[tuple[str, str]]:
    if not isinstance(given, dict):
        yield key, "must be an object"
        return
    prefix = f"{key}." if key else ""
    for name, value in given.items():
        if name in english:
            yield from _errors(f"{prefix}{name}", value, english[name])
        else:
            known = ", ".join(english) if len(english) <= 12 else "those of the English texts"
            yield f"{prefix}{name}", f"is not a key here; there are {known}"


def _errors_of_list(key: str, given: Any, english: list[str]) -> Iterator[tuple[str, str]]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        yield key, "must be a list of texts"
        return
    if len(given) != len(english):
        yield key, f"must be {len(english)} texts, not {len(given)}"
    worded = [text.strip() for text in given if text.strip()]
    if _CHOICES.search(key) and len(set(worded)) < len(worded):
        yield key, "two of them have the same text; give each its own"
    for number, (text, original) in enumerate(zip(given, english, strict=False)):
        if text or original:
            yield from ((f"{key}.{number}", what) for what in _errors_of_text(text))
    yield from _errors_of_placeholders(key, " ".join(given), " ".join(english))


def _errors_of_text(text: str) -> Iterator[str]:
    if not text.strip():
        yield "is empty"
    elif not is_storable_text(text):
        yield "contains characters that cannot be stored"
    elif len(text) > LONGEST_TEXT:
        yield f"is longer than {LONGEST_TEXT:,} characters"


def _errors_of_placeholders(key: str, given: str, english: str) -> Iterator[tuple[str, str]]:
    wanted, used = (set(_PLACEHOLDER.findall(text)) for text in (english, given))
    if missing := sorted(wanted - used):
        yield key, f"the placeholder {_braced(missing)} is missing"
    if unknown := sorted(used - wanted):
        known = f"there is {_braced(sorted(wanted))}" if wanted else "this text has none"
        yield key, f"the placeholder {_braced(unknown)} is unknown; {known}"
    if re.search(r"[{}]", _PLACEHOLDER.sub("", given)):
        yield key, "has a brace that is not part of a placeholder"


def _braced(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
