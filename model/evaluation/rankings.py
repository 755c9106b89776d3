"""A scorer's ranked lists for a benchmark, and CIRQRS@k of any lists (CIRQRS section 5.4, Table 6).

CIRQRS@k of a list is the mean relevance of its first k images by the scorer (eq. 10); a system's
value is the mean over its lists. Relevance is the pooled cosine; the paper seems to print 100
times it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.data import distinct
from hsfiq.model.evaluation.benchmarks import DEPTH, Benchmark, Part, Query, SystemLists
from hsfiq.model.evaluation.metrics import Evaluation, Figure, mean_of
from hsfiq.model.recipes import Pooling
from hsfiq.model.release_scores import encode_images, image_files, indexed
from hsfiq.model.retrieval.loading import LoadedRetriever, load_retriever
from hsfiq.model.scorer.inference import Inference, require_columns, require_finite
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.scorer import relevance, scores_of_sets
from hsfiq.text import first_few

# A trained scorer loaded together with the images that an evaluation needs.
#
# A corpus without its missing images is smaller, and every figure better. So they are refused
# unless allowed; then they are counted, and so are the queries without their reference.

MAX_NAMED = 20
"""Missing images that a result names."""


@dataclass(frozen=True, slots=True)
class PreparedScorer:
    """A scorer with the tokens of the wanted images that exist and can be read."""

    loaded: LoadedRetriever
    inference: Inference
    wanted: frozenset[str]
    available: frozenset[str]

    @property
    def missing(self) -> list[str]:
        return sorted(self.wanted - self.available)

    def missing_json(self) -> dict[str, Any]:
        """The number of missing images, and the first by name; empty if none is missing."""
        if not self.missing:
            return {}
        return {
            "images": len(self.missing),
            "of": len(self.wanted),
            "names": self.missing[:MAX_NAMED],
        }

    def missing_notes(self) -> tuple[str, ...]:
        if not self.missing:
            return ()
        n = f"{len(self.missing):,} of {len(self.wanted):,}"
        named = first_few(self.missing)
        return (f"{n} images are missing or unreadable ({named}): figures are not comparable",)


def prepare_scorer(
    paths: ScorerPaths,
    wanted: Collection[str],
    device: torch.device,
    callback: Callback,
    *,
    allow_missing: bool,
) -> PreparedScorer:
    """Load a scorer and compute the tokens of images; refuse missing ones unless allowed."""
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    folder = paths.required("images")
    files = image_files(folder, wanted)
    if not allow_missing:
        refuse_missing(wanted, files, folder)
    inference, available = encode_images(loaded, files, paths.cache, device, callback)
    if not allow_missing:
        refuse_missing(wanted, available, folder)
    return PreparedScorer(loaded, inference, frozenset(wanted), frozenset(available))


def refuse_missing(wanted: Collection[str], available: Collection[str], folder: Path) -> None:
    if missing := sorted(set(wanted).difference(available)):
        raise UnreadableInput(
            str(folder),
            f"{len(missing):,} of {len(wanted):,} images are missing or unreadable"
            f" ({first_few(missing)})",
            "hsfiq images check lists all of a dataset's; --allow-missing continues without them",
        )


# Ranking a large corpus for many queries, from a stream of its projected images.
#
# Memory holds a chunk of the corpus and the k best images so far of each query, never all scores or
# all images. Images with equal scores are ranked in the order of the corpus, as
# `model.scorer.inference.target_ranks` does, so that a ranking does not depend on the chunks.

QUERIES = 512
"""Queries scored at once against a chunk."""

_LOW = 2**32 - 1
"""The lower half of a key: the largest number of images of a corpus."""


class Block(NamedTuple):
    """Scores of some queries for some images: a block of the complete matrix [Q, N]."""

    rows: slice
    first: int
    scores: Tensor
    """[b, n] of the queries `rows` and the images from `first` on."""


def scored_blocks(queries: Tensor, gallery: Iterable[Tensor], pooling: Pooling) -> Iterator[Block]:
    """Score every query against every image, by blocks; UnreadableInput if a score is not finite.

    Queries are [Q, D], on the device that computes; `gallery` is the corpus in its order, in chunks
    [n, L, D]. Each chunk gives its scores for `QUERIES` queries at a time, which takes
    n L (D + QUERIES) numbers of memory.
    """
    first = 0
    for images in gallery:
        for start in range(0, len(queries), QUERIES):
            rows = slice(start, start + QUERIES)
            scores = relevance(queries[rows], images, pooling, chunk=len(images))  # [b, n]
            require_finite(scores)
            yield Block(rows, first, scores)
        first += len(images)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Each query's best images, best first: columns of the corpus [Q, k] and scores [Q, k]."""

    columns: Tensor
    scores: Tensor


