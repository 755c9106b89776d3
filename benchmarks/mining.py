"""QuRe's negative sets of 6,000 queries among 6,000 images, compared with a loop over the queries.

The loop does what the published code does for each query: sort the images by score, find the
target's rank, take the score differences below it, sort these, go through them until two are far
enough apart, and return the images between. (One change: images with exactly the target's score are
not counted as below it, whatever their order in the sort.) Both run on one thread, on which the
loop's small sorts are fastest. Without `--full` the loop is timed on a random part of the queries
and its time scaled to all; ours is timed on all, from scores to sets and six draws from each. The
sets of every query in the loop are compared. The last case is ours including scoring, from vectors
of BLIP-2's shape, without `--full` also on a part.
"""

from __future__ import annotations

import resource
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from hsfiq.model.scorer.negatives import (
    Drawn,
    NegativeRule,
    draw_from_scores,
    draw_negatives,
    negative_mask,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

QUERIES = IMAGES = 6000
PART, SCORED_PART = 1500, 600
EPOCHS = 6
CHUNK = 100
LATENT = 48
TEMPERATURE = 0.07
VECTORS, DIMENSIONS = 32, 256
"""An image's vectors in BLIP-2."""

Result = TypeVar("Result")

PAPER, PUBLISHED = NegativeRule("qure"), NegativeRule("qure-code", threshold=1)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Mine with both methods; the ratio is that of the published rule, from the same scores."""
    if full:
        return mine(seed, QUERIES, IMAGES, QUERIES, QUERIES)
    return mine(seed, QUERIES, IMAGES, PART, SCORED_PART)


def mine(seed: int, queries: int, images: int, part: int, scored_part: int) -> dict[str, Any]:
    """Compare both methods, the loop on `part` of the queries."""
    generator = torch.Generator().manual_seed(seed)
    scores, targets = realistic_scores(queries, images, generator)
    chosen = torch.randperm(queries, generator=generator)[:part].sort().values
    uniforms = torch.rand(queries, EPOCHS, generator=generator)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    cases = [compare(scores, targets, chosen, uniforms, rule) for rule in (PUBLISHED, PAPER)]
    torch.set_num_threads(threads)
    scored = with_scoring(queries, images, scored_part, uniforms, generator)
    return {
        "name": "mining",
        "ratio": cases[0]["ratio"],
        "ours": cases[0]["ours"],
        "theirs": cases[0]["theirs"],
        "unit": "s",
        "equal": all(case["equal"] for case in cases),
        "queries": queries,
        "images": images,
        "theirs_measured_on": part,
        "peak_mb": cases[0]["process_peak_mb"],
        "cases": [*cases, scored],
    }


def realistic_scores(
    queries: int, images: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Scores [Q, N] of low rank, like cosines, and targets [Q] that mostly score high."""
    targets = torch.randint(images, (queries,), generator=generator)
    latent = torch.randn(images, LATENT, generator=generator)
    queried = latent[targets] + torch.randn(queries, LATENT, generator=generator)
    normal = torch.nn.functional.normalize
    return normal(queried, dim=1) @ normal(latent, dim=1).T, targets


def compare(
    scores: Tensor, targets: Tensor, chosen: Tensor, uniforms: Tensor, rule: NegativeRule
) -> dict[str, Any]:
    """Time both methods with one rule, and compare their sets and draws."""
    ours, drawn = timed(lambda: draw_in_chunks(scores, targets, rule, uniforms), times=3)
    peak = peak_mb()
    names = [f"B{image:09}" for image in range(scores.shape[1])]
    theirs, sets = timed(
        lambda: [
            published_set(scores[query], int(targets[query]), names, rule.threshold or 0)
            for query in chosen.tolist()
        ]
    )
    theirs *= len(scores) / len(chosen)
    return {
        "case": f"{rule.strategy}, from scores",
        "ratio": round(theirs / ours, 1),
        "ours": round(ours, 3),
        "theirs": round(theirs, 3),
        "equal": equal(scores, targets, chosen, rule, sets, drawn, names),
        "mean_size": round(float(drawn.sizes.float().mean()), 1),
        "fell_back": int(drawn.fell_back.sum()),
        "process_peak_mb": peak,
    }


def with_scoring(
    queries: int, images: int, part: int, uniforms: Tensor, generator: torch.Generator
) -> dict[str, Any]:
    """Time ours including scoring, which never keeps all scores in memory."""
    queried, gallery = (
        torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1)
        for shape in ((part, DIMENSIONS), (images, VECTORS, DIMENSIONS))
    )
    targets, uniforms = torch.randint(images, (part,), generator=generator), uniforms[:part]
    seconds, _ = timed(
        lambda: draw_negatives(
            queried,
            gallery,
            targets,
            PUBLISHED,
            uniforms,
            "max",
            chunk=CHUNK,
            temperature=TEMPERATURE,
        )
    )
    return {
        "case": f"{PUBLISHED.strategy}, with scoring",
        "ours": round(seconds * queries / part, 3),
        "ours_measured_on": part,
    }


def draw_in_chunks(scores: Tensor, targets: Tensor, rule: NegativeRule, uniforms: Tensor) -> Drawn:
    """Ours, a chunk of the queries at a time, as in training."""
    parts = [
        draw_from_scores(
            scores[start : start + CHUNK],
            targets[start : start + CHUNK],
            rule,
            uniforms[start : start + CHUNK],
            TEMPERATURE,
        )
        for start in range(0, len(scores), CHUNK)
    ]
    return Drawn(
        torch.cat([part.columns for part in parts]),
        torch.cat([part.sizes for part in parts]),
        torch.cat([part.fell_back for part in parts]),
        None,
    )


def published_set(scores: Tensor, target: int, names: list[str], gap: int) -> set[str] | None:
    """One query as in the published code; None without a suitable pair of drops."""
    order = torch.argsort(scores, descending=True)
    ranking = order.tolist()
    ranked = scores[order].numpy()
    start = ranking.index(target) + 1
    while start < len(ranked) and ranked[start] == scores[target]:
        start += 1
    differences = np.diff(ranked[start:])
    steepest = np.argsort(differences)
    for first, second in pairwise(steepest):
        low, high = sorted((first, second))
        if high - low > gap:
            between = ranking[start + low + 1 : start + high + 1]
            return {names[image] for image in between if names[image] != names[target]}
    return None


def equal(
    scores: Tensor,
    targets: Tensor,
    chosen: Tensor,
    rule: NegativeRule,
    sets: list[set[str] | None],
    drawn: Drawn,
    names: list[str],
) -> bool:
    """Whether both methods give each chosen query the same set, and our draws are from it."""
    for query, theirs in zip(chosen.tolist(), sets, strict=True):
        mask, fell_back = negative_mask(scores[query, None], targets[query, None], rule)
        if (theirs is None) != bool(fell_back):
            return False
        ours = {names[image] for image in mask[0].nonzero().flatten().tolist()}
        draws = [names[image] for image in drawn.columns[query].tolist()]
        if theirs is not None and ours != theirs:
            return False
        if not ours.issuperset(draws) or len(set(draws)) != min(len(draws), len(ours)):
            return False
    return True


def timed(work: Callable[[], Result], *, times: int = 1) -> tuple[float, Result]:
    """The best time of some runs, in seconds, and the last result."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def peak_mb() -> float:
    """The most memory this process has used so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
