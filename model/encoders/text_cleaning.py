"""How a text is cleaned before a model's tokenizer reads it."""

from __future__ import annotations

import re

from hsfiq.text import decode

MAX_WORDS = 50

_SEPARATORS = re.compile(r'[.!"()*#:;~]')
_BLANKS = re.compile(r"\s{2,}")


def normalise(text: str, max_words: int = MAX_WORDS) -> str:
    """Clean a text as LAVIS' `blip_caption` processor does, after decoding CoSMo's escapes.

    Lower case, some punctuation replaced by blanks, single blanks, `max_words` words at most.
    """
    separated = _SEPARATORS.sub(" ", decode(text).lower())
    words = _BLANKS.sub(" ", separated).rstrip("\n").strip(" ").split(" ")
    return " ".join(words[:max_words])
