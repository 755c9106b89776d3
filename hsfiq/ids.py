"""The ids that outsiders meet (design section 4.8); database keys never leave the database."""

import re
from collections.abc import Iterable, Sequence

from hsfiq.text import joined, shown

REVERSED = "~"
_NUMBERED = re.compile(r"(?P<triplet>.+)(?P<suffix>#[1-9]\d*)")


def triplet_id(category: str, split: str, index: int) -> str:
    """The id of a FashionIQ triplet, which has none: its 0-based place in the captions file."""
    return f"{category}.{split}.{index}"


def query_suffix(captions: Sequence[str], text: str, taken: Iterable[str]) -> str:
    """What follows the triplet's id in the id of the query with this text.

    Nothing for the captions joined in order, `~` for the reversed order, else the first of
    `#1`, `#2`, ... not in `taken`. Escapes and runs of blanks make no other text.
    """
    if captions and shown(text) == shown(joined(list(captions))):
        return ""
    if captions and shown(text) == shown(joined(list(reversed(captions)))):
        return REVERSED
    used = set(taken)
    number = 1
    while f"#{number}" in used:
        number += 1
    return f"#{number}"


def question_id(participant: str, form: str, place: int) -> str:
    """`user_1.question_set_2.7`: the place counts from 0."""
    return f"{participant}.{form}.{place}"


def set_id(question: str, side: int) -> str:
    """The id of the set that a question shows at side 1 or 2."""
    return f"{question}.{side}"


def split_query_id(query_id: str) -> tuple[str, str]:
    """The triplet's id and the suffix that make up a query id.

    >>> split_query_id("shirt.val.12~"), split_query_id("shirt.val.12#3")
    (('shirt.val.12', '~'), ('shirt.val.12', '#3'))
    """
    if query_id.endswith(REVERSED):
        return query_id[: -len(REVERSED)], REVERSED
    found = _NUMBERED.fullmatch(query_id)
    return (found["triplet"], found["suffix"]) if found else (query_id, "")
