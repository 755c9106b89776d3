"""Writing the ranked lists of a retrieval system or a scorer for a benchmark.

Each part of a benchmark is written when it is complete, so that a run which was stopped goes on
with the next one; images' tokens are in the feature cache at once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation import rankings
from hsfiq.model.evaluation.benchmarks import Benchmark, Part
from hsfiq.model.evaluation.index import rank_part_by_index
from hsfiq.model.scorer.inference import CHUNK
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths

Halves = Literal["both", "text", "image"]
"""The parts of a query: with `text` every reference is a blank image, with `image` every text
is empty."""

BLANK = 128
"""The grey of a blank image, out of 255."""


@dataclass(frozen=True, slots=True)
class Request:
    """The lists to rank, and the method.

    Attributes:
        name: of the system, as the run names it; None for the checkpoint's own.
        depth: images of each list.
        allow_missing: whether to go on without missing images and queries without a reference.
        probes: groups of an index to search, instead of all images.
    """

    benchmark: Benchmark
    paths: ScorerPaths
    device: torch.device
    out: Path
    name: str | None = None
    depth: int = 50
    halves: Halves = "both"
    allow_missing: bool = False
    probes: int | None = None


def retrieve(request: Request, callback: Callback) -> dict[str, Any]:
    """Rank every part, write the run, and return what was written.

    Raises:
        UnreadableInput: a checkpoint of another system, images that are missing and not allowed to
            be, or parts of another run beside the output.
    """
    if request.out.exists():
        raise UnreadableInput(str(request.out), "exists already", "name another file with --out")
    wanted = rankings.images_of(request.benchmark)
    prepared = rankings.prepare_scorer(
        request.paths, wanted, request.device, callback, allow_missing=request.allow_missing
    )
    system = prepared.loaded.system
    if request.name not in (None, system):
        raise UnreadableInput(
            str(prepared.loaded.checkpoint.path),
            f"holds {system}, not {request.name}",
            f"leave out --system, or name {system}",
        )
    benchmark = rankings.restrict(
        request.benchmark, prepared.available, request.paths.required("images")
    )
    parts = PartFiles.open(request, benchmark, prepared)
    parts.write_missing_parts(request, benchmark, prepared, callback)
    recalls = parts.recalls() if request.probes else {}
    n_lists = parts.join(request.out)
    return {
        "run": str(request.out),
        "system": system,
        "checkpoint_sha256": prepared.loaded.checkpoint.sha256,
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "corpora": {part.name: len(part.corpus.images or ()) for part in benchmark.parts},
        "reference_is_candidate": benchmark.keeps_reference,
        "query": request.halves,
        "k": request.depth,
        "n_lists": n_lists,
        **index_json(request, recalls),
        "missing": prepared.missing_json(),
        "notes": list(prepared.missing_notes()),
        "memory_mb": memory_mb(benchmark, request, prepared),
    }


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The folder, beside the run, that holds the parts which are complete."""

    folder: Path
    names: tuple[str, ...]

    @classmethod
    def open(
        cls, request: Request, benchmark: Benchmark, prepared: rankings.PreparedScorer
    ) -> PartFiles:
        """Make the folder, or take the one of a run that was stopped; refuse another run's."""
        folder = request.out.with_name(f".{request.out.name}.parts")
        identity = {
            "checkpoint": prepared.loaded.checkpoint.sha256,
            "benchmark": sha256(repr(benchmark).encode()).hexdigest(),
            "depth": request.depth,
            "query": request.halves,
            "probes": request.probes,
        }
        about = folder / "run.json"
        with explained_write_errors(request.out, "name another with --out"):
            folder.mkdir(exist_ok=True)
            if not about.exists():
                write_whole(about, json.dumps(identity).encode())
        if json.loads(about.read_text()) != identity:
            raise UnreadableInput(
                str(folder), "holds parts of another run", "remove it, or name another --out"
            )
        return cls(folder, tuple(part.name for part in benchmark.parts))

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def recall_path(self, name: str) -> Path:
        return self.folder / f"{name}.recall.json"

    def recalls(self) -> dict[str, Any]:
        """What an index found of each part's exact lists."""
        return {name: json.loads(self.recall_path(name).read_text()) for name in self.names}

    def write_missing_parts(
        self,
        request: Request,
        benchmark: Benchmark,
        prepared: rankings.PreparedScorer,
        callback: Callback,
    ) -> None:
        for done, part in enumerate(benchmark.parts):
            callback.ranking(done, len(benchmark.parts))
            if not self.path(part.name).is_file():
                lines, recall = ranked_lines(request, part, prepared, benchmark.keeps_reference)
                with explained_write_errors(self.folder):
                    write_whole(self.recall_path(part.name), json.dumps(recall).encode())
                    write_whole(self.path(part.name), "".join(lines).encode())
        callback.ranking(len(benchmark.parts), len(benchmark.parts))

    def join(self, out: Path) -> int:
        """Write all parts as one file and remove them; returns the number of lists."""
        content = b"".join(self.path(name).read_bytes() for name in self.names)
        with explained_write_errors(out, "name another with --out"):
            write_whole(out, content)
        shutil.rmtree(self.folder)
        return content.count(b"\n")


