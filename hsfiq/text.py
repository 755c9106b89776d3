"""Query texts: joining captions, and the escapes in published texts.

Texts are stored as their source spells them and decoded only for display and comparison.
"""

import re
from collections.abc import Sequence

ESCAPES = {"dotmark": ".", "questionmark": "?", "andmark": "&", "starmark": "*"}
"""CoSMo's replacements of characters, which the published HP-FashionIQ sentences contain."""

NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def decode(text: str) -> str:
    """Replace the text's escapes by the characters that they stand for."""
    for escape, character in ESCAPES.items():
        text = text.replace(escape, character)
    return text


def shown(text: str) -> str:
    """The text as it is displayed: escapes decoded, repeated blanks reduced to one."""
    return " ".join(decode(text).split())


def first_few(names: Sequence[str], limit: int = 3) -> str:
    """The first names and the number of others: "a, b, c and 7 more"."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def one_line(text: str) -> str:
    """Return the text without line breaks, and with control characters escaped."""
    spaced = " ".join(text.split())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in spaced)


def count_text(n: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun; `hsfiq.analysis.counts.count_text` is the same.

    >>> count_text(1, "set"), count_text(1200, "set"), count_text(2, "query", "queries")
    ('1 set', '1,200 sets', '2 queries')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def joined(captions: Sequence[str]) -> str:
    return " and ".join(captions)


def is_storable_text(text: str) -> bool:
    """Whether databases can store a text: JSON allows NUL and lone surrogates, databases do not."""
    return NOT_STORABLE.search(text) is None


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that spreadsheets take for a formula."""


def spreadsheet_text(text: str) -> str:
    """A text of a CSV file that spreadsheets show instead of running it as a formula.

    It has an apostrophe in front, as has a text that begins with one: whoever removes one from each
    text that begins with one has the texts again. For texts that people wrote, not for numbers.
    `hsfiq.analysis.reports.formats.csv_tables.spreadsheet_text` is the same.

    >>> spreadsheet_text("=1+1"), spreadsheet_text("'tis red"), spreadsheet_text("is red")
    ("'=1+1", "''tis red", 'is red')
    """
    return f"'{text}" if text.startswith((*FORMULA, "'")) else text