class TopK:
    """Keeps the k best images of each query, from blocks in the order of the corpus.

    It holds Q x k numbers, and b x (k + n) more while a block is added. A score and its column form
    one integer, the key. Keys are distinct, so that the result does not depend on how a device
    breaks ties.
    """

    def __init__(self, queries: int, k: int, excluded: Tensor | None = None) -> None:
        """Start without blocks; `excluded` are [Q] columns of no candidates (CIRR's references)."""
        self._k = k
        self._excluded = excluded
        self._best: list[Tensor | None] = [None] * -(-queries // QUERIES)
        self._images = 0

    def add(self, block: Block) -> None:
        scores = block.scores
        columns = torch.arange(scores.shape[1], device=scores.device) + block.first  # [n]
        if self._excluded is not None:
            own = self._excluded[block.rows].to(columns)  # [b]
            scores = scores.masked_fill(columns == own.unsqueeze(1), -torch.inf)
        self._images = block.first + len(columns)
        place = block.rows.start // QUERIES
        before = self._best[place]
        if before is None or before.shape[1] < self._k:
            keys = keys_of(scores, columns)  # [b, n]
            joined = keys if before is None else torch.cat([before, keys], dim=1)  # [b, k + n]
            self._best[place] = joined.topk(min(self._k, joined.shape[1]), dim=1).values
            return
        # An equal score does not replace one of an earlier column, so most rows need no sorting.
        has_better = scores.amax(dim=1) > scores_of(before[:, -1])  # [b]
        # A slice copies nothing.
        rows = slice(None) if has_better.all() else has_better.nonzero().squeeze(1)  # [r]
        joined = torch.cat([before[rows], keys_of(scores[rows], columns)], dim=1)  # [r, k + n]
        before[rows] = joined.topk(self._k, dim=1).values

    def ranked(self) -> Ranked:
        """The ranking of the complete corpus; refuse an excluded column that is not in it."""
        best = [keys for keys in self._best if keys is not None]
        if not best:
            return Ranked(torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0))
        keys = torch.cat(best)  # [Q, k]
        if self._excluded is not None:
            require_columns(self._excluded, self._images, "excluded image")
            keys = keys[:, : self._images - 1]  # the excluded image comes last
        return Ranked(_LOW - (keys & _LOW), scores_of(keys))


def keys_of(scores: Tensor, columns: Tensor) -> Tensor:
    """Integers in the order of the scores; for equal scores, in falling order of the columns.

    Scores [b, n] float32 and columns [n] int64, below 2^32, give [b, n] int64: the bits of the
    score above those of the negated column.
    """
    bits = (scores + 0.0).view(torch.int32)  # -0 becomes 0
    return (in_order(bits).long() << 32) | (_LOW - columns)


def scores_of(keys: Tensor) -> Tensor:
    return in_order((keys >> 32).int()).view(torch.float32)


def in_order(bits: Tensor) -> Tensor:
    """The bits of floats as int32 of the same order; its own inverse."""
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


class SelectedScores:
    """Keeps the scores of a few selected images of each query."""

    def __init__(self, columns: Tensor) -> None:
        """Select [Q, M] columns; a negative one stands for no image."""
        self._columns = columns
        self.scores = torch.full(columns.shape, torch.nan, device=columns.device)
        """[Q, M], NaN for an image that was in no block."""

    def add(self, block: Block) -> None:
        places = self._columns[block.rows] - block.first  # [b, M]
        inside = (places >= 0) & (places < block.scores.shape[1])
        scores = block.scores.gather(1, places.clamp(0, block.scores.shape[1] - 1))  # [b, M]
        self.scores[block.rows] = torch.where(inside, scores, self.scores[block.rows])


# A trained scorer's own ranked lists for a benchmark.


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
                f"the candidates of {part.name} are unknown",
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
                f"lacks all candidates or all references of {part.name}",
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


KS = (10, 50)
"""Those of Table 6."""


@dataclass(frozen=True, slots=True)
class CirqrsAt:
    """CIRQRS@k of one part's lists: the mean of `by_query`.

    These are the queries with a list whose first k images, and whose reference, are available.
    """

    figure: Figure
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
        return dict.fromkeys(ks, CirqrsAt(Figure(None, "no list has an available image")))
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
        name: {f"cirqrs@{k}": at.figure for k, at in values.items()}
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
        f"{part.name}: cirqrs@{k} is over {len(at.by_query):,} of {len(part.queries):,} queries; "
        "the remaining queries have no list or missing images"
        for part in benchmark.parts
        for k, at in by_part[part.name].items()
        if at.figure.value is not None and len(at.by_query) < len(part.queries)
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
        return CirqrsAt(Figure(None, reason))
    means = scores_of_sets(scores[:, :k])  # [Q], NaN if an image is missing
    known = {name: mean for name, mean in zip(ids, means.tolist(), strict=True) if not isnan(mean)}
    if not known:
        return CirqrsAt(Figure(None, f"no list has all its first {k} images"))
    return CirqrsAt(Figure(fmean(known.values())), known)
