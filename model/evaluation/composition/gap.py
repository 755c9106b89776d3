"""The composition gap of a system: its figures with both inputs, the text alone, the image alone.

CIRCUS (Attimonelli et al. 2026) has two definitions. Its release subtracts: R@10 with both inputs
less the better one of text and image alone. Its page divides: 1 - max(I, T) / MM, of the nDCG of
complete rankings. A query is `shortcut_solvable` at K if the text or the image alone ranks the
target among the first K, else `composition_required` if both inputs do, else `unresolved`; CIRCUS
asks a pool of systems, here the system is the pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log2

from hsfiq.model.evaluation.benchmarks import Benchmark, Query, SystemLists
from hsfiq.model.evaluation.metrics import (
    CIRCO_KS,
    RECALL_KS,
    Figure,
    candidates_per_query,
    is_settled,
    recall,
    target_of,
)
from hsfiq.model.evaluation.uncertainty.per_query import QueryRow, cluster_of

INPUTS = ("both", "text", "image")
LABELS = ("shortcut_solvable", "composition_required", "unresolved")
NDCG = "ndcg"

Answers = Mapping[str, SystemLists]
"""Lists by part."""


@dataclass(frozen=True, slots=True)
class ThreeAnswers:
    """The lists of a system with both inputs, with the text alone and with the image alone."""

    both: Answers
    text: Answers
    image: Answers


def ks_of(benchmark: Benchmark) -> tuple[int, ...]:
    return CIRCO_KS if benchmark.name == "circo" else RECALL_KS


def query_values(benchmark: Benchmark, answers: ThreeAnswers) -> list[QueryRow]:
    """The values of each query; None where a list does not determine one."""
    ks = ks_of(benchmark)
    rows = []
    for part in benchmark.parts:
        n_candidates = candidates_per_query(benchmark, part)
        for query in part.queries:
            lists = {
                name: getattr(answers, name)[part.name].lists.get(query.query_id) for name in INPUTS
            }
            values: dict[str, float | None] = {}
            for k in ks:
                hits = {name: hit(query, lists[name], k, n_candidates) for name in INPUTS}
                values |= {f"{name}@{k}": hits[name] for name in INPUTS}
                values |= {f"{name}@{k}": value for name, value in label_values(hits).items()}
            for name in INPUTS:
                values[f"{NDCG}_{name}@{max(ks)}"] = ndcg(query, lists[name], max(ks), n_candidates)
                values[f"{NDCG}_{name}"] = ndcg(query, lists[name], None, n_candidates)
            rows.append(QueryRow(query.query_id, part.name, cluster_of(benchmark, query), values))
    return rows


def hit(
    query: Query, images: Sequence[str] | None, k: int, n_candidates: int | None
) -> float | None:
    """Recall@k; 0 for a query without a list."""
    return 0.0 if images is None else recall(images, target_of(query), k, n_candidates)


def label_values(hits: Mapping[str, float | None]) -> dict[str, float | None]:
    """1 for the query's label and 0 for the others, from its three hits."""
    both, text, image = (hits[name] for name in INPUTS)
    if both is None or text is None or image is None:
        return dict.fromkeys(LABELS)
    by_one = max(text, image)
    values = (by_one, (1 - by_one) * both, (1 - by_one) * (1 - both))
    return dict(zip(LABELS, values, strict=True))


def ndcg(
    query: Query, images: Sequence[str] | None, k: int | None, n_candidates: int | None
) -> float | None:
    """1 / log2(place of the target + 1); 0 below place k, or without a list.

    With k None the whole ranking counts: a list that ends before the target does not determine it.
    """
    if images is None:
        return 0.0
    target = target_of(query)
    if target in images:
        place = images.index(target) + 1
        return 1 / log2(place + 1) if k is None or place <= k else 0.0
    depth = len(images) + 1 if k is None else k
    return 0.0 if is_settled(images, depth, n_candidates) else None


def figures_of(rows: Sequence[QueryRow]) -> dict[str, Figure]:
    """All figures: means over parts, and the gaps between them."""
    means: dict[str, float] = {}
    figures: dict[str, Figure] = {}
    for name in rows[0].values:
        n_open = sum(row.values[name] is None for row in rows)
        if n_open:
            reason = f"{n_open:,} of {len(rows):,} queries have lists that are too short"
            figures[name] = Figure(None, reason)
        else:
            means[name] = mean_over_parts(rows, name)
            figures[name] = Figure(means[name])
    gaps = gaps_of(means)
    for name in gap_names(rows[0].values):
        if name in gaps:
            figures[name] = Figure(gaps[name])
        else:
            figures[name] = Figure(None, "it needs the figures of all three inputs, both above 0")
    return figures


def mean_over_parts(rows: Sequence[QueryRow], name: str) -> float:
    by_part: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_part[row.part].append(row.values[name] or 0.0)
    return fsum(fsum(values) / len(values) for values in by_part.values()) / len(by_part)


def gap_names(names: Mapping[str, object]) -> list[str]:
    """The gaps of these values, in their order: `gap@K`, and `composition_gap` of nDCG."""
    gaps = []
    for name in names:
        first, at, k = name.partition("@")
        if first == "both":
            gaps.append(f"gap@{k}")
        elif first == f"{NDCG}_both":
            gaps.append(f"composition_gap{at}{k}")
    return gaps


def gaps_of(means: Mapping[str, float]) -> dict[str, float]:
    """The gaps between means, without those that lack a mean or divide by 0."""
    gaps = {}
    for name, both in means.items():
        first, at, k = name.partition("@")
        if first == "both" and {f"text@{k}", f"image@{k}"} <= means.keys():
            gaps[f"gap@{k}"] = both - max(means[f"text@{k}"], means[f"image@{k}"])
        alone = [f"{NDCG}_{half}{at}{k}" for half in ("text", "image")]
        if first == f"{NDCG}_both" and both > 0 and means.keys() >= set(alone):
            gaps[f"composition_gap{at}{k}"] = 1 - max(means[key] for key in alone) / both
    return gaps
