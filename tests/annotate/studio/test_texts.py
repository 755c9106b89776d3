"""Every text of the studio is there in Korean, with the same names in braces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from hsfiq.annotate.pages import FOLDER
from hsfiq.annotate.studio.shell import translations

TEXT = r'"((?:[^"\\]|\\.)*)"'
CALLS = (
    re.compile(rf"\b(?:t|desk\.t)\(\s*{TEXT}"),
    re.compile(rf"\b(?:n|desk\.n)\(\s*{TEXT},\s*{TEXT}"),
)


def texts_in(path: Path) -> Iterator[str]:
    content = path.read_text(encoding="utf-8")
    for call in CALLS:
        for found in call.finditer(content):
            yield from (json.loads(f'"{text}"') for text in found.groups())


def names_in(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_text_is_translated() -> None:
    files = [*(FOLDER / "templates").glob("studio*.html"), *(FOLDER / "studio").glob("*.py")]
    texts = {text for file in files for text in texts_in(file)}
    assert len(texts) > 300
    assert sorted(texts - translations("ko").keys()) == []


def test_translations_have_the_same_names() -> None:
    for text, translated in translations("ko").items():
        assert names_in(translated) <= names_in(text), text
