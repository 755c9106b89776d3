"""Outside ids: those in files, releases and messages, where database keys never appear."""

import re
from collections.abc import Iterable, Sequence
from itertools import count

from hsfiq.text import joined, shown

REVERSED = "~"
_NUMBERED = re.compile(r"(?P<triplet>.+)(?P<suffix>#[1-9]\d*)")


def triplet_id(category: str, split: str, index: int) -> str:
    """The id of a FashionIQ triplet, which has none of its own: its index in the captions file."""
    return f"{category}.{split}.{index}"


def query_suffix(captions: Sequence[str], text: str, taken: Iterable[str]) -> str:
    """The suffix of the outside id of a triplet's query with this text.

    It is empty for the captions joined in order, `~` for the reversed order, otherwise the first of
    `#1`, `#2`, ... that is not in `taken`. Escapes and repeated blanks make no difference.
    """
    if captions and shown(text) == shown(joined(captions)):
        return ""
    if captions and shown(text) == shown(joined(captions[::-1])):
        return REVERSED
    used = set(taken)
    return next(suffix for number in count(1) if (suffix := f"#{number}") not in used)


def question_id(participant: str, form: str, place: int | str) -> str:
    """`user_1.question_set_2.7`: the place counts from 0."""
    return f"{participant}.{form}.{place}"


def set_id(question: str, side: int) -> str:
    """The id of set 1 or 2 of a question."""
    return f"{question}.{side}"


def split_query_id(query_id: str) -> tuple[str, str]:
    """The id of the triplet and the suffix of a query id.

    A triplet of own data may have an id that ends like a suffix: first look for the whole id.

    >>> split_query_id("shirt.val.12~"), split_query_id("shirt.val.12#3")
    (('shirt.val.12', '~'), ('shirt.val.12', '#3'))
    """
    if query_id.endswith(REVERSED):
        return query_id[: -len(REVERSED)], REVERSED
    match = _NUMBERED.fullmatch(query_id)
    return (match["triplet"], match["suffix"]) if match else (query_id, "")
