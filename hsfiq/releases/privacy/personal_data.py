"""Free texts that look as if they held an e-mail address, a phone number or a platform's id."""

from __future__ import annotations

import re
from collections.abc import Iterator

E_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
PHONE = re.compile(r"(?<![\w.])(?:\+|\(?0)[\d ()/.-]{6,}\d(?!\w)")
FEWEST_DIGITS = 7
PROLIFIC = re.compile(r"(?<!\w)[0-9a-f]{24}(?!\w)")
MTURK = re.compile(r"(?<!\w)A[A-Z0-9]{9,20}(?!\w)")


def personal_data(text: str) -> Iterator[str]:
    """What the text seems to hold, as in "an e-mail address".

    >>> list(personal_data("write to kim@example.org")), list(personal_data("both are red"))
    (['an e-mail address'], [])
    """
    if E_MAIL.search(text):
        yield "an e-mail address"
    if any(sum(map(str.isdigit, phone[0])) >= FEWEST_DIGITS for phone in PHONE.finditer(text)):
        yield "a phone number"
    if PROLIFIC.search(text) or any(has_digit_and_letter(each[0]) for each in MTURK.finditer(text)):
        yield "the id of a recruitment platform"


def has_digit_and_letter(word: str) -> bool:
    """Ids mix digits and letters; words in capitals have no digits."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word[1:]))
