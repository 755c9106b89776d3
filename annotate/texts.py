"""The texts that annotators read, by language: short ones in JSON files, longer ones in Markdown.

Guidelines and consent are read into blocks of plain text (headings, paragraphs, lists), which the
page shows as text; nothing in them becomes HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hsfiq.collect.protocol import TextBlock
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

FOLDER = Path(__file__).parent / "languages"
LANGUAGES = ("en", "ko")

ITEM = re.compile(r"(?:[-*+]|(\d+)[.)])\s+(.*)")
HEADING = re.compile(r"#+\s+(.*)")


@cache
def texts(language: str) -> dict[str, dict[str, Any]]:
    """The short texts: `page` for the question page, `entry` for the plain pages before it."""
    content: dict[str, dict[str, Any]] = json.loads(read(f"{language}.json"))
    return content


def entry_texts(language: str) -> dict[str, str]:
    return texts(language)["entry"]


def language_of(study: Study) -> str:
    return config_of(study).study.language


def language_for(headers: Mapping[str, str]) -> str:
    """The language for a browser without a study."""
    return preferred_language(headers.get("accept-language", ""))


def preferred_language(accept_language: str) -> str:
    """The first of our languages in a header `Accept-Language`, otherwise English."""
    for part in accept_language.lower().split(","):
        language = part.strip().split(";")[0].split("-")[0]
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]


def guidelines(study: Study) -> str:
    """The study's own guidelines, or the standard ones in its language, as Markdown."""
    return study.guidelines.strip() or read(f"guidelines.{language_of(study)}.md")


def consent_text(study: Study) -> str:
    """The study's own consent text, or the standard one in its language, as Markdown."""
    return config_of(study).study.consent.strip() or read(f"consent.{language_of(study)}.md")


@cache
def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def blocks(markdown: str) -> list[TextBlock]:
    result: list[TextBlock] = []
    is_open = False  # whether the next plain line continues the last block
    for line in markdown.splitlines():
        stripped = line.strip()
        if not stripped:
            is_open = False
        elif heading := HEADING.fullmatch(stripped):
            result.append({"kind": "heading", "lines": [plain(heading[1])]})
            is_open = False
        elif item := ITEM.fullmatch(stripped):
            block: TextBlock = {"kind": "steps" if item[1] else "list", "lines": []}
            if not result or result[-1]["kind"] != block["kind"]:
                result.append(block)
            result[-1]["lines"].append(plain(item[2]))
            is_open = True
        elif is_open:
            result[-1]["lines"][-1] += f" {plain(stripped)}"
        else:
            result.append({"kind": "paragraph", "lines": [plain(stripped)]})
            is_open = True
    return result


def plain(text: str) -> str:
    """The text without Markdown's signs for bold type and code."""
    return re.sub(r"\*\*(.+?)\*\*|`(.+?)`", lambda match: match[1] or match[2], text)
