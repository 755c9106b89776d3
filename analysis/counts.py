"""Counts in words: "1 set", "2 sets"."""

from __future__ import annotations


def count_text(n: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the singular or the plural, which ends in -s unless it is given."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
