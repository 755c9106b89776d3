"""A trained scorer's own ranked lists for a benchmark."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import DEPTH, Benchmark, Part, Query, SystemLists
from hsfiq.model.evaluation.rankings.prepared_scorer import PreparedScorer, prepare_scorer
from hsfiq.model.evaluation.rankings.top_k import SelectedScores, TopK, scored_blocks
from hsfiq.model.release_scores.set_scores import indexed
from hsfiq.model.retrieval.loading import LoadedRetriever
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback


@dataclass(frozen=True, slots=True)
class ScorerLists:
    benchmark: Benchmark  # with the candidates that were ranked
    answers: dict[str, SystemLists]  # by part, without the queries whose reference is missing
    scores: dict[str, dict[str, tuple[float, ...]]]  # by part and query: pooled cosines
    missing: dict[str, Any]  # counts of missing images and of the queries without them
    notes: tuple[str, ...]
    loaded: LoadedRetriever


def rank_with_scorer(
    benchmark: Benchmark,
    paths: ScorerPaths,
    device: torch.device,
    callback: Callback,
    *,
    depth: int = DEPTH,
    allow_missing: bool = False,
) -> ScorerLists:
    """Rank every part's corpus for its queries.

    If missing images are allowed, missing candidates are not ranked, and queries whose reference is
    missing have no list.
    """
    prepared = prepare_scorer(
        paths, images_of(benchmark), device, callback, allow_missing=allow_missing
    )
    available = prepared.available
    ranked_benchmark = restrict(benchmark, available, paths.required("images"))
    answers, scores = {}, {}
    for part in ranked_benchmark.parts:
        answers[part.name], scores[part.name] = rank_part(
            part, prepared, depth, without_reference=not benchmark.keeps_reference
        )
    missing = prepared.missing_json()
    if missing:
        missing["queries"] = sum(
            query.reference not in available for part in benchmark.parts for query in part.queries
        )
    return ScorerLists(
        benchmark=ranked_benchmark,
        answers=answers,
        scores=scores,
        missing=missing,
        notes=prepared.missing_notes(),
        loaded=prepared.loaded,
    )


def images_of(benchmark: Benchmark) -> frozenset[str]:
    """Every image that ranking needs; refuse a benchmark whose candidates are not known."""
    wanted: set[str] = set()
    for part in benchmark.parts:
        if part.corpus.images is None:
            raise UnreadableInput(
                f"{benchmark.name} {benchmark.split}",
                f"the candidates of {part.name} are not known",
                "put the dataset's list of images into the folder, or evaluate a --run",
            )
        wanted.update(part.corpus.images)
        for query in part.queries:
            wanted.update((query.reference, *query.subset))
    return frozenset(wanted)


def restrict(benchmark: Benchmark, available: Collection[str], folder: Path) -> Benchmark:
    """The benchmark with the available candidates, in subsets too; it keeps all queries.

    Refuse a part without candidates, or without any query with its reference.
    """
    parts = []
    for part in benchmark.parts:
        candidates = part.corpus.images or ()
        images = tuple(image for image in candidates if image in available)
        if not images or not any(query.reference in available for query in part.queries):
            raise UnreadableInput(
                str(folder),
                f"holds no candidate of {part.name}, or no reference",
                "name the folder of the images with --images",
            )
        queries = tuple(
            replace(query, subset=tuple(image for image in query.subset if image in available))
            for query in part.queries
        )
        corpus = replace(part.corpus, images=images, n_missing=len(candidates) - len(images))
        parts.append(replace(part, queries=queries, corpus=corpus))
    return replace(benchmark, parts=tuple(parts))


def rank_part(
    part: Part,
    prepared: PreparedScorer,
    depth: int,
    *,
    without_reference: bool,
    composing: Inference | None = None,
) -> tuple[SystemLists, dict[str, tuple[float, ...]]]:
    """The lists of the queries whose reference is available, and the lists' scores by query.

    `composing` makes the query vectors instead of `prepared.inference`.
    """
    images = part.corpus.images or ()
    column = indexed(images)
    queries = [query for query in part.queries if query.reference in prepared.available]
    vectors = query_vectors(queries, composing or prepared.inference)  # [Q, D]
    excluded = None
    if without_reference:
        references = [[query.reference] for query in queries]
        excluded = columns_of(references, column, vectors)[:, 0]  # [Q]
    top = TopK(len(queries), depth, excluded)
    members = SelectedScores(columns_of([query.subset for query in queries], column, vectors))
    gallery = prepared.inference.galleries(images)
    for block in scored_blocks(vectors, gallery, prepared.loaded.recipe.pooling):
        top.add(block)
        members.add(block)
    ranked = top.ranked()
    lists, scores, subsets = {}, {}, {}
    for query, columns, list_scores, member_scores in zip(
        queries,
        ranked.columns.tolist(),
        ranked.scores.tolist(),
        members.scores.tolist(),
        strict=True,
    ):
        lists[query.query_id] = tuple(images[i] for i in columns)
        scores[query.query_id] = tuple(list_scores)
        if query.subset:
            subsets[query.query_id] = rank_members(query, member_scores, column)
    return SystemLists(lists, subsets), scores


def query_vectors(queries: Sequence[Query], inference: Inference) -> torch.Tensor:
    """Compose queries: [Q, D]."""
    references = [query.reference for query in queries]
    return inference.queries(references, [query.text for query in queries])


def columns_of(
    images: Sequence[Sequence[str]], column: Mapping[str, int], like: torch.Tensor
) -> torch.Tensor:
    """The columns of each row's images: [Q, M] int64, -1 for none, on the device of `like`."""
    width = max(map(len, images), default=0)
    rows = [[column.get(image, -1) for image in row] + [-1] * (width - len(row)) for row in images]
    return torch.tensor(rows, dtype=torch.int64, device=like.device).view(len(rows), width)


def rank_members(
    query: Query, scores: Sequence[float], column: Mapping[str, int]
) -> tuple[str, ...]:
    """The images of the subset that are in the corpus, best first; equal scores in its order."""
    scored = dict(zip(query.subset, scores, strict=False))
    members = [image for image in scored if image in column]
    return tuple(sorted(members, key=lambda image: (-scored[image], column[image])))


def write_run(path: Path, ranked: ScorerLists, system: str) -> None:
    """Write the lists with their scores as JSONL, which `hsfiq import runs` reads."""
    lines = [
        line
        for name, scores in ranked.scores.items()
        for line in run_lines(ranked.answers[name], scores, system)
    ]
    with explained_write_errors(path, "name another with --out"):
        write_whole(path, "".join(lines).encode())


def run_lines(
    answers: SystemLists, scores: Mapping[str, Sequence[float]], system: str
) -> list[str]:
    """A line of JSON for each list, with its scores."""
    return [
        json.dumps(
            {"query_id": query_id, "images": images, "scores": scores[query_id], "system": system},
            ensure_ascii=False,
        )
        + "\n"
        for query_id, images in answers.lists.items()
    ]
