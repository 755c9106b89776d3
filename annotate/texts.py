"""Every text that people read, by language: one JSON file each, the longer ones in Markdown."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

FOLDER = Path(__file__).parent / "languages"
LANGUAGES = ("en", "ko")


@cache
def texts(language: str) -> dict[str, dict[str, Any]]:
    """The short texts: `page` is the question page's, `entry` that of the pages before it."""
    content: dict[str, dict[str, Any]] = json.loads(read(f"{language}.json"))
    return content


def entry_texts(language: str) -> dict[str, str]:
    """The texts of the plain pages before the study."""
    return texts(language)["entry"]


def language_of(study: Study) -> str:
    """The language in which a study speaks to its annotators."""
    return config_of(study).study.language


def guidelines(study: Study) -> str:
    """The study's own guidelines, or the papers' in its language."""
    return study.guidelines.strip() or read(f"guidelines.{language_of(study)}.md")


def consent_text(study: Study) -> str:
    """What a participant agrees to: the study's own text, or a plain one in its language."""
    return config_of(study).study.consent.strip() or read(f"consent.{language_of(study)}.md")


@cache
def read(name: str) -> str:
    """One of the files of texts."""
    return (FOLDER / name).read_text(encoding="utf-8")


def preferred_language(accepted: str) -> str:
    """The language for somebody whose study is not known, from the header `Accept-Language`."""
    for part in accepted.lower().split(","):
        language = part.strip().split(";")[0].split("-")[0]
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]
