"""Query texts: joining captions, and the escapes that published texts carry.

Texts are kept as their source spells them and decoded only for display and comparison.
"""

from collections.abc import Sequence

ESCAPES = {"dotmark": ".", "questionmark": "?", "andmark": "&", "starmark": "*"}
"""CoSMo's stand-ins for characters, found in the published HP-FashionIQ sentences."""


def decode(text: str) -> str:
    """Put the characters back that the text's escapes stand for."""
    for escape, character in ESCAPES.items():
        text = text.replace(escape, character)
    return text


def shown(text: str) -> str:
    """The text as a person reads it: escapes decoded, runs of blanks made one."""
    return " ".join(decode(text).split())


def first_few(names: Sequence[str], limit: int = 3) -> str:
    """The first names and how many more there are: "a, b, c and 7 more"."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def joined(captions: tuple[str, ...] | list[str]) -> str:
    """The captions as one query text, in the order given."""
    return " and ".join(captions)
