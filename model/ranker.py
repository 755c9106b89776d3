"""Ranking images for queries by a scorer or a retrieval system, over corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from hsfiq.errors import UnreadableInput
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.folder import image_files
from hsfiq.live.protocol import (
    LONGEST_ID,
    VERSION,
    ComposedQuery,
    Corpus,
    History,
    RankedList,
    RetrieverRefused,
    Search,
    SystemDescription,
    TargetRank,
    corpus_sha256,
    is_image_id,
)
from hsfiq.model.data import distinct
from hsfiq.model.encoders.encoder import FrozenEncoder, Preprocessing
from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.evaluation.rankings import PreparedScorer, images_of, keys_of, prepare_scorer
from hsfiq.model.image_tokens import TOKENS_DTYPE
from hsfiq.model.release_scores import indexed
from hsfiq.model.scorer.inference import CHUNK, Inference, require_finite
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.scorer import relevance

# The query vector of a search, from the vectors of its turns.
#
# The mean is FISD's; Rocchio's is that of CIRCLED's builder, with its weights. It adds the vector
# of the text, which a composed query has none of: here it adds the composed vector of the turn.

TEXT, CHOSEN, OTHERS = 0.44, 0.08, -0.29
"""Rocchio's weights of a turn's query, of the image chosen for it, and of the others shown."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A turn: its composed vector, the chosen image's, and the mean of the others shown, each [D].

    `others` is None if they are unknown, as before the first turn.
    """

    composed: Tensor
    chosen: Tensor
    others: Tensor | None


def search_vector(turns: Sequence[Feedback], history: History) -> Tensor:
    """The vector of a search of at least one turn: [D], of length 1."""
    if history == "last":
        vector = turns[-1].composed
    elif history == "mean":
        vector = sum((turn.composed for turn in turns[1:]), turns[0].composed)
    else:
        vector = rocchio(turns)
    return F.normalize(vector, dim=0)


def rocchio(turns: Sequence[Feedback]) -> Tensor:
    """Each turn moves the vector towards its query and the chosen image, away from the others."""
    vector = turns[0].composed
    for turn in turns[1:]:
        vector = vector + TEXT * turn.composed + CHOSEN * turn.chosen
        if turn.others is not None:
            vector = vector + OTHERS * turn.others
        vector = F.normalize(vector, dim=0)
    return vector


# Images that a search brings along: decoded, encoded, and forgotten with its answer.

FORMATS = ("JPEG", "MPO", "PNG")
"""Pillow's names. MPO is a JPEG with a second picture, from some phones; the first is used."""


def preprocessed(where: str, search: Search, preprocessing: Preprocessing) -> dict[str, Tensor]:
    """The images' pixels, each [3, size, size]; `RetrieverRefused` for a file that is no image.

    As for the corpus, an EXIF orientation is not applied.
    """
    return {
        image_id: pixels_of(f"{where}.images.{image_id}", content, preprocessing)
        for image_id, content in search.files().items()
    }


def pixels_of(where: str, content: bytes, preprocessing: Preprocessing) -> Tensor:
    remedy = "send a complete JPEG or PNG file"
    try:
        with decoded(content) as image:
            if image.format not in FORMATS:
                raise RetrieverRefused(where, f"is a {image.format} file", remedy)
            return preprocessing(image)
    except UndecodableImage as error:
        raise RetrieverRefused(where, error.fault.why, remedy) from error


def encoded(
    pixels: Mapping[str, Tensor], encoder: FrozenEncoder, device: torch.device
) -> dict[str, Tensor]:
    """The images' tokens, each [P, W], as the feature cache would hold them.

    The cache leaves the encoder on the CPU; it goes to the device and stays there.
    """
    for module in encoder.image_modules() if pixels else ():
        module.to(device)
    with torch.inference_mode():
        return {
            image_id: encoder.image_tokens(image.unsqueeze(0).to(device))[0].to(TOKENS_DTYPE).cpu()
            for image_id, image in pixels.items()
        }


