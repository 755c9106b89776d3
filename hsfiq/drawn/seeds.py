"""Random generators that depend on what they are for, not on the order of their use."""

# ruff: noqa: S311  (simulation, not secrets)

from __future__ import annotations

from hashlib import sha256
from random import Random


def generator(seed: int, *names: str) -> Random:
    """Return a generator that depends on the seed and the names alone, in every process.

    Args:
        seed: the seed of the whole simulation.
        names: what the generator is for, such as a system and a query id.
    """
    key = "\0".join((str(seed), *names))
    return Random(int.from_bytes(sha256(key.encode()).digest()[:8], "big"))
