"""The negatives of a period of epochs: drawn for every query when the sets are (re)defined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.data.texts import mining_text
from hsfiq.model.data.triplets import TrainingData, rows_by_pool
from hsfiq.model.negatives.hardness import COLUMNS, Hardness, summary
from hsfiq.model.negatives.mining import Drawn, draw_from_corpus, draw_negatives
from hsfiq.model.negatives.rules import NegativeRule
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.values import SIZED, UNSCORED
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.inference import Inference

CHUNK = 512
"""Queries, and images, scored at a time."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition of all queries' negative sets, before an epoch, and the drawn negatives."""

    epoch: int
    rule: str
    columns: Tensor
    """[Q, T] int32: a negative for each query and each of the T epochs of the period, as a column
    of the query's pool."""
    sizes: Tensor  # [Q] int32, of the sets
    n_fell_back: int
    """Queries for which the strategy gave no set."""
    hardness: Hardness | None = None
    """None of the whole pool, for which nothing is scored."""

    def tensors(self) -> dict[str, Tensor]:
        return {"negatives.columns": self.columns, "negatives.sizes": self.sizes}

    def to_json(self) -> dict[str, Any]:
        """The line of the run's history: how large the sets were (QuRe Figure 5)."""
        sizes = self.sizes.double()
        return {
            "epoch": self.epoch,
            "rule": self.rule,
            "mean_size": sizes.mean().item(),
            "median_size": sizes.median().item(),
            "smallest": int(sizes.min()),
            "largest": int(sizes.max()),
            "n_queries": len(sizes),
            "n_fell_back": self.n_fell_back,
            "hardness": None if self.hardness is None else asdict(self.hardness),
        }


def from_tensors(tensors: Mapping[str, Tensor], line: Mapping[str, Any]) -> Definition:
    """The definition that a checkpoint kept: its tensors and the history's line."""
    hardness = line.get("hardness")  # earlier versions did not measure it
    return Definition(
        epoch=line["epoch"],
        rule=line["rule"],
        columns=tensors["negatives.columns"],
        sizes=tensors["negatives.sizes"],
        n_fell_back=line["n_fell_back"],
        hardness=None if hardness is None else Hardness(**hardness),
    )


def rule_at(recipe: Recipe, epoch: int) -> NegativeRule:
    """The rule of an epoch: the whole pool in the first period, then the strategy's."""
    n_definitions = sum(defined <= epoch for defined in recipe.definitions)
    if n_definitions == 0:
        return NegativeRule("in-batch" if recipe.strategy == "in-batch" else "corpus")
    rule = NegativeRule(
        recipe.strategy,
        k=recipe.n_neg if recipe.strategy in SIZED else None,
        threshold=recipe.threshold if recipe.strategy == "qure-code" else None,
    )
    return rule.redefined(n_definitions - 1)


def defined_at(recipe: Recipe, epoch: int) -> int:
    """The epoch before which the sets that an epoch draws from were defined."""
    return epoch // recipe.period * recipe.period


def define(
    data: TrainingData,
    recipe: Recipe,
    epoch: int,
    inference: Inference,
    temperature: float,
    distributed: Distributed,
) -> Definition:
    """Define every query's negative set with the current scorer, and draw from it."""
    rule = rule_at(recipe, epoch)
    n, device = len(data.train), distributed.device
    period = min(recipe.period, recipe.epochs - epoch)
    draws = generator(recipe.seed, "negatives", epoch)
    uniforms = torch.rand(n, period, generator=draws)  # [Q, T]
    columns = torch.zeros(n, period, dtype=torch.int32)  # [Q, T]
    sizes = torch.zeros(n, dtype=torch.int32)  # [Q]
    fell_back = torch.zeros(n, dtype=torch.int32)  # [Q]
    hardness = torch.zeros(n, len(COLUMNS))  # [Q, 5]
    for pool, pool_rows in rows_by_pool(data.train).items():
        rows = torch.tensor(pool_rows)  # [q]
        uniform = uniforms[distributed.share(rows)]
        drawn = draw(
            data, pool, pool_rows, rule, uniform, recipe, inference, temperature, distributed
        )
        for whole, part in (
            (columns, drawn.columns),
            (sizes, drawn.sizes),
            (fell_back, drawn.fell_back.int()),
            (hardness, drawn.hardness),
        ):
            if part is not None:
                whole[rows] = distributed.gather(part.to(device), len(rows)).cpu()
    is_scored = rule.strategy not in UNSCORED
    return Definition(
        epoch,
        str(rule),
        columns,
        sizes,
        int(fell_back.sum()),
        summary(hardness) if is_scored else None,
    )


def draw(
    data: TrainingData,
    pool: str,
    rows: list[int],
    rule: NegativeRule,
    uniforms: Tensor,
    recipe: Recipe,
    inference: Inference,
    temperature: float,
    distributed: Distributed,
) -> Drawn:
    """Draw negatives for this process's share of a pool's queries; `uniforms` are the share's."""
    images = data.pools[pool]
    column = {image: i for i, image in enumerate(images)}
    examples = [data.train[row] for row in rows]
    targets = torch.tensor(
        [column[example.target] for example in examples], device=distributed.device
    )  # [q]
    if rule.strategy in UNSCORED:
        return draw_from_corpus(len(images), distributed.share(targets), uniforms)
    queries = inference.queries(
        [example.reference for example in examples],
        [mining_text(example.captions) for example in examples],
    )  # [q, D]
    return draw_negatives(
        distributed.share(queries),
        inference.gallery(images),  # [N, L, D]
        distributed.share(targets),
        rule,
        uniforms,
        recipe.pooling,
        chunk=CHUNK,
        temperature=temperature,
    )
