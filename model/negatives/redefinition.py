"""The negatives of a period of epochs: drawn for every query when the sets are defined anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.data.texts import mining_text, normalise
from hsfiq.model.data.triplets import Example, TrainingData
from hsfiq.model.negatives.mining import draw_negatives
from hsfiq.model.negatives.rules import NegativeRule
from hsfiq.model.recipes.recipe import SIZED, Recipe
from hsfiq.model.runtime.distributed import World
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.inference import Inference

CHUNK = 512
"""Queries, and images, scored at a time."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition of all queries' negative sets, and what was drawn from them.

    Attributes:
        epoch: before which the sets were defined.
        rule: in words.
        columns: [Q, T] int32: a negative for each query and each of the T epochs that it is for, as
            a column of the query's pool.
        sizes: [Q] int32, of the sets.
        n_fell_back: queries for which the strategy found no set.
    """

    epoch: int
    rule: str
    columns: Tensor
    sizes: Tensor
    n_fell_back: int

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of it; `from_tensors` takes it up with the history's line."""
        return {"negatives.columns": self.columns, "negatives.sizes": self.sizes}

    def to_json(self) -> dict[str, Any]:
        """The history's line of it: how large the sets were (QuRe Figure 5)."""
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
        }


def from_tensors(tensors: Mapping[str, Tensor], line: Mapping[str, Any]) -> Definition:
    """The definition that a checkpoint kept."""
    return Definition(
        epoch=line["epoch"],
        rule=line["rule"],
        columns=tensors["negatives.columns"],
        sizes=tensors["negatives.sizes"],
        n_fell_back=line["n_fell_back"],
    )


def rule_at(recipe: Recipe, epoch: int) -> NegativeRule:
    """The rule in force in an epoch: the whole pool in the first period, then the strategy's."""
    times = sum(defined <= epoch for defined in recipe.definitions)
    if times == 0:
        return NegativeRule("corpus")
    rule = NegativeRule(
        recipe.strategy,
        k=recipe.n_neg if recipe.strategy in SIZED else None,
        threshold=recipe.threshold if recipe.strategy == "qure-code" else None,
    )
    return rule.redefined(times - 1)


def defined_at(recipe: Recipe, epoch: int) -> int:
    """The epoch before which the sets that an epoch draws from were defined."""
    return epoch // recipe.period * recipe.period


def define(
    data: TrainingData, recipe: Recipe, epoch: int, inference: Inference, world: World
) -> Definition:
    """Define every query's negative set with the scorer as it stands, and draw from it.

    Raises:
        UnreadableInput: the scorer gives scores that are no numbers.
    """
    rule = rule_at(recipe, epoch)
    uniforms = torch.rand(
        len(data.train),
        min(recipe.period, recipe.epochs - epoch),
        generator=generator(recipe.seed, "negatives", epoch),
    )  # [Q, T]
    columns = torch.zeros_like(uniforms, dtype=torch.int32)  # [Q, T]
    sizes = torch.zeros(len(data.train), dtype=torch.int32)  # [Q]
    fell_back = torch.zeros(len(data.train), dtype=torch.int32)  # [Q]
    for pool, places in by_pool(data.train).items():
        mine = world.share(places)
        drawn = draw_negatives(
            *_encoded(data, pool, places, rule, inference, world),
            rule=rule,
            uniforms=uniforms[mine],
            pooling=recipe.pooling,
            chunk=CHUNK,
        )
        n = len(places)
        columns[places] = world.together(drawn.columns.to(world.device), n).cpu()
        sizes[places] = world.together(drawn.sizes.to(world.device), n).cpu()
        fell_back[places] = world.together(drawn.fell_back.int().to(world.device), n).cpu()
    return Definition(epoch, str(rule), columns, sizes, int(fell_back.sum()))


def _encoded(
    data: TrainingData,
    pool: str,
    places: Tensor,
    rule: NegativeRule,
    inference: Inference,
    world: World,
) -> tuple[Tensor, Tensor, Tensor]:
    """This process's queries, the whole pool and the queries' targets, as mining takes them."""
    images = data.pools[pool]
    column = {image: i for i, image in enumerate(images)}
    examples = [data.train[i] for i in places.tolist()]
    targets = torch.tensor([column[it.target] for it in examples], device=world.device)
    if rule.strategy == "corpus":  # nothing is scored
        nothing = torch.empty(len(world.share(targets)), 0, device=world.device)
        gallery = torch.empty(len(images), 0, 0, device=world.device)
        return nothing, gallery, world.share(targets)
    queries = inference.queries(
        [it.reference for it in examples], [normalise(mining_text(it.captions)) for it in examples]
    )
    return world.share(queries), inference.gallery(images), world.share(targets)


def by_pool(examples: Sequence[Example]) -> dict[str, Tensor]:
    """The places of the examples of each pool."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        places[example.pool].append(place)
    return {pool: torch.tensor(those) for pool, those in places.items()}
