"""Queries and questions as they are drawn, before they are stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """The properties of a query that drawing a study needs; ids are database keys."""

    query_id: int
    triplet_id: int
    category: str
    reference_id: int | None
    target_id: int | None


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question before it is stored: its sets as shown, and which check it is, if any.

    `expected` is the right answer to a gold question, as its kind reads it (`hsfiq.kinds`);
    `repeats` is the question that is repeated.
    """

    pair_id: int
    swapped: bool = False
    order_1: list[int] | None = None
    order_2: list[int] | None = None
    set_order: list[int] | None = None
    image_orders: list[list[int]] | None = None
    expected: str | None = None
    repeats: DrawnQuestion | None = None
