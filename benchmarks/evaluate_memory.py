"""The 50 best of a million candidates for 200 queries, against all scores and a sort.

The candidates are vectors drawn chunk by chunk, as a scorer would project them chunk by chunk;
their numbers are whole, so that scores are exact, many are the same, and both ways must come to
the same ranking. Each case runs in a process of its own, on one thread; `peak_mb` is the process's,
of which torch itself takes most in ours: it stays where it is at every size. The obvious way is
measured at the smaller sizes; what it takes beyond torch at a million is scaled from the largest of
these, its time too (`--full` measures both).
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from hsfiq.model.evaluation.ranking import TopK, scored_blocks
from hsfiq.model.scorer.inference import CHUNK
from hsfiq.model.scorer.scorer import relevance

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

QUERIES, K = 200, 50
VECTORS, DIMENSIONS = 2, 32
SIZES = (50_000, 200_000, 1_000_000)
HELD = 200_000
"""Candidates up to which the obvious way is run without `--full`."""
LARGEST = 4
"""Of the whole numbers that vectors are made of."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """Rank both ways at each size; the ratio is of the memory at the largest."""
    return measure(seed, SIZES, SIZES[-1] if full else HELD)


def measure(seed: int, sizes: tuple[int, ...], held: int) -> dict[str, Any]:
    """Rank so many candidates, the obvious way up to `held` of them."""
    cases = [compare(seed, size, held=size <= held) for size in sizes]
    measured = [case for case in cases if case["theirs_peak_mb"] is not None]
    last, largest = cases[-1], measured[-1]
    scale = last["candidates"] / largest["candidates"]
    beyond = largest["theirs_peak_mb"] - largest["torch_mb"]
    theirs = largest["torch_mb"] + beyond * scale
    return {
        "name": "evaluate-memory",
        "ratio": round(theirs / last["peak_mb"], 1),
        "ours": last["peak_mb"],
        "theirs": round(theirs, 1),
        "unit": "MB",
        "equal": all(case["equal"] for case in measured),
        "peak_mb": last["peak_mb"],
        "seconds": last["seconds"],
        "theirs_seconds": round(largest["theirs_seconds"] * scale, 1),
        "theirs_measured_on": largest["candidates"],
        "queries": QUERIES,
        "k": K,
        "cases": cases,
    }


def compare(seed: int, size: int, *, held: bool) -> dict[str, Any]:
    """One size; the obvious way only where it is `held` in memory."""
    ours = apart(streamed, seed, size)
    theirs = apart(obvious, seed, size) if held else None
    return {
        "candidates": size,
        "peak_mb": ours["peak_mb"],
        "seconds": ours["seconds"],
        "torch_mb": ours["torch_mb"],
        "theirs_peak_mb": theirs and theirs["peak_mb"],
        "theirs_seconds": theirs and theirs["seconds"],
        "equal": theirs and theirs["sha256"] == ours["sha256"],
    }


def apart(way: Callable[[int, int], Tensor], seed: int, size: int) -> dict[str, Any]:
    """Do it in a process that has done nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (way, seed, size))


def measured(way: Callable[[int, int], Tensor], seed: int, size: int) -> dict[str, Any]:
    """Time and memory of one ranking, and what came out."""
    torch.set_num_threads(1)
    way(seed, K)  # what the first use of torch takes is not the ranking's
    before, start = peak_mb(), time.perf_counter()
    columns = way(seed, size)
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "torch_mb": before,
        "peak_mb": peak_mb(),
        "sha256": hashlib.sha256(columns.numpy().tobytes()).hexdigest(),
    }


def streamed(seed: int, size: int) -> Tensor:
    """Ours: a chunk at a time. Returns columns [Q, K]."""
    top = TopK(QUERIES, K)
    for block in scored_blocks(queries(seed), chunks(seed, size), "max"):
        top.add(block)
    return top.ranked().columns


def obvious(seed: int, size: int) -> Tensor:
    """All candidates, all scores, a stable sort: columns [Q, K]."""
    gallery = torch.empty(size, VECTORS, DIMENSIONS)  # [N, L, D]
    for start, images in zip(range(0, size, CHUNK), chunks(seed, size), strict=True):
        gallery[start : start + CHUNK] = images
    scores = relevance(queries(seed), gallery, "max", chunk=CHUNK)  # [Q, N]
    order = scores.argsort(dim=1, descending=True, stable=True)  # [Q, N]
    return order[:, :K].contiguous()


def queries(seed: int) -> Tensor:
    """[Q, D]."""
    return whole_numbers(torch.Generator().manual_seed(seed), QUERIES, DIMENSIONS)


def chunks(seed: int, size: int) -> Iterator[Tensor]:
    """The candidates, [n, L, D] at a time."""
    generator = torch.Generator().manual_seed(seed + 1)
    for start in range(0, size, CHUNK):
        yield whole_numbers(generator, min(CHUNK, size - start), VECTORS, DIMENSIONS)


def whole_numbers(generator: torch.Generator, *shape: int) -> Tensor:
    """Vectors whose products a float holds exactly."""
    return torch.randint(-LARGEST, LARGEST + 1, shape, generator=generator).float()


def peak_mb() -> float:
    """The most memory this process has held so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
