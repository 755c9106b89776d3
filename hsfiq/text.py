"""Query texts: joining captions, and the escapes in published texts.

Texts are stored as their source spells them and decoded only for display and comparison.
"""

import re
import unicodedata
from collections.abc import Sequence

ESCAPES = {"dotmark": ".", "questionmark": "?", "andmark": "&", "starmark": "*"}
"""CoSMo's replacements of characters, which the published HP-FashionIQ sentences contain."""

NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NOT_PRINTED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls but line feeds and tabs, what changes the direction of text, and lone surrogates."""


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


def without_controls(text: str) -> str:
    r"""A text or a JSON text as it is printed; a JSON text stays equal when it is parsed.

    Characters that control the terminal or cannot be encoded are escaped, but line feeds and tabs.

    >>> without_controls("a\x1b[2J\n\ud800")
    'a\\u001b[2J\n\\ud800'
    """
    return NOT_PRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def count_text(n: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the singular or the plural, which ends in -s unless it is given.

    >>> count_text(1, "set"), count_text(1200, "set"), count_text(2, "query", "queries")
    ('1 set', '1,200 sets', '2 queries')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def joined(captions: Sequence[str]) -> str:
    return " and ".join(captions)


def is_storable_text(text: str) -> bool:
    """Whether databases can store a text: JSON allows NUL and lone surrogates, databases do not."""
    return NOT_STORABLE.search(text) is None


def has_control_character(text: str) -> bool:
    """Whether a name would break a line, or steer the terminal, wherever it is printed."""
    return CONTROL.search(text) is not None


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: blanks of any width, and characters without a shape."""
    return all(unicodedata.category(character)[0] in "ZC" for character in text)


FORMULA = re.compile(r"""(^|[;\t\r\n])(["\s]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20'])|^(?=[\t\r\n])""")
"""Where a cell begins that spreadsheets take for a formula: at a text's beginning and, because some
countries separate cells by semicolons, after what separates them there."""


def spreadsheet_text(text: str) -> str:
    """A text of a CSV file that spreadsheets show instead of running it as a formula.

    Each of its parts that would be a formula gets an apostrophe in front, and so does each that
    begins with one: to have the text again, remove one apostrophe from each part that begins with
    one. For texts that people wrote, not for numbers.

    >>> spreadsheet_text("=1+1"), spreadsheet_text("'tis red"), spreadsheet_text("red; =1+1")
    ("'=1+1", "''tis red", "red; '=1+1")
    """
    return FORMULA.sub(r"\1\2'", text)
