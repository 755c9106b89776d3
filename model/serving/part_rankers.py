"""Rankers for the parts of a benchmark, each of which is searched in its own corpus."""

from __future__ import annotations

import torch

from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.evaluation.rankings.prepared_scorer import prepare_scorer
from hsfiq.model.evaluation.rankings.scorer_lists import images_of
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.serving.ranker import CorpusRanker
from hsfiq.model.training.callbacks import Callback


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
