"""What the tests of one process draw once: pictures of garments, and subsets of fonts.

Many tests draw the same garments, and charts with the same letters. A chart's PDF file holds the
letters of two fonts; to take them out of the fonts is most of the time of writing the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from hsfiq.drawn import pictures

PDF_FONTS = "matplotlib.backends._backend_pdf_ps"


class Subset(NamedTuple):
    """As matplotlib's `SubsetResults`, with the content of the font's file instead of the font."""

    font: bytes
    glyph_index_map: dict[int, int]


shared_picture = lru_cache(2000)(pictures.encoded)


@lru_cache(200)
def shared_subset(
    take: Callable[..., Any], save: Callable[..., BytesIO], file: str, glyphs: tuple[int, ...]
) -> Subset:
    with take(file, set(glyphs)) as subset:
        return Subset(save(subset.font).getvalue(), subset.glyph_index_map)


def share_pictures() -> None:
    """Let the tests of this process draw the picture of a garment once."""
    pictures.encoded = shared_picture


def share_fonts() -> None:
    """Let the PDF files of this process share subsets of fonts, if anything here writes any."""
    fonts: Any = sys.modules.get(PDF_FONTS)
    if fonts is None:
        return
    take, save = fonts.get_glyphs_subset, fonts.font_as_file

    @contextmanager
    def shared(file: str, glyphs: Iterable[int]) -> Iterator[Subset]:
        yield shared_subset(take, save, file, tuple(sorted(glyphs)))

    fonts.get_glyphs_subset, fonts.font_as_file = shared, BytesIO
