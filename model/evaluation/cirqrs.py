"""CIRQRS@k of ranked lists, whichever system they are of (CIRQRS section 5.4, Table 6).

A list's value is the mean of the scorer's relevance over its first k images (eq. 10), a system's
the mean over its lists. Relevance is the pooled cosine; the paper prints, it seems, 100 times it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from hsfiq.model.data.triplets import distinct
from hsfiq.model.evaluation.benchmark import Answers, Benchmark, Part
from hsfiq.model.evaluation.figures import mean_of
from hsfiq.model.evaluation.loaded_scorer import AtWork
from hsfiq.model.evaluation.ranking import Picked, scored_blocks
from hsfiq.model.evaluation.results import Evaluation, Figure
from hsfiq.model.evaluation.scorer_run import columns_of, vectors_of
from hsfiq.model.scoring.release_scores import numbered

KS = (10, 50)
"""Table 6's."""


@dataclass(frozen=True, slots=True)
class CirqrsAt:
    """CIRQRS@k of one part's lists.

    Attributes:
        value: None where it is undefined.
        n_queries: over how many it is the mean: those that have a list, all images of which,
            up to k, and the reference are there.
        reason: why it is undefined.
    """

    value: float | None
    n_queries: int
    reason: str = ""


def images_of_lists(parts: Sequence[Part], answers: Mapping[str, Answers]) -> frozenset[str]:
    """Every image that CIRQRS@k needs: the first of each list, and the references."""
    wanted: set[str] = set()
    for part in parts:
        lists = answers[part.name].lists
        for it in part.queries:
            if it.query_id in lists:
                wanted.update((it.reference, *lists[it.query_id][: max(KS)]))
    return frozenset(wanted)


def cirqrs_at(
    part: Part, answers: Answers, at_work: AtWork, ks: Sequence[int] = KS
) -> dict[int, CirqrsAt]:
    """CIRQRS@k by k.

    The lists' images are projected chunk by chunk; beside a chunk there are Q x k scores.

    Args:
        part: asks.
        answers: a system's, to some or all of its queries.
        at_work: the scorer, with the images of the lists as far as they are there.
        ks: each is undefined where any list is shorter.

    Raises:
        Diverged: the scorer gives numbers that are none.
    """
    queries = [it for it in part.queries if it.query_id in answers.lists]
    lengths = [len(answers.lists[it.query_id]) for it in queries]
    asked = [it for it in queries if it.reference in at_work.there]
    lists = [answers.lists[it.query_id][: max(ks)] for it in asked]
    images = distinct(image for row in lists for image in row if image in at_work.there)
    if not images:
        return dict.fromkeys(ks, CirqrsAt(None, 0, "no list has an image that is there"))
    vectors = vectors_of(asked, at_work.inference)  # [Q, D]
    picked = Picked(columns_of(lists, numbered(images), vectors))
    for block in scored_blocks(
        vectors, at_work.inference.galleries(images), at_work.loaded.recipe.pooling
    ):
        picked.add(block)
    return {k: mean_of_first(picked.scores, k, lengths) for k in ks}


def with_cirqrs(
    evaluation: Evaluation, answers: Mapping[str, Answers], at_work: AtWork
) -> Evaluation:
    """The evaluation of a system's lists with CIRQRS@k beside the other figures.

    Args:
        evaluation: of the same lists.
        answers: by part.
        at_work: the scorer, with the images of the lists as far as they are there.

    Raises:
        Diverged: the scorer gives numbers that are none.
    """
    found = {
        part.name: cirqrs_at(part, answers[part.name], at_work)
        for part in evaluation.benchmark.parts
    }
    named = {
        name: {f"cirqrs@{k}": Figure(it.value, it.reason) for k, it in values.items()}
        for name, values in found.items()
    }
    parts = tuple(
        replace(it, figures=it.figures | figures)
        for it, figures in zip(evaluation.parts, named.values(), strict=True)
    )
    first, *others = named.values()
    means = {name: mean_of({part: it[name] for part, it in named.items()}) for name in first}
    whole = evaluation.whole
    return replace(
        evaluation,
        parts=parts,
        whole=replace(whole, figures=whole.figures | (means if others else first)),
        notes=(*evaluation.notes, *partial_notes(evaluation.benchmark, found)),
    )


def partial_notes(benchmark: Benchmark, found: Mapping[str, Mapping[int, CirqrsAt]]) -> list[str]:
    """Over how many queries a figure is, where not over all."""
    return [
        f"{part.name}: cirqrs@{k} is over {it.n_queries:,} of {len(part.queries):,} queries; "
        "the others have no list, or images that are missing"
        for part in benchmark.parts
        for k, it in found[part.name].items()
        if it.value is not None and it.n_queries < len(part.queries)
    ]


def mean_of_first(scores: torch.Tensor, k: int, lengths: Sequence[int]) -> CirqrsAt:
    """Eq. 10 over the lists whose first k images are scored.

    Args:
        scores: [Q, M] of the lists' images in their order, NaN for what has none.
        k: of the figure.
        lengths: of all lists, those included whose reference is missing.
    """
    if short := sum(length < k for length in lengths):
        reason = f"{short:,} of {len(lengths):,} lists have fewer than {k} images"
        return CirqrsAt(None, 0, reason)
    means = scores[:, :k].double().mean(dim=1)  # [Q], NaN where an image is missing
    means = means[~means.isnan()]
    if not len(means):
        return CirqrsAt(None, 0, f"no list has all its first {k} images")
    return CirqrsAt(float(means.mean()), len(means))
