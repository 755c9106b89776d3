"""The negatives of both papers: how their sets are defined, mined and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, get_args

import numpy as np
import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.data import TrainingData, mining_text, rows_by_pool
from hsfiq.model.recipes import SIZED, UNSCORED, Pooling, Recipe, Strategy
from hsfiq.model.runtime import Distributed, generator
from hsfiq.model.scorer.inference import Inference, require_columns, require_finite
from hsfiq.model.scorer.scorer import relevance

# The steep score drops below the target, and the images between two of them (QuRe eq. 5-7).
#
# An interval of the ranking is an interval of scores, so two scores define a set. They come from
# sorted values: sorting values alone is many times cheaper than an argsort.

_STEEPEST = 4
"""Number of drops examined before sorting all: enough for nearly every query."""


def between_drops(
    scores: Tensor, target_scores: Tensor, *, apart: int, within: int | None = None
) -> Tensor:
    """The images between two steep drops below the target: [B, N] bool.

    Scores are [B, N] and finite, the targets' [B, 1]. A row is empty if no two drops qualify.

    A drop lies between neighbours in the ranking that both score below the target; the one from
    the target to the first below it does not count (QuRe eq. 6). Drops are ordered from the
    steepest on, equal ones by rank. The set lies between the first two successive drops whose
    places differ by more than `apart`: 0 is the paper's rule, the two steepest; the authors' code
    has 1. A drop of zero does not bound a set. With `within`, only drops among so many images below
    the target count.
    """
    costs = -scores  # [B, N]
    _sort(costs)  # best first
    first = torch.searchsorted(costs, -target_scores, right=True)  # [B, 1], first below the target
    # Raise the target and everything above it to the first score below it: no drop there counts.
    costs.clamp_(min=costs.gather(1, first.clamp(max=costs.shape[1] - 1)))
    if within is not None:  # lower the others to the last of these: no drop there counts
        last = (first + within - 1).clamp(max=costs.shape[1] - 1)  # [B, 1]
        costs.clamp_(max=costs.gather(1, last))
    drops = costs[:, 1:] - costs[:, :-1]  # [B, N - 1]
    upper, lower = _pair(drops, apart)  # [B, 1] each
    best = (-costs.gather(1, upper + 1)).masked_fill(upper == lower, -torch.inf)  # [B, 1]
    worst = -costs.gather(1, lower)  # [B, 1]
    return (scores <= best) & (scores >= worst)


def _pair(drops: Tensor, apart: int) -> tuple[Tensor, Tensor]:
    """The places of the two drops, [B, 1] each, higher rank first; equal if none qualify."""
    pair, settled = _successive(drops, _steepest(drops), apart)  # [B, 2], [B]
    rows = (~settled).nonzero().squeeze(1)  # [b]
    if rows.numel():
        ordered = drops[rows].sort(dim=1, descending=True, stable=True).indices  # [b, N - 1]
        pair[rows], _ = _successive(drops[rows], ordered, apart)
    return pair.amin(dim=1, keepdim=True), pair.amax(dim=1, keepdim=True)


def _successive(drops: Tensor, ordered: Tensor, apart: int) -> tuple[Tensor, Tensor]:
    """The first two successive drops that qualify, [B, 2], and whether that is certain, [B].

    `ordered` [B, n] are the places of the n steepest of the drops [B, N - 1], steepest first.
    """
    steep = drops.gather(1, ordered) > 0  # [B, n]
    gaps = (ordered[:, 1:] - ordered[:, :-1]).abs()  # [B, n - 1]
    fits = (gaps > apart) & steep[:, 1:]  # [B, n - 1]
    # A last column that always fits stands for "none", and makes n = 1 an ordinary case.
    first = torch.nn.functional.pad(fits, (0, 1), value=True).int().argmax(dim=1, keepdim=True)
    doubled = torch.cat([ordered, ordered[:, -1:]], dim=1)  # [B, n + 1]
    pair = torch.cat([doubled.gather(1, first), doubled.gather(1, first + 1)], dim=1)  # [B, 2]
    return pair, fits.any(dim=1) | ~steep[:, -1]


def _steepest(drops: Tensor) -> Tensor:
    """The places of the few steepest drops, equal ones by rank: [B, n]."""
    remaining = drops.clone()  # [B, N - 1]
    places = []
    for _ in range(min(_STEEPEST, drops.shape[1])):
        places.append(_first_largest(remaining))  # [B, 1]
        remaining.scatter_(1, places[-1], -1)
    return torch.cat(places, dim=1)


def _sort(values: Tensor) -> None:
    """Sort each row [B, N] in place, ascending; on a CPU NumPy is several times faster."""
    if values.device.type == "cpu":
        values.numpy().sort(axis=1)
    else:
        values.copy_(values.sort(dim=1).values)


def _first_largest(values: Tensor) -> Tensor:
    """The place of each row's largest value, the first if several are equal: [B, 1]."""
    if values.device.type == "cpu":
        return torch.from_numpy(values.numpy().argmax(axis=1, keepdims=True))
    return values.argmax(dim=1, keepdim=True)


