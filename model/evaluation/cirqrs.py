"""CIRQRS@k of any system's ranked lists (CIRQRS section 5.4, Table 6).

A list's value is the mean relevance of its first k images by the scorer (eq. 10); a system's value
is the mean over its lists. Relevance is the pooled cosine; the paper seems to print 100 times it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from statistics import fmean

import torch

from hsfiq.model.data.triplets import distinct
from hsfiq.model.evaluation.benchmarks import Benchmark, Part, SystemLists
from hsfiq.model.evaluation.metrics import Evaluation, Figure, mean_of
from hsfiq.model.evaluation.rankings.prepared_scorer import PreparedScorer
from hsfiq.model.evaluation.rankings.scorer_lists import columns_of, query_vectors
from hsfiq.model.evaluation.rankings.top_k import SelectedScores, scored_blocks
from hsfiq.model.release_scores.set_scores import indexed
from hsfiq.model.scorer.scorer import scores_of_sets

KS = (10, 50)
"""Those of Table 6."""


@dataclass(frozen=True, slots=True)
class CirqrsAt:
    """CIRQRS@k of one part's lists, None with a reason if undefined.

    It counts the queries with a list whose first k images, and whose reference, are available.
    """

    value: float | None
    n_queries: int
    reason: str = ""
    by_query: Mapping[str, float] = field(default_factory=dict)


def images_of_lists(parts: Sequence[Part], answers: Mapping[str, SystemLists]) -> frozenset[str]:
    """Every image that CIRQRS@k needs: the first of each list, and the references."""
    wanted: set[str] = set()
    for part in parts:
        lists = answers[part.name].lists
        for query in part.queries:
            if query.query_id in lists:
                wanted.update((query.reference, *lists[query.query_id][: max(KS)]))
    return frozenset(wanted)


def cirqrs_at(
    part: Part, answers: SystemLists, prepared: PreparedScorer, ks: Sequence[int] = KS
) -> dict[int, CirqrsAt]:
    """CIRQRS@k by k, undefined if any list is shorter than k.

    The lists' images are projected in chunks; besides a chunk, memory holds Q x k scores.
    """
    answered = [query for query in part.queries if query.query_id in answers.lists]
    lengths = [len(answers.lists[query.query_id]) for query in answered]
    queries = [query for query in answered if query.reference in prepared.available]
    lists = [answers.lists[query.query_id][: max(ks)] for query in queries]
    images = distinct(image for row in lists for image in row if image in prepared.available)
    if not images:
        return dict.fromkeys(ks, CirqrsAt(None, 0, "no list has an available image"))
    vectors = query_vectors(queries, prepared.inference)  # [Q, D]
    selected = SelectedScores(columns_of(lists, indexed(images), vectors))
    gallery = prepared.inference.galleries(images)
    for block in scored_blocks(vectors, gallery, prepared.loaded.recipe.pooling):
        selected.add(block)
    ids = [query.query_id for query in queries]
    return {k: mean_of_first(ids, selected.scores, k, lengths) for k in ks}


def with_cirqrs(
    evaluation: Evaluation, answers: Mapping[str, SystemLists], prepared: PreparedScorer
) -> Evaluation:
    """The evaluation of a system's lists with CIRQRS@k; Diverged if a score is not finite."""
    by_part = {
        part.name: cirqrs_at(part, answers[part.name], prepared)
        for part in evaluation.benchmark.parts
    }
    figures = {
        name: {f"cirqrs@{k}": Figure(at.value, at.reason) for k, at in values.items()}
        for name, values in by_part.items()
    }
    parts = tuple(
        replace(part, figures=part.figures | own)
        for part, own in zip(evaluation.parts, figures.values(), strict=True)
    )
    by_query: dict[str, dict[str, float]] = {}
    for values in by_part.values():
        for k, at in values.items():
            by_query.setdefault(f"cirqrs@{k}", {}).update(at.by_query)
    first, *others = figures.values()
    means = {name: mean_of({part: own[name] for part, own in figures.items()}) for name in first}
    overall = evaluation.overall
    return replace(
        evaluation,
        parts=parts,
        overall=replace(overall, figures=overall.figures | (means if others else first)),
        notes=(
            *evaluation.notes,
            *partial_notes(evaluation.benchmark, by_part),
            *prepared.missing_notes(),
        ),
        by_query=by_query,
    )


def partial_notes(benchmark: Benchmark, by_part: Mapping[str, Mapping[int, CirqrsAt]]) -> list[str]:
    """The number of queries in a figure, if not all."""
    return [
        f"{part.name}: cirqrs@{k} is over {at.n_queries:,} of {len(part.queries):,} queries; "
        "the others have no list, or images that are missing"
        for part in benchmark.parts
        for k, at in by_part[part.name].items()
        if at.value is not None and at.n_queries < len(part.queries)
    ]


def mean_of_first(
    ids: Sequence[str], scores: torch.Tensor, k: int, lengths: Sequence[int]
) -> CirqrsAt:
    """Eq. 10 over the lists whose first k images are scored.

    `ids` are of the Q queries, `scores` [Q, M] of the lists' images in their order, NaN for images
    without a score; `lengths` are of all lists, also of those whose reference is missing.
    """
    if short := sum(length < k for length in lengths):
        reason = f"{short:,} of {len(lengths):,} lists have fewer than {k} images"
        return CirqrsAt(None, 0, reason)
    means = scores_of_sets(scores[:, :k])  # [Q], NaN if an image is missing
    known = {name: mean for name, mean in zip(ids, means.tolist(), strict=True) if not isnan(mean)}
    if not known:
        return CirqrsAt(None, 0, f"no list has all its first {k} images")
    return CirqrsAt(fmean(known.values()), len(known), by_query=known)
