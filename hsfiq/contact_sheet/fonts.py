"""Fonts for a sheet: Pillow's own, or one of the system's if that one lacks a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache
from math import ceil
from pathlib import Path
from typing import cast

from PIL import ImageFont

from hsfiq.errors import UnreadableInput

FALLBACKS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "LiberationSans-Regular.ttf",
    "Arial.ttf",
    "arial.ttf",
    "NotoSansCJK-Regular.ttc",
    "wqy-zenhei.ttc",
    "Arial Unicode.ttf",
    "msyh.ttc",
    "malgun.ttf",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
)
"""Common system fonts, by the file names that Pillow searches for."""

ELLIPSIS = "..."

OWN = ""
"""Pillow's own font, which is not a file."""

_PROBE_SIZE = 20
_NO_LETTER = "\uffff"
_INVISIBLE = {"Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"}


class Fonts:
    """Chooses for each text the first font that has most of its characters.

    Pillow's own font has ASCII and few other characters, but is the same on every machine. A `file`
    is preferred to all others; `UnreadableInput` if it is not a font.
    """

    def __init__(self, file: Path | None = None) -> None:
        if file is not None and not is_font(str(file)):
            raise UnreadableInput(str(file), "is not a font", "name a TrueType or OpenType file")
        self._names = (OWN if file is None else str(file), *FALLBACKS)

    def of(self, text: str, size: int) -> ImageFont.FreeTypeFont:
        """Return the font for a text, `size` pixels high."""
        return load(self._choice(text)[0], size)

    def lacking(self, text: str) -> str:
        """Return the characters of a text that no font has."""
        return self._choice(text)[1]

    def _choice(self, text: str) -> tuple[str, str]:
        letters = sorted({c for c in text if unicodedata.category(c) not in _INVISIBLE})
        name = self._names[0]
        lacking = not_in(name, letters)
        for other in filter(is_font, self._names[1:] if lacking else ()):
            if len(still := not_in(other, letters)) < len(lacking):
                name, lacking = other, still
        return name, lacking


def not_in(name: str, letters: Iterable[str]) -> str:
    return "".join(letter for letter in letters if not has(name, letter))


@cache
def has(name: str, letter: str) -> bool:
    """Return whether a font draws a character differently from one that no font has."""
    font = load(name, _PROBE_SIZE)
    drawn, nothing = (font.getmask(text) for text in (letter, _NO_LETTER))
    return drawn.size != nothing.size or bytes(drawn) != bytes(nothing)


@cache
def is_font(name: str) -> bool:
    """Return whether there is a font with this name or in this file."""
    try:
        load(name, _PROBE_SIZE)
    except OSError:
        return False
    return True


@cache
def load(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Load a font in this size in pixels; `OSError` if there is no font with this name."""
    if name:
        return ImageFont.truetype(name, size)
    return cast("ImageFont.FreeTypeFont", ImageFont.load_default(size))


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Break a text at spaces, and within words that are too long, into lines of at most `width`.

    >>> wrapped("is red and long", load(OWN, 20), 80)
    ['is red', 'and long']
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if font.getlength(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while len(line) > 1 and font.getlength(line) > width:
            fits = most_letters(line, font, width)
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line] if line else lines


def most_letters(word: str, font: ImageFont.FreeTypeFont, width: int) -> int:
    """Return how many characters at the start of a word fit, at least one."""
    fits = 1
    while fits < len(word) and font.getlength(word[: fits + 1]) <= width:
        fits += 1
    return fits


def shortened(text: str, font: ImageFont.FreeTypeFont, width: int) -> str:
    """Return a text in one line, cut off if it is too long."""
    if font.getlength(text) <= width:
        return text
    return text[: most_letters(text, font, width - ceil(font.getlength(ELLIPSIS)))] + ELLIPSIS