# The `Ranker` of a retrieval system or a scorer: it holds the corpus' vectors in memory.

MAX_K = 1_000
"""Images of the longest list."""

MAX_BATCH = 64
"""Searches of a request, unless the server is told otherwise."""

HISTORIES: tuple[History, ...] = get_args(History)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The images to search in: their name as a corpus, their ids in order, and their folder."""

    name: str
    image_ids: tuple[str, ...]
    folder: Path


class CorpusRanker:
    """Ranks one corpus. Threads may share it: they compute one after another.

    It keeps N x L x D numbers of 4 bytes: N images with L vectors of D numbers each.
    """

    def __init__(
        self,
        prepared: PreparedScorer,
        corpus_name: str,
        image_ids: Sequence[str],
        max_batch: int = MAX_BATCH,
    ) -> None:
        """Compute the vectors of the corpus, whose images are all available."""
        loaded = prepared.loaded
        loaded.retriever.train(mode=False)
        self._image_ids = tuple(image_ids)
        self._column = indexed(self._image_ids)
        self._inference = prepared.inference
        self._encoder = loaded.frozen_encoder
        self._pooling = loaded.recipe.pooling
        self._gallery = torch.cat(list(prepared.inference.galleries(self._image_ids)))  # [N, L, D]
        self._lock = Lock()
        self._system = SystemDescription(
            protocol=VERSION,
            name=loaded.system,
            version=loaded.checkpoint.sha256,
            corpus=Corpus(
                name=corpus_name,
                size=len(self._image_ids),
                sha256=corpus_sha256(self._image_ids),
            ),
            histories=HISTORIES,
            max_k=min(len(self._image_ids), MAX_K),
            max_batch=max_batch,
            accepts_images=True,
        )

    def system(self) -> SystemDescription:
        return self._system

    def corpus(self) -> tuple[str, ...]:
        return self._image_ids

    def rank(self, searches: Sequence[Search], history: History, k: int) -> list[RankedList]:
        if k > self._system.max_k:
            raise RetrieverRefused("k", f"{k} is more than {self._system.max_k}", "ask for fewer")
        lists: list[RankedList] = []
        size = self._system.max_batch
        for start in range(0, len(searches), size):
            lists += self._rank_batch(searches[start : start + size], start, history, k)
        return lists

    def compose(self, queries: Sequence[ComposedQuery]) -> list[tuple[float, ...]]:
        """The composed vector of each query, of length 1."""
        for place, query in enumerate(queries):
            self._require(f"queries.{place}.reference", query.reference)
        with self._lock:
            vectors = self._inference.queries(
                [query.reference for query in queries], [query.text for query in queries]
            )  # [Q, D]
        return [tuple(vector) for vector in vectors.tolist()]

    def _rank_batch(
        self, searches: Sequence[Search], first: int, history: History, k: int
    ) -> list[RankedList]:
        for place, search in enumerate(searches, first):
            self._check(f"searches.{place}", search)
        pixels = [
            preprocessed(f"searches.{place}", search, self._encoder.preprocessing)
            for place, search in enumerate(searches, first)
        ]
        with self._lock:
            vectors = self._search_vectors(searches, pixels, history)  # [S, D]
            scores = relevance(vectors, self._gallery, self._pooling, chunk=CHUNK)  # [S, N]
        require_finite(scores)
        columns = torch.arange(scores.shape[1], device=scores.device)  # [N]
        excluded = torch.zeros_like(scores, dtype=torch.bool)  # [S, N]
        for row, search in enumerate(searches):
            excluded[row, self._columns(search.exclude)] = True
        keys = keys_of(scores.masked_fill(excluded, -torch.inf), columns)  # [S, N]
        best = keys.topk(k, dim=1).indices  # [S, k]
        n_candidates = (~excluded).sum(dim=1).tolist()
        return [
            RankedList(
                image_ids=tuple(self._image_ids[column] for column in row_best[:n].tolist()),
                scores=tuple(row_scores[row_best[:n]].tolist()),
                targets=self._target_ranks(search.targets, row_scores, ~row_excluded),
            )
            for search, row_scores, row_best, row_excluded, n in zip(
                searches, scores, best, excluded, n_candidates, strict=True
            )
        ]

    def _target_ranks(
        self, targets: Sequence[str], scores: Tensor, is_candidate: Tensor
    ) -> tuple[TargetRank, ...]:
        """The targets' places among the candidates, with scores and candidates [N]."""
        ranks = []
        for target in targets:
            column = self._column[target]
            same = (scores == scores[column]) & is_candidate
            n_above = ((scores > scores[column]) & is_candidate).sum() + same[:column].sum()
            ranks.append(
                TargetRank(image_id=target, rank=int(n_above) + 1, ties=int(same.sum()) - 1)
            )
        return tuple(ranks)

    def _search_vectors(
        self, searches: Sequence[Search], pixels: Sequence[Mapping[str, Tensor]], history: History
    ) -> Tensor:
        """The vectors of the searches: [S, D]. Each has the pixels of the images that it brings."""
        if not any(pixels):
            return self._vectors(searches, history, self._inference, {})
        return torch.cat(
            [
                self._vectors_with_images(search, own, history)
                for search, own in zip(searches, pixels, strict=True)
            ]
        )

    def _vectors_with_images(
        self, search: Search, pixels: Mapping[str, Tensor], history: History
    ) -> Tensor:
        """The vector of one search that brings images along; their ids are its own: [1, D]."""
        tokens = encoded(pixels, self._encoder, self._gallery.device)
        inference = self._inference.with_more(tokens)
        galleries = inference.gallery(list(tokens)) if tokens else ()  # [n, L, D]
        own = dict(zip(tokens, map(image_vector, galleries), strict=True))
        return self._vectors([search], history, inference, own)

    def _vectors(
        self,
        searches: Sequence[Search],
        history: History,
        inference: Inference,
        own: Mapping[str, Tensor],
    ) -> Tensor:
        """The vectors of searches: [S, D]. Queries that they share are composed once.

        `own` are vectors [D] of images that are not in the corpus.
        """
        asked = [search.turns if history != "last" else search.turns[-1:] for search in searches]
        pairs = dict.fromkeys((turn.reference, turn.text) for turns in asked for turn in turns)
        vectors = inference.queries(
            [reference for reference, _ in pairs], [text for _, text in pairs]
        )  # [Q, D]
        composed = dict(zip(pairs, vectors, strict=True))
        return torch.stack(
            [
                search_vector(
                    [
                        Feedback(
                            composed[turn.reference, turn.text],
                            own[turn.reference]
                            if turn.reference in own
                            else self._image_vector(turn.reference),
                            self._mean_of_others(before.shown if before else (), turn.reference),
                        )
                        for before, turn in zip((None, *turns), turns, strict=False)
                    ],
                    history,
                )
                for turns in asked
            ]
        )

    def _image_vector(self, image_id: str) -> Tensor:
        return image_vector(self._gallery[self._column[image_id]])

    def _mean_of_others(self, shown: Sequence[str], chosen: str) -> Tensor | None:
        others = [self._image_vector(image_id) for image_id in shown if image_id != chosen]
        return torch.stack(others).mean(dim=0) if others else None

    def _columns(self, image_ids: Sequence[str]) -> list[int]:
        """The columns of the images that are in the corpus."""
        return [self._column[image_id] for image_id in image_ids if image_id in self._column]

    def _check(self, where: str, search: Search) -> None:
        for image_id in search.images:
            if image_id in self._column:
                raise RetrieverRefused(
                    f"{where}.images", f"{image_id!r} is in the corpus", "give the image another id"
                )
        for place, turn in enumerate(search.turns):
            if turn.reference not in search.images:
                self._require(f"{where}.turns.{place}.reference", turn.reference)
            for image_id in turn.shown:
                self._require(f"{where}.turns.{place}.shown", image_id)
        for image_id in search.targets:
            self._require(f"{where}.targets", image_id)
            if image_id in search.exclude:
                raise RetrieverRefused(
                    f"{where}.targets",
                    f"{image_id!r} is both a target and excluded",
                    "remove it from one of them",
                )

    def _require(self, where: str, image_id: str) -> None:
        if image_id not in self._column:
            raise RetrieverRefused(
                where,
                f"{image_id!r} is not one of the {len(self._image_ids):,} images",
                "GET /v1/corpus lists them",
            )


