"""The processes that train together: one, or those that `torchrun` started."""

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
class Distributed:
    """This process's rank among `size` processes, and its device."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, items: Tensor) -> Tensor:
        """This process's part of [n, ...]: every `size`-th row, from `rank` on."""
        return items[self.rank :: self.size]

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def first_process_first(self) -> Iterator[None]:
        """Let the first process run the block before the others do."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def total(self, values: Tensor) -> Tensor:
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def gather(self, mine: Tensor, n: int) -> Tensor:
        """Join all shares [about n / size, ...] to [n, ...] in row order, in every process."""
        if self.size == 1:
            return mine
        longest = -(-n // self.size)
        padded = mine.new_zeros((longest, *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.stack(parts, dim=1).flatten(0, 1)[:n]


@contextmanager
def join_processes(device: str | None) -> Iterator[Distributed]:
    """Join the processes that `torchrun` started, if it did, until the block ends.

    The device is as for `device_of`; if no GPU is numbered, each process takes its own.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = device_of(device, int(os.environ.get("LOCAL_RANK", "0")))
    if size == 1:
        yield Distributed(chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)  # NCCL's barrier uses the current one
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Distributed(chosen, rank, size)
    finally:
        dist.destroy_process_group()


def device_of(name: str | None, local_rank: int = 0) -> torch.device:
    """The device of this name, or the best one; UnreadableInput if this machine lacks it."""
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
