"""Every text of the studio is there in Korean, with the same names in braces."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from hsfiq.annotate.owner.login import translations
from hsfiq.annotate.pages import FOLDER

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
    templates = FOLDER / "templates"
    files = [*templates.glob("studio*.html"), *templates.glob("owner_*.html")]
    files += [*(FOLDER / "studio").glob("*.py"), *(FOLDER / "owner").glob("*.py")]
    texts = {text for file in files for text in texts_in(file)}
    assert len(texts) > 300
    assert sorted(texts - translations("ko").keys()) == []


def test_translations_have_the_same_names() -> None:
    for text, translated in translations("ko").items():
        assert names_in(translated) <= names_in(text), text


ONE_WORD = {
    "질의": ("쿼리",),
    "참여자": ("참가자", "피험자"),
    "세트": ("묶음",),
    "확인 문항": ("확인 질문", "확인용 질문"),
    "릴리스": ("공개본", "배포 데이터"),
    "시뮬레이션": ("모의",),
    "원하는 이미지": ("찾는 이미지", "목표 이미지"),
    "진행 상황": ("지켜보기",),
    "소유자": ("연구 담당자",),
    "미리보기": ("미리 보기",),
    "%p": ("포인트",),
    "ID": ("아이디",),
}
"""The Korean word of each term, as participants read it, and words that must not stand for it."""


def test_each_term_has_one_korean_word() -> None:
    for text, translated in translations("ko").items():
        for word, others in ONE_WORD.items():
            assert not [other for other in others if other in translated], (text, word)


def test_each_text_is_translated_once() -> None:
    files = sorted((FOLDER / "languages" / "studio.ko").glob("*.json"))
    pairs = [
        pair
        for path in files
        for pair in json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=list)
    ]
    assert [text for text, n in Counter(text for text, _ in pairs).items() if n > 1] == []
