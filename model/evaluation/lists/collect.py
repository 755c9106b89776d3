"""Collecting one system's ranked lists from several files."""

from __future__ import annotations

from collections.abc import Iterable

from hsfiq.errors import UnreadableInput
from hsfiq.readers.runs import PlacedList


def require_one_system(placed: Iterable[PlacedList]) -> None:
    """UnreadableInput at the first list of another system; lists may leave their system out."""
    systems: set[str] = set()
    for where, ranked in placed:
        systems.add(ranked.system)
        if len(systems - {""}) > 1:
            names = " and ".join(sorted(systems - {""}))
            raise UnreadableInput(where, f"lists of {names}", "evaluate one system at a time")


def lists_by_query(placed: Iterable[PlacedList]) -> dict[str, PlacedList]:
    """The lists by query id; UnreadableInput if a query has two."""
    lists: dict[str, PlacedList] = {}
    for each in placed:
        query_id = each.ranked.query_id
        if query_id in lists:
            first = f"first at {lists[query_id].where}"
            raise UnreadableInput(each.where, f"query {query_id} occurs twice", first)
        lists[query_id] = each
    return lists
