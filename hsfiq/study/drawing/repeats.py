"""Questions that are asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from hsfiq.study.drawing.questions import DrawnQuestion

T = TypeVar("T")


def asked_again(first: DrawnQuestion, n_sets: int, rng: Random) -> DrawnQuestion:
    """The question once more: the sets of a pair change sides, and each of more sets its place.

    Images keep their order within their set.
    """
    if n_sets < 2:
        return replace(first, repeats=first)
    if first.set_order is None:
        return replace(
            first,
            swapped=not first.swapped,
            order_1=first.order_2,
            order_2=first.order_1,
            repeats=first,
        )
    start = rng.randrange(1, n_sets)
    return replace(
        first,
        set_order=rotated(first.set_order, start),
        image_orders=first.image_orders and rotated(first.image_orders, start),
        repeats=first,
    )


def rotated(values: Sequence[T], start: int) -> list[T]:
    return [*values[start:], *values[:start]]