def image_vector(vectors: Tensor) -> Tensor:
    """One vector of an image, [D], of length 1: the mean of its L, [L, D]."""
    return F.normalize(vectors.mean(dim=0), dim=0)


def load_ranker(
    paths: ScorerPaths,
    candidates: Candidates,
    device: torch.device,
    callback: Callback,
    max_batch: int = MAX_BATCH,
) -> tuple[CorpusRanker, list[str]]:
    """A checkpoint's ranker over the candidates that can be read, and the others' ids.

    Raises:
        UnreadableInput: a checkpoint that cannot be used, or no image that can be read.
    """
    prepared = prepare_scorer(paths, candidates.image_ids, device, callback, allow_missing=True)
    available = tuple(image for image in candidates.image_ids if image in prepared.available)
    if not available:
        raise UnreadableInput(
            str(candidates.folder),
            f"holds none of the {len(candidates.image_ids):,} images, or none that can be read",
            "name the folder of the images with --images",
        )
    return CorpusRanker(prepared, candidates.name, available, max_batch), prepared.missing


# Which images a live retriever searches in.

Rule = Literal["split", "union", "all"]
"""The images of a dataset's split, its references and targets alone, or every image."""


def folder_candidates(folder: Path, *, by_path: bool = False) -> Candidates:
    """Every image file below a folder, by its name without extension.

    With `by_path`, by its path below the folder, as own data names images.
    """
    files = image_files(folder)
    names = (path.relative_to(folder).as_posix() if by_path else path.stem for path in files)
    image_ids = tuple(distinct(names))
    if not image_ids:
        raise UnreadableInput(str(folder), "holds no images", "name another with --images")
    if wrong := next((each for each in image_ids if not is_image_id(each)), None):
        what = f"the image {wrong[:100]!r} has a name that is not allowed in answers"
        remedy = f"use {LONGEST_ID} characters or fewer, without control characters"
        raise UnreadableInput(str(folder), what, remedy)
    return Candidates(folder.name, image_ids, folder)


