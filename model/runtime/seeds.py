"""Random generators: one for each purpose.

A draw follows from the recipe's seed and its purpose (the order of epoch 3, the negatives of the
second definition), never from earlier draws. So a run that is resumed, or shared among processes,
draws the same.
"""

from __future__ import annotations

from hashlib import sha256

import torch


def seed_for(seed: int, *purpose: str | int) -> int:
    """A seed for each purpose, the same in every process: 0 to below 2^63."""
    key = "\0".join(map(str, (seed, *purpose)))
    return int.from_bytes(sha256(key.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(seed_for(seed, *purpose))
