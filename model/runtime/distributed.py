"""The processes that train together: one, or as many as `torchrun` started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from hsfiq.errors import UnreadableInput


@dataclass(frozen=True, slots=True)
class World:
    """This process's place among `size`, and the device it computes on."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files and speaks."""
        return self.rank == 0

    def share(self, items: Tensor) -> Tensor:
        """This process's part of [n, ...]: every `size`-th, from `rank` on."""
        return items[self.rank :: self.size]

    def wait(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            dist.barrier()

    def total(self, values: Tensor) -> Tensor:
        """The sum of all processes' values."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def together(self, mine: Tensor, n: int) -> Tensor:
        """Put the parts that `share` made of n rows together again, in their order.

        Args:
            mine: what this process made of its part, row by row: [about n / size, ...].
            n: rows of all processes together.

        Returns:
            [n, ...], the same in every process.
        """
        if self.size == 1:
            return mine
        longest = -(-n // self.size)
        padded = mine.new_zeros((longest, *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.stack(parts, dim=1).flatten(0, 1)[:n]


@contextmanager
def joined(device: str | None) -> Iterator[World]:
    """Join the processes that `torchrun` started, if it did, until the block ends.

    Args:
        device: as torch names them; a GPU where there is one if None. Of several processes each
            has a GPU of its own where none is numbered.

    Raises:
        UnreadableInput: there is no such device.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = device_of(device, int(os.environ.get("LOCAL_RANK", "0")))
    if size == 1:
        yield World(chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)  # NCCL's barrier uses the current one
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(chosen, rank, size)
    finally:
        dist.destroy_process_group()


def device_of(name: str | None, local_rank: int) -> torch.device:
    """The device of this name, or the best there is.

    Raises:
        UnreadableInput: there is no such device.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UnreadableInput(
            f"--device {name}", "this machine has no such device", "try cpu or cuda"
        ) from error
    return device
