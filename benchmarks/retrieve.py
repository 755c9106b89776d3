"""The 50 best candidates of every query, compared with a matrix product and a sort of all scores.

The cases are 6,000 queries among 6,000 candidates, as in FashionIQ, and 100 among a million. The
candidates are vectors drawn chunk by chunk, as a system would project them chunk by chunk; their
elements are integers, so that scores are exact, many are equal, and both methods must give the same
ranking. Each method runs in its own process, on one thread. `mb` is the most memory that a method
held beyond torch itself. Without `--full` the other method ranks fewer candidates in the second
case, and its figures are scaled to a million.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from hsfiq.model.evaluation.rankings import TopK, scored_blocks
from hsfiq.model.scorer.inference import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

K = 50
DIMENSIONS = 256
LARGEST = 4
"""The largest absolute value of a vector's elements."""


@dataclass(frozen=True, slots=True)
class Case:
    """How many queries and candidates; the sort ranks `sorted_candidates` of them."""

    queries: int
    candidates: int
    sorted_candidates: int


def run(seed: int, full: bool) -> dict[str, Any]:
    """Rank with both methods in each case; the ratio is of the time at a million."""
    part = 1_000_000 if full else 150_000
    return measure(seed, (Case(6_000, 6_000, 6_000), Case(100, 1_000_000, part)))


def measure(seed: int, cases: tuple[Case, ...]) -> dict[str, Any]:
    compared = [compare(seed, case) for case in cases]
    last = compared[-1]
    return {
        "name": "retrieve",
        "ratio": last["time_ratio"],
        "ours": last["seconds"],
        "theirs": last["theirs_seconds"],
        "unit": "s",
        "equal": all(case["equal"] for case in compared),
        "memory_ratio": last["memory_ratio"],
        "k": K,
        "dimensions": DIMENSIONS,
        "cases": compared,
    }


def compare(seed: int, case: Case) -> dict[str, Any]:
    """Both methods on one case, and whether they agree on the candidates that both ranked."""
    ours = in_new_process(streamed, seed, case.queries, case.candidates)
    theirs = in_new_process(naive, seed, case.queries, case.sorted_candidates)
    same = ours
    if case.sorted_candidates < case.candidates:
        same = in_new_process(streamed, seed, case.queries, case.sorted_candidates)
    scale = case.candidates / case.sorted_candidates
    return {
        "queries": case.queries,
        "candidates": case.candidates,
        "seconds": round(ours["seconds"], 2),
        "theirs_seconds": round(theirs["seconds"] * scale, 2),
        "time_ratio": round(theirs["seconds"] * scale / ours["seconds"], 2),
        "mb": round(ours["mb"], 1),
        "theirs_mb": round(theirs["mb"] * scale, 1),
        "memory_ratio": round(theirs["mb"] * scale / max(ours["mb"], 0.1), 1),
        "theirs_measured_on": case.sorted_candidates,
        "equal": same["sha256"] == theirs["sha256"],
    }


def in_new_process(
    rank: Callable[[int, int, int], Tensor], seed: int, queries: int, candidates: int
) -> dict[str, Any]:
    """Measure in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (rank, seed, queries, candidates))


def measured(
    rank: Callable[[int, int, int], Tensor], seed: int, queries: int, candidates: int
) -> dict[str, Any]:
    """Processor time, memory and digest of one ranking."""
    torch.set_num_threads(1)
    rank(seed, K, K)  # loads torch, which is not part of the ranking
    drawing = time.process_time()
    for _ in chunks(seed, candidates):
        pass
    drawing = time.process_time() - drawing  # not part of it either
    before, start = peak_mb(), time.process_time()
    columns = rank(seed, queries, candidates)
    return {
        "seconds": time.process_time() - start - drawing,
        "mb": peak_mb() - before,
        "sha256": hashlib.sha256(columns.numpy().tobytes()).hexdigest(),
    }


def streamed(seed: int, n_queries: int, n_candidates: int) -> Tensor:
    """Ours: a chunk at a time. Returns columns [Q, K]."""
    top = TopK(n_queries, K)
    for block in scored_blocks(queries(seed, n_queries), chunks(seed, n_candidates), "max"):
        top.add(block)
    return top.ranked().columns


def naive(seed: int, n_queries: int, n_candidates: int) -> Tensor:
    """All candidates, all scores, a stable sort: columns [Q, K]."""
    gallery = torch.empty(n_candidates, DIMENSIONS)  # [N, D]
    for start, images in zip(
        range(0, n_candidates, CHUNK), chunks(seed, n_candidates), strict=True
    ):
        gallery[start : start + CHUNK] = images[:, 0]
    scores = queries(seed, n_queries) @ gallery.T  # [Q, N]
    order = scores.argsort(dim=1, descending=True, stable=True)  # [Q, N]
    return order[:, :K].contiguous()


def queries(seed: int, n: int) -> Tensor:
    """[Q, D]."""
    return integer_vectors(torch.Generator().manual_seed(seed), n, DIMENSIONS)


def chunks(seed: int, n: int) -> Iterator[Tensor]:
    """The candidates, [n, 1, D] at a time."""
    generator = torch.Generator().manual_seed(seed + 1)
    for start in range(0, n, CHUNK):
        yield integer_vectors(generator, min(CHUNK, n - start), 1, DIMENSIONS)


def integer_vectors(generator: torch.Generator, *shape: int) -> Tensor:
    """Vectors whose products are exact in float32."""
    return torch.randint(-LARGEST, LARGEST + 1, shape, generator=generator).float()


def peak_mb() -> float:
    """The most memory this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
