"""Devices, seeds, processes and precision of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hsfiq.errors import NothingToDo, UnreadableInput

# Training that diverged: finding the first part of the scorer whose output is not finite.


class Diverged(NothingToDo):
    """A loss, a weight or a score is infinite or not a number."""


def first_not_finite(module: nn.Module, forward: Callable[[], Tensor]) -> str | None:
    """Repeat a forward pass, which returns margins; name the first source of a number not finite.

    That is a weight, else the innermost module whose output is not finite; None if all is finite.
    """
    weight = not_finite(dict(module.named_parameters()))
    if weight is not None:
        return f"the weights of {weight}"
    names: list[str] = []

    def check(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_: nn.Module, __: object, output: object) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                names.append(name)

        return hook

    # Children finish before their parents, so the first name is the innermost module's.
    hooks = [
        child.register_forward_hook(check(name)) for name, child in module.named_modules() if name
    ]
    try:
        with torch.no_grad():
            margins = forward()
    finally:
        for hook in hooks:
            hook.remove()
    if names:
        return names[0]
    return None if margins.isfinite().all() else "the scores"


def not_finite(parameters: Mapping[str, nn.Parameter]) -> str | None:
    return next(
        (name for name, parameter in parameters.items() if not parameter.isfinite().all()), None
    )


def require_finite(parameters: Mapping[str, nn.Parameter]) -> None:
    name = not_finite(parameters)
    if name is not None:
        raise Diverged(f"the weights of {name} are not finite")


# The processes that train together: one, or the processes of `torchrun`.


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

    def weighted_share(self, rows: Tensor) -> tuple[Tensor, float]:
        """This process's share of a step's rows [B], and each row's weight in their mean.

        Every process takes part in every step: without a share, with a row of weight 0.
        """
        own = self.share(rows)
        return (own, 1 / len(rows)) if len(own) else (rows[:1], 0.0)

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


# Preparing the next batch while the current one is computed with.

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


# Random generators: one for each purpose.
#
# A draw follows from the recipe's seed and its purpose (the order of epoch 3, the negatives of the
# second definition), never from earlier draws. So a run that is resumed, or shared among processes,
# draws the same.


def seed_for(seed: int, *purpose: str | int) -> int:
    """A seed for each purpose, the same in every process: 0 to below 2^63."""
    key = "\0".join(map(str, (seed, *purpose)))
    return int.from_bytes(sha256(key.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(seed_for(seed, *purpose))


# Moving batches to a GPU while it computes.


def staged(values: Tensor, device: torch.device) -> Tensor:
    """In page-locked memory if `device` is a GPU: from there a copy need not be waited for."""
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory()
    return values


def moved(values: Tensor, device: torch.device) -> Tensor:
    """On the device; what is computed there next waits for the copy, the caller does not."""
    return values.to(device, non_blocking=True)