def ranked_lines(
    request: Request, part: Part, prepared: rankings.PreparedScorer, keeps_reference: bool
) -> tuple[list[str], dict[str, Any] | None]:
    """The lines of a run for one part, and the recall of an index, if one was searched."""
    queries = part.queries
    if request.halves == "image":
        queries = tuple(replace(query, text="") for query in queries)
    composing = prepared.inference
    if request.halves == "text":
        composing = composing.with_tokens(SameTokens(blank_tokens(prepared)))
    part = replace(part, queries=queries)
    options: Any = {"without_reference": not keeps_reference, "composing": composing}
    if request.probes is not None:
        listed = rank_part_by_index(part, prepared, request.depth, request.probes, **options)
        recall = {"recall": listed.recall, "n": listed.n_checked}
        return rankings.run_lines(listed.answers, listed.scores, prepared.loaded.system), recall
    answers, scores = rankings.rank_part(part, prepared, request.depth, **options)
    return rankings.run_lines(answers, scores, prepared.loaded.system), None


@dataclass(frozen=True, slots=True)
class SameTokens:
    """A source that gives the same tokens [P, W] for every image."""

    image: Tensor

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        return self.image.expand(len(image_ids), -1, -1)  # [B, P, W]


def blank_tokens(prepared: rankings.PreparedScorer) -> Tensor:
    """The tokens of an evenly grey image: [P, W]."""
    encoder = prepared.loaded.frozen_encoder
    size = encoder.preprocessing.size
    pixels = encoder.preprocessing(Image.new("RGB", (size, size), (BLANK, BLANK, BLANK)))
    return encoder.image_tokens(pixels.unsqueeze(0))[0]  # [P, W]


def index_json(request: Request, recalls: Mapping[str, Any]) -> dict[str, Any]:
    """The index searched instead of all images, and its mean recall of the exact lists."""
    if request.probes is None:
        return {}
    return {"index": {"probes": request.probes, "recall": dict(recalls)}}


def memory_mb(benchmark: Benchmark, request: Request, prepared: rankings.PreparedScorer) -> float:
    """A bound on what ranking holds besides the model and one batch of images, in MB.

    The best images so far of every query, the query vectors, and one chunk of the corpus with its
    scores for `QUERIES` queries; with an index, also the vectors of the corpus and of the sample.
    """
    first = next(image for part in benchmark.parts for image in part.corpus.images or ())
    n_vectors, dim = prepared.inference.gallery([first]).shape[1:]
    depth = request.depth
    n_queries = max(len(part.queries) for part in benchmark.parts)
    numbers = n_queries * (dim + 2 * depth) + CHUNK * n_vectors * (dim + rankings.QUERIES)
    numbers += 4 * rankings.QUERIES * (depth + CHUNK)
    if request.probes is not None:
        n_images = max(len(part.corpus.images or ()) for part in benchmark.parts)
        numbers += 2 * n_images * n_vectors * dim
    return round(numbers * 4 / 1e6, 1)