def benchmark_candidates(benchmark: Benchmark, rule: Rule, folder: Path) -> Candidates:
    """The candidates of all parts of a benchmark; with `union`, the references and targets."""
    images = distinct(image for part in benchmark.parts for image in part.corpus.images or ())
    if rule == "union":
        named = {
            image
            for part in benchmark.parts
            for query in part.queries
            for image in (query.reference, query.target, *query.truths)
        }
        images = tuple(image for image in images if image in named)
    if not images:
        raise UnreadableInput(
            f"{benchmark.name} {benchmark.split}", "its candidates are unknown", "--corpus all"
        )
    part = rule if rule == "all" else f"{benchmark.split} {rule}"
    return Candidates(f"{benchmark.name} {part}", images, folder)


# Rankers for the parts of a benchmark; each part is searched in its own corpus.


def part_rankers(
    paths: ScorerPaths, benchmark: Benchmark, device: torch.device, callback: Callback
) -> list[CorpusRanker]:
    """The ranker of each part, over all of its candidates.

    Raises:
        UnreadableInput: a checkpoint that cannot be used, or an image that cannot be read.
    """
    wanted = images_of(benchmark)
    prepared = prepare_scorer(paths, wanted, device, callback, allow_missing=False)
    return [
        CorpusRanker(prepared, f"{benchmark.name} {benchmark.split} {part.name}", images)
        for part in benchmark.parts
        if (images := part.corpus.images) is not None
    ]
