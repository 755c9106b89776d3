"""The 50 best of a million candidates for 200 queries, compared with sorting all scores.

The candidates are vectors drawn chunk by chunk, as a scorer would project them chunk by chunk;
their elements are integers, so that scores are exact, many are equal, and both methods must give
the same ranking. Each case runs in its own process, on one thread; `peak_mb` is that process's
peak, mostly torch itself in ours, and constant over sizes. The naive method is measured at the
smaller sizes; its time and its memory beyond torch at a million are extrapolated from the largest
of these (`--full` measures them).
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from hsfiq.model.evaluation.rankings.top_k import TopK, scored_blocks
from hsfiq.model.scorer.inference import CHUNK
from hsfiq.model.scorer.scorer import relevance

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

QUERIES, K = 200, 50
VECTORS, DIMENSIONS = 2, 32
SIZES = (50_000, 200_000, 1_000_000)
NAIVE_LIMIT = 200_000
"""The most candidates for the naive method without `--full`."""
LARGEST = 4
"""The largest absolute value of a vector's elements."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """Rank with both methods at each size; the ratio is of the memory at the largest."""
    return measure(seed, SIZES, SIZES[-1] if full else NAIVE_LIMIT)


def measure(seed: int, sizes: tuple[int, ...], naive_limit: int) -> dict[str, Any]:
    """Rank each number of candidates, with the naive method up to `naive_limit`."""
    cases = [compare(seed, size, with_naive=size <= naive_limit) for size in sizes]
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


def compare(seed: int, size: int, *, with_naive: bool) -> dict[str, Any]:
    """Compare the methods at one size."""
    ours = in_new_process(streamed, seed, size)
    theirs = in_new_process(naive, seed, size) if with_naive else None
    return {
        "candidates": size,
        "peak_mb": ours["peak_mb"],
        "seconds": ours["seconds"],
        "torch_mb": ours["torch_mb"],
        "theirs_peak_mb": theirs and theirs["peak_mb"],
        "theirs_seconds": theirs and theirs["seconds"],
        "equal": theirs and theirs["sha256"] == ours["sha256"],
    }


def in_new_process(rank: Callable[[int, int], Tensor], seed: int, size: int) -> dict[str, Any]:
    """Measure in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (rank, seed, size))


def measured(rank: Callable[[int, int], Tensor], seed: int, size: int) -> dict[str, Any]:
    """Time, memory and digest of one ranking."""
    torch.set_num_threads(1)
    rank(seed, K)  # loads torch, which is not part of the ranking
    before, start = peak_mb(), time.perf_counter()
    columns = rank(seed, size)
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


def naive(seed: int, size: int) -> Tensor:
    """All candidates, all scores, a stable sort: columns [Q, K]."""
    gallery = torch.empty(size, VECTORS, DIMENSIONS)  # [N, L, D]
    for start, images in zip(range(0, size, CHUNK), chunks(seed, size), strict=True):
        gallery[start : start + CHUNK] = images
    scores = relevance(queries(seed), gallery, "max", chunk=CHUNK)  # [Q, N]
    order = scores.argsort(dim=1, descending=True, stable=True)  # [Q, N]
    return order[:, :K].contiguous()


def queries(seed: int) -> Tensor:
    """[Q, D]."""
    return integer_vectors(torch.Generator().manual_seed(seed), QUERIES, DIMENSIONS)


def chunks(seed: int, size: int) -> Iterator[Tensor]:
    """The candidates, [n, L, D] at a time."""
    generator = torch.Generator().manual_seed(seed + 1)
    for start in range(0, size, CHUNK):
        yield integer_vectors(generator, min(CHUNK, size - start), VECTORS, DIMENSIONS)


def integer_vectors(generator: torch.Generator, *shape: int) -> Tensor:
    """Vectors whose products are exact in float32."""
    return torch.randint(-LARGEST, LARGEST + 1, shape, generator=generator).float()


def peak_mb() -> float:
    """The most memory this process has used so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
