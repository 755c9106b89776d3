"""The settings that every retrieval system's recipe has.

A system is trained in one or two stages. A setting that may differ between them is a tuple with one
value for each stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.base import RecipeBase
from hsfiq.model.recipes.values import CaptionRule, Pooling, PoolRule, shown

SystemName = Literal["clip4cir", "bi-blip4cir", "covr-blip", "sprc", "mapnet"]
BackboneName = Literal[
    "clip-rn50x4", "blip-base", "blip-large", "blip2-vitL", "blip2-vitg", "blip2-hf", "tiny"
]
TextRule = Literal["as-is", "lavis"]
Schedule = Literal["constant", "cosine", "one-cycle"]

STAGED = ("epochs", "batch", "lr", "schedule", "schedule_epochs", "weight_decay")
"""The settings of every system with one value for each stage."""


def drawn_stages(epochs: tuple[int, ...], batch: tuple[int, ...]) -> dict[str, Any]:
    """`STAGED` for training a small backbone on the drawn catalogue."""
    n = len(epochs)
    return {
        "epochs": epochs,
        "batch": batch,
        "lr": (1e-3,) * n,
        "schedule": ("one-cycle",) * n,
        "schedule_epochs": (None,) * n,
        "weight_decay": (0.01,) * n,
    }


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a recipe: the values of `STAGED`, and those of its one-cycle schedule."""

    number: int
    """From 1."""
    epochs: int
    batch: int
    lr: float
    schedule: Schedule
    schedule_epochs: int | None
    weight_decay: float
    warmup: float
    start_divisor: float

    def lr_at(self, epoch: int, step: int, n_steps: int) -> float:
        """The learning rate of a step; epochs and steps, of `n_steps` each, are counted from 0.

        `cosine` changes once an epoch and rises again after `schedule_epochs`, as in Bi-BLIP4CIR's
        code; `one-cycle` changes at each step (Smith and Topin, arXiv 1708.07120, as in torch).
        """
        period = self.schedule_epochs or self.epochs
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * epoch / period)) / 2
        if self.schedule == "one-cycle":
            return self._one_cycle(epoch * n_steps + step, period * n_steps)
        return self.lr

    def _one_cycle(self, step: int, n_steps: int) -> float:
        start = self.lr / self.start_divisor
        top = self.warmup * n_steps - 1
        if step < top:
            return _between(start, self.lr, step / top)
        share = (step - top) / max(n_steps - 1 - top, 1)
        return _between(self.lr, start / _FINAL_DIVISOR, share)


_FINAL_DIVISOR = 1e4
"""Of the first learning rate, which gives the last one of a one-cycle schedule (torch's)."""


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * min(share, 1.0))) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecipe(RecipeBase):
    """Every number that a system's training depends on, besides the data.

    Attributes:
        size: the side of the square that an image becomes, in pixels.
        pad_ratio: of an image's sides, from which on it is padded.
        triplets: the training triplets to use; all if None.
        schedule_epochs: the epochs that a schedule is stretched over; those of the stage if None.
        warmup: the share of a one-cycle schedule's steps in which the learning rate rises.
        start_divisor: of `lr`, which gives the first learning rate of a one-cycle schedule.
        temperature: divides the cosines in the loss; where it is learned, its first value.
        precision: as in `Recipe`.
        captions: how two captions become one text in training.
        text: how a text is cleaned: `lavis` makes it lower case and leaves out punctuation.
        max_words: the most words of a text that is cleaned so.
        pool: as in `Recipe`; it only decides which images are read.
        val_recall: the ks of the recall@k whose mean over the corpora selects the best epoch;
            on CIRR with Recall_subset@1.

    Raises:
        UnreadableInput: a value out of range, or stages that do not agree in number.
    """

    FIXED: ClassVar[tuple[str, ...]] = ("name", "dataset", "system")
    STAGED_TOO: ClassVar[tuple[str, ...]] = ()
    """A system's own settings with one value for each stage."""

    name: str
    dataset: Literal["fashioniq", "cirr", "drawn"]
    system: SystemName
    backbone: BackboneName
    size: int
    pad_ratio: float
    triplets: int | None = None
    epochs: tuple[int, ...]
    batch: tuple[int, ...]
    lr: tuple[float, ...]
    schedule: tuple[Schedule, ...]
    schedule_epochs: tuple[int | None, ...]
    weight_decay: tuple[float, ...]
    warmup: float = 0.3
    start_divisor: float = 25.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip_norm: float | None = None
    temperature: float
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    seed: int
    captions: CaptionRule = "four-way"
    text: TextRule = "lavis"
    max_words: int = 50
    pool: PoolRule = "corpus"
    pooling: Pooling = "max"
    val_recall: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = next(self.out_of_range(), None)
        lengths = {key: len(getattr(self, key)) for key in (*STAGED, *self.STAGED_TOO)}
        if problem is None and len(set(lengths.values())) > 1:
            problem = "the stages differ in number: " + ", ".join(
                f"{key}={shown(getattr(self, key))}" for key in lengths
            )
        if problem is not None:
            raise UnreadableInput(
                f"recipe {self.name}", problem, "give each stage a value, with commas between them"
            )

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(
            Stage(
                number=place + 1,
                warmup=self.warmup,
                start_divisor=self.start_divisor,
                **{key: getattr(self, key)[place] for key in STAGED},
            )
            for place in range(len(self.epochs))
        )
