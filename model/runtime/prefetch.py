"""Reading the next batch while this one is computed with."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """The same items in the same order, each made while the one before it is used.

    Close it where it is left early: its thread ends then, and not when somebody forgets it.
    """
    nothing = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as thread:
        coming = thread.submit(next, items, nothing)
        while (item := coming.result()) is not nothing:
            coming = thread.submit(next, items, nothing)
            yield item  # type: ignore[misc]  # not `nothing`