# How hard the drawn negatives are: where they lie below the target, and what a step learns.
#
# A negative far below its target teaches little: the loss changes with the margin by
# sigmoid(-margin), its gradient weight.

FAR = 5.0
"""Margins beyond this many temperatures have a gradient weight below 0.007."""

COLUMNS = ("place", "margin", "weight", "random_weight", "skewness")
"""What `hardness_of` measures of each query, in this order."""


@dataclass(frozen=True, slots=True)
class Hardness:
    """The negatives of a definition, over its queries.

    Attributes:
        median_place: of a negative below its target: 1 is the next image, negative is above.
        mean_margin: in temperatures.
        share_far: of the margins beyond `FAR`.
        mean_weight: the mean gradient weight.
        random_weight: the same of images drawn from everything but the target.
        mean_skewness: of a query's scores. Steep drops are near the target if it is above 0.
    """

    median_place: float
    mean_margin: float
    share_far: float
    mean_weight: float
    random_weight: float
    mean_skewness: float

    @property
    def is_easier_than_random(self) -> bool:
        return self.mean_weight < self.random_weight


def hardness_of(scores: Tensor, targets: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """Measure a negative of each query by `COLUMNS`: [B, N], [B] and [B] -> [B, 5] float32."""
    column = targets.unsqueeze(1)  # [B, 1]
    target_scores = scores.gather(1, column)  # [B, 1]
    negative_scores = scores.gather(1, negatives.long().unsqueeze(1))  # [B, 1]
    above_negative = (scores > negative_scores).sum(dim=1)  # [B]
    above_target = (scores > target_scores).sum(dim=1)  # [B]
    margins = (target_scores - scores) / temperature  # [B, N], 0 at the target
    weights = torch.sigmoid(-margins)  # [B, N]
    n_others = scores.shape[1] - 1
    margin = (target_scores - negative_scores).squeeze(1) / temperature  # [B]
    columns = (
        above_negative - above_target,
        margin,
        torch.sigmoid(-margin),
        (weights.sum(dim=1) - 0.5) / n_others,  # without the target's own
        skewness(scores),
    )
    return torch.stack([values.float() for values in columns], dim=1)


def skewness(values: Tensor) -> Tensor:
    """The third standardized moment of each row [B, N]: [B], 0 where all values are equal."""
    centred = values - values.mean(dim=1, keepdim=True)  # [B, N]
    variance = centred.square().mean(dim=1)  # [B]
    third = (centred * centred.square()).mean(dim=1)  # [B]
    return torch.where(variance > 0, third / variance.clamp_min(1e-30).pow(1.5), 0.0)


def summary(rows: Tensor) -> Hardness:
    """Summarize the rows [Q, 5] of all queries."""
    values = dict(zip(COLUMNS, rows.double().unbind(dim=1), strict=True))
    return Hardness(
        median_place=values["place"].median().item(),
        mean_margin=values["margin"].mean().item(),
        share_far=(values["margin"] > FAR).double().mean().item(),
        mean_weight=values["weight"].mean().item(),
        random_weight=values["random_weight"].mean().item(),
        mean_skewness=values["skewness"].mean().item(),
    )


# Which images may be a query's negative: the strategies of CIRQRS and QuRe.
#
# Sets are defined by scores, never by the order in which a sort leaves equal ones. If a set has a
# fixed size and equal scores straddle its last place, the images earlier in the pool are taken. A
# reference in the pool (CIRR's pool: all training images) may be a negative, as in both papers.
#
# If a strategy gives no image, the query falls back to all images scored below the target, and if
# there are none, to everything but the target. The papers do not mention this case, and the
# published code fails on it.

DESCRIPTIONS: Final[dict[Strategy, str]] = {
    "corpus": "everything but the target",
    "top-k": "the {k} best scored but the target",
    "after-target": "the {k} best scored below the target",
    "cirqrs": "the {k} best scored below the target, half as many at each redefinition",
    "qure": "those between the two steepest score drops below the target",
    "qure-code": "those between the first two score drops below the target, from the steepest on,"
    " that are more than {threshold} apart",
    "in-batch": "the other targets of the batch",
    "qure-bounded": "those between the two steepest score drops among the {k} best scored below the"
    " target",
}


@dataclass(frozen=True, slots=True)
class NegativeRule:
    """A strategy and its numbers; `str` describes it.

    Attributes:
        strategy: see `DESCRIPTIONS`; `after-target` is from QuRe 5.4, `cirqrs` from CIRQRS eq. 6
            and section 5.1, `qure` from QuRe eq. 5-7, `qure-code` from its authors' code;
            `qure-bounded` is hsfiq's own; `in-batch` is read from the batch, not drawn.
        k: how many images, for the strategies in `SIZED`.
        threshold: for `qure-code`: drops are taken from the steepest on, in pairs of neighbours in
            that order, until a pair lies more than `threshold` places apart (published: 1).

    Raises:
        UnreadableInput: an unknown strategy, a missing number or one that it does not use.
    """

    strategy: Strategy
    k: int | None = None
    threshold: int | None = None

    def __post_init__(self) -> None:
        known = get_args(Strategy)
        if self.strategy not in known:
            raise UnreadableInput(
                f"negatives {self.strategy!r}", "unknown", f"one of {', '.join(known)}"
            )
        self._require("k", self.k, wanted=self.strategy in SIZED)
        self._require("threshold", self.threshold, wanted=self.strategy == "qure-code")

    def _require(self, name: str, number: int | None, *, wanted: bool) -> None:
        where = f"negatives {self.strategy!r}"
        if not wanted and number is not None:
            raise UnreadableInput(where, f"does not use {name} = {number}", f"leave {name} out")
        if wanted and (number is None or number < 1):
            raise UnreadableInput(where, f"{name} = {number}", f"give {name}, 1 or more")

    def __str__(self) -> str:
        return DESCRIPTIONS[self.strategy].format(k=self.k, threshold=self.threshold)

    def redefined(self, times: int) -> NegativeRule:
        """The rule at the `times`-th redefinition; 0 is the first definition after the warm-up.

        Only `cirqrs` changes: k, k // 2, k // 4, ..., never below 1 (FashionIQ 50, 25, 12, 6).
        """
        if self.strategy != "cirqrs" or self.k is None:
            return self
        return replace(self, k=max(self.k >> times, 1))


def negative_mask(scores: Tensor, targets: Tensor, rule: NegativeRule) -> tuple[Tensor, Tensor]:
    """Define the negative set of every query from scores [B, N] and target columns [B].

    Only the order and the differences of scores matter, not the temperature.

    Returns:
        [B, N] bool, whether the image is in the query's set, never empty; and [B] bool, whether
        the query fell back.

    Raises:
        UnreadableInput: a pool of one image, a target outside it, a score that is not a number.
    """
    require_pool(scores.shape[1])
    require_columns(targets, scores.shape[1], "target")
    require_finite(scores)
    mask = _defined(scores, targets, rule)  # [B, N]
    fell_back = ~mask.any(dim=1)  # [B]
    rows = fell_back.nonzero().squeeze(1)
    if rows.numel():
        mask[rows] = _fallback(scores[rows], targets[rows])
    return mask, fell_back


def require_pool(n_images: int) -> None:
    """Raise UnreadableInput unless a pool has a second image to draw."""
    if n_images < 2:
        raise UnreadableInput(
            "pool of images",
            f"has {n_images}, so no negative can be drawn beside the target",
            "give a pool of two images or more",
        )


def _defined(scores: Tensor, targets: Tensor, rule: NegativeRule) -> Tensor:
    """[B, N] and [B] -> [B, N]; a row is empty if the strategy gives no image."""
    if rule.strategy in UNSCORED:
        return _others(scores, targets)
    if rule.strategy == "top-k":
        return _best(scores, _others(scores, targets), rule.k or 0)
    target_scores = scores.gather(1, targets.unsqueeze(1))  # [B, 1]
    if rule.strategy in {"after-target", "cirqrs"}:
        return _best(scores, scores < target_scores, rule.k or 0)
    return between_drops(scores, target_scores, apart=rule.threshold or 0, within=rule.k)


def _others(scores: Tensor, targets: Tensor) -> Tensor:
    """[B, N]."""
    every = torch.ones_like(scores, dtype=torch.bool)  # [B, N]
    return every.scatter_(1, targets.unsqueeze(1), value=False)


def _best(scores: Tensor, eligible: Tensor, k: int) -> Tensor:
    """The k best of the eligible images, or all if there are fewer: [B, N]."""
    ranked = scores.masked_fill(~eligible, -torch.inf)  # [B, N]
    last = ranked.topk(min(k, scores.shape[1]), dim=1).values[:, -1:]  # [B, 1]
    above = ranked > last  # [B, N]
    level = eligible & (ranked == last)  # [B, N]
    free = k - above.sum(dim=1, keepdim=True)  # [B, 1]
    return above | (level & (level.cumsum(dim=1) <= free))


def _fallback(scores: Tensor, targets: Tensor) -> Tensor:
    """[B, N] and [B] -> [B, N]."""
    below = scores < scores.gather(1, targets.unsqueeze(1))  # [B, N]
    return torch.where(below.any(dim=1, keepdim=True), below, _others(scores, targets))


# Drawing negatives: one per query and epoch until the sets are redefined.
#
# Queries are scored and their sets defined a chunk at a time; only the drawn negatives are kept, no
# score and no set. A query's draws follow from its own row of uniform numbers, so they depend
# neither on the chunks nor on which process mines the query.


@dataclass(frozen=True, slots=True)
class Drawn:
    """The negatives of Q queries, on the CPU: columns of the pool, one for each of T epochs."""

    columns: Tensor  # [Q, T] int32
    sizes: Tensor  # [Q] int32, of the sets (QuRe Figure 5 plots their mean)
    fell_back: Tensor  # [Q] bool, whether the strategy gave no set
    hardness: Tensor | None  # [Q, 5] of the first negatives; None if nothing was scored


def draw_negatives(
    queries: Tensor,
    gallery: Tensor,
    targets: Tensor,
    rule: NegativeRule,
    uniforms: Tensor,
    pooling: Pooling,
    *,
    chunk: int,
    temperature: float,
) -> Drawn:
    """Score the pool for each query, define the sets and draw; raises as `negative_mask`.

    Args:
        queries: [Q, D], on the device that is to compute.
        gallery: [N, L, D], the pool, as `relevance` takes it.
        targets: [Q] columns.
        rule: for those in `UNSCORED` nothing is scored.
        uniforms: [Q, T] in [0, 1). With several processes, draw them for all queries from one
            generator and give each process the rows of its queries.
        chunk: how many queries and images to score at a time.
        temperature: the scorer's, by which margins are divided.
    """
    if rule.strategy in UNSCORED:
        return draw_from_corpus(len(gallery), targets, uniforms)
    # At least one chunk: an empty share gives an empty result.
    starts = range(0, max(len(queries), 1), chunk)
    require_columns(targets, len(gallery), "target")
    return _concatenated(
        draw_from_scores(
            _scored(queries[start : start + chunk], gallery, pooling, chunk),
            targets[start : start + chunk],
            rule,
            uniforms[start : start + chunk],
            temperature,
        )
        for start in starts
    )


def _scored(queries: Tensor, gallery: Tensor, pooling: Pooling, chunk: int) -> Tensor:
    """The relevance [B, N] of at most `chunk` queries [B, D]."""
    # Products of other shapes round differently: pad every chunk to the same shape, so that a
    # query's scores do not depend on its chunk.
    padded = torch.nn.functional.pad(queries, (0, 0, 0, chunk - len(queries)))  # [chunk, D]
    return relevance(padded, gallery, pooling, chunk=chunk)[: len(queries)]


def draw_from_scores(
    scores: Tensor, targets: Tensor, rule: NegativeRule, uniforms: Tensor, temperature: float
) -> Drawn:
    """Define the sets by scores [B, N] and draw from them."""
    mask, fell_back = negative_mask(scores, targets, rule)
    members = _members(mask)  # [sum of sizes], indices into the flattened mask, set by set
    rows = torch.arange(len(mask) + 1, device=mask.device)  # [B + 1]
    bounds = torch.searchsorted(members, rows * mask.shape[1])  # [B + 1]
    sizes = bounds.diff()  # [B]
    picks = _picks(sizes, uniforms.to(sizes.device))  # [B, T]
    columns = members[bounds[:-1, None] + picks] % mask.shape[1]  # [B, T]
    hardness = hardness_of(scores, targets, columns[:, 0], temperature)  # [B, 5]
    return Drawn(columns.int().cpu(), sizes.int().cpu(), fell_back.cpu(), hardness.cpu())


def draw_from_corpus(n_images: int, targets: Tensor, uniforms: Tensor) -> Drawn:
    """Draw from everything but the targets [B] of a pool of `n_images`, without scores."""
    require_pool(n_images)
    require_columns(targets, n_images, "target")
    sizes = torch.full_like(targets, n_images - 1)  # [B]
    picks = _picks(sizes, uniforms.to(targets.device))  # [B, T]
    columns = picks + (picks >= targets.unsqueeze(1))  # [B, T]
    fell_back = torch.zeros(len(targets), dtype=torch.bool)  # [B]
    return Drawn(columns.int().cpu(), sizes.int().cpu(), fell_back, None)


def _picks(sizes: Tensor, uniforms: Tensor) -> Tensor:
    """Draw from sets {0, ..., size - 1} without replacement; an exhausted set starts again.

    Sizes [B] and uniforms [B, T] give [B, T]: the t-th depends on the t-th uniform and earlier.
    """
    picks = torch.empty(uniforms.shape, dtype=torch.int64, device=sizes.device)  # [B, T]
    for t in range(uniforms.shape[1]):
        drawn = t % sizes  # [B], draws since the set was last complete
        remaining = sizes - drawn  # [B]
        # A float below 1 times an integer never rounds up to that integer.
        pick = (uniforms[:, t] * remaining).long()  # [B], among the remaining
        since = torch.arange(t, device=sizes.device) >= (t - drawn).unsqueeze(1)  # [B, t]
        taken = picks[:, :t].where(since, sizes.unsqueeze(1)).sort(dim=1).values  # [B, t]
        for earlier in taken.unbind(dim=1):
            pick = pick + (pick >= earlier)
        picks[:, t] = pick
    return picks


def _members(mask: Tensor) -> Tensor:
    """The indices of a mask [B, N] that are set, flattened; NumPy is faster on a CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.flatten().nonzero().squeeze(1)


def _concatenated(parts: Iterable[Drawn]) -> Drawn:
    columns, sizes, fell_back, hardness = zip(
        *((part.columns, part.sizes, part.fell_back, part.hardness) for part in parts), strict=True
    )
    return Drawn(*map(torch.cat, (columns, sizes, fell_back, hardness)))


# The negatives of a period of epochs: drawn for every query when the sets are (re)defined.

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
