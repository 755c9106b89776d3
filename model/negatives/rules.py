"""Which images may be a query's negative: the strategies of CIRQRS and QuRe.

Sets are defined by scores, never by the order in which a sort leaves equal ones. If a set has a
fixed size and equal scores straddle its last place, the images earlier in the pool are taken. A
reference in the pool (CIRR's pool: all training images) may be a negative, as in both papers.

If a strategy gives no image, the query falls back to all images scored below the target, and if
there are none, to everything but the target. The papers do not mention this case, and the published
code fails on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, get_args

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.negatives.drops import between_drops
from hsfiq.model.recipes.values import SIZED, UNSCORED, Strategy
from hsfiq.model.scorer.ranks import require_columns, require_finite

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
