"""A trained scorer answers a benchmark: checkpoint, images, tokens, ranked lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hsfiq.atomic_files import write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.data.texts import normalise
from hsfiq.model.evaluation.benchmark import Answers, Benchmark, Part, Query
from hsfiq.model.evaluation.loaded_scorer import (
    AtWork,
    missing_notes,
    said_of_missing,
    set_to_work,
)
from hsfiq.model.evaluation.ranking import Picked, TopK, scored_blocks
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.scoring.release_scores import numbered
from hsfiq.model.training.callbacks import Callback

DEPTH = 50
"""Images of a list: as many as the largest k of any benchmark."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a scorer gives to a benchmark.

    Attributes:
        benchmark: with the candidates that were really ranked.
        answers: by part, without the queries whose reference is missing.
        scores: by part and query, those of its list: pooled cosines.
        missing: how many of the images asked for, and of the queries with them; empty if none.
        notes: what a reader of the figures has to know.
        loaded: the scorer.
    """

    benchmark: Benchmark
    answers: dict[str, Answers]
    scores: dict[str, dict[str, tuple[float, ...]]]
    missing: dict[str, Any]
    notes: tuple[str, ...]
    loaded: Loaded


def answers_from_scorer(
    benchmark: Benchmark,
    paths: ScorerPaths,
    device: torch.device,
    callback: Callback,
    *,
    depth: int = DEPTH,
    allow_missing: bool = False,
) -> Retrieved:
    """Rank every part's corpus for its queries.

    Args:
        benchmark: whose corpora are known.
        paths: of the scorer's checkpoint, images, weights and cache.
        device: computes.
        callback: is told of the images encoded.
        depth: length of a list, where the corpus has as many.
        allow_missing: whether to go without the images that are missing or unreadable. Missing
            candidates are not ranked then, and queries whose reference is missing have no list.

    Raises:
        UnreadableInput: no checkpoint, no images, missing ones, a corpus that is not known.
        Diverged: the scorer gives numbers that are none.
    """
    at_work = set_to_work(
        paths, images_of(benchmark), device, callback, allow_missing=allow_missing
    )
    present = only_present(benchmark, at_work.there, paths.required("images"))
    answers, scores = {}, {}
    for part in present.parts:
        answers[part.name], scores[part.name] = retrieve(
            part, at_work, depth, without_reference=not benchmark.keeps_reference
        )
    lost = sum(it.reference not in at_work.there for part in benchmark.parts for it in part.queries)
    missing = said_of_missing(at_work)
    return Retrieved(
        benchmark=present,
        answers=answers,
        scores=scores,
        missing=missing | ({"queries": lost} if missing else {}),
        notes=missing_notes(at_work),
        loaded=at_work.loaded,
    )


def images_of(benchmark: Benchmark) -> frozenset[str]:
    """Every image that ranking needs.

    Raises:
        UnreadableInput: the folder does not hold the list of the candidates.
    """
    wanted: set[str] = set()
    for part in benchmark.parts:
        if part.corpus.images is None:
            raise UnreadableInput(
                f"{benchmark.name} {benchmark.split}",
                f"the candidates of {part.name} are not known",
                "put the dataset's list of images into the folder, or evaluate a --run",
            )
        wanted.update(part.corpus.images, (it.reference for it in part.queries))
        wanted.update(image for it in part.queries for image in it.subset)
    return frozenset(wanted)


def only_present(benchmark: Benchmark, there: Collection[str], folder: Path) -> Benchmark:
    """The benchmark with the candidates that are there, subsets included; its queries stay.

    Raises:
        UnreadableInput: a part has no candidate left, or no query with its reference.
    """
    parts = []
    for part in benchmark.parts:
        images = tuple(it for it in part.corpus.images or () if it in there)
        if not images or not any(it.reference in there for it in part.queries):
            raise UnreadableInput(
                str(folder),
                f"holds no candidate of {part.name}, or no reference",
                "name the images' folder with --images",
            )
        queries = tuple(
            replace(it, subset=tuple(image for image in it.subset if image in there))
            for it in part.queries
        )
        n_missing = len(part.corpus.images or ()) - len(images)
        corpus = replace(part.corpus, images=images, n_missing=n_missing)
        parts.append(replace(part, queries=queries, corpus=corpus))
    return replace(benchmark, parts=tuple(parts))


def retrieve(
    part: Part, at_work: AtWork, depth: int, *, without_reference: bool
) -> tuple[Answers, dict[str, tuple[float, ...]]]:
    """Rank one corpus for the queries whose reference is there.

    Beside the lists there are a chunk of the corpus and its scores (`model.evaluation.ranking`).

    Args:
        part: all of whose candidates are there.
        at_work: the scorer.
        depth: length of a list.
        without_reference: whether the reference is no candidate.

    Returns:
        The lists, of the subsets too, and the lists' scores by query.

    Raises:
        UnreadableInput: a reference that is to be taken out of the corpus is not in it.
    """
    images = part.corpus.images or ()
    column = numbered(images)
    queries = [it for it in part.queries if it.reference in at_work.there]
    vectors = vectors_of(queries, at_work.inference)  # [Q, D]
    excluded = None
    if without_reference:
        excluded = columns_of([[it.reference] for it in queries], column, vectors)[:, 0]  # [Q]
    top = TopK(len(queries), depth, excluded)
    members = Picked(columns_of([it.subset for it in queries], column, vectors))
    for block in scored_blocks(
        vectors, at_work.inference.galleries(images), at_work.loaded.recipe.pooling
    ):
        top.add(block)
        members.add(block)
    ranked = top.ranked()
    rows = zip(queries, ranked.columns.tolist(), ranked.scores.tolist(), strict=True)
    lists, scores = {}, {}
    for it, places, values in rows:
        lists[it.query_id] = tuple(images[place] for place in places)
        scores[it.query_id] = tuple(values)
    subsets = {
        it.query_id: ranked_members(it, values, column)
        for it, values in zip(queries, members.scores.tolist(), strict=True)
        if it.subset
    }
    return Answers(lists, subsets), scores


def vectors_of(queries: Sequence[Query], inference: Inference) -> torch.Tensor:
    """Compose queries: [Q, D]."""
    return inference.queries(
        [it.reference for it in queries], [normalise(it.text) for it in queries]
    )


def columns_of(
    images: Sequence[Sequence[str]], column: Mapping[str, int], like: torch.Tensor
) -> torch.Tensor:
    """The columns of each row's images: [Q, M] int64, -1 for none, where `like` lies."""
    width = max(map(len, images), default=0)
    rows = [[column.get(image, -1) for image in row] + [-1] * (width - len(row)) for row in images]
    return torch.tensor(rows, dtype=torch.int64, device=like.device).view(len(rows), width)


def ranked_members(
    query: Query, scores: Sequence[float], column: Mapping[str, int]
) -> tuple[str, ...]:
    """The subset's images that are in the corpus, best first, as the corpus itself is ranked."""
    scored = dict(zip(query.subset, scores, strict=False))
    return tuple(
        sorted((it for it in scored if it in column), key=lambda it: (-scored[it], column[it]))
    )


def write_run(path: Path, retrieved: Retrieved, system: str) -> None:
    """Write the lists with their scores as JSONL, which `hsfiq import runs` reads.

    Raises:
        UnreadableInput: the file cannot be written.
    """
    lines = [
        json.dumps(
            {"query_id": query_id, "images": images, "scores": scores[query_id], "system": system},
            ensure_ascii=False,
        )
        + "\n"
        for name, scores in retrieved.scores.items()
        for query_id, images in retrieved.answers[name].lists.items()
    ]
    try:
        write_whole(path, "".join(lines).encode())
    except OSError as error:
        raise UnreadableInput(
            str(path), f"cannot be written ({error.strerror})", "name another with --out"
        ) from error
