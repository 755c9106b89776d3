"""Preparing the next batch while the current one is computed with."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T]) -> Generator[T, None, None]:
    """The same items in the same order, each made in a thread while the one before it is used.

    Close the generator if you leave it early, so that its thread ends at once.
    """
    end = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as thread:
        future = thread.submit(next, items, end)
        while (item := future.result()) is not end:
            future = thread.submit(next, items, end)
            yield item  # type: ignore[misc]  # not `end`
