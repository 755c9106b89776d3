"""Generators that depend on what is asked, not on when it is asked."""

# ruff: noqa: S311  (simulation, not secrets)

from __future__ import annotations

from hashlib import sha256
from random import Random


def generator(seed: int, *names: str) -> Random:
    """A generator of its own for each seed and names, the same in every process.

    Args:
        seed: the seed of the whole simulation.
        names: what the generator is for, such as a system and a query id.
    """
    key = "\0".join((str(seed), *names))
    return Random(int.from_bytes(sha256(key.encode()).digest()[:8], "big"))
