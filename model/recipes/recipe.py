"""The papers' training recipes, by name; PAPERS.md says where each value comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.base import RecipeBase
from hsfiq.model.recipes.values import (
    SIZED,
    UNSCORED,
    CaptionRule,
    EncoderName,
    Pooling,
    PoolRule,
    Strategy,
    cosine_lr,
    known_names,
)


@dataclass(frozen=True, slots=True)
class Recipe(RecipeBase):
    """Every number that training depends on, besides the data.

    Attributes:
        encoder: BLIP-2 with ViT-L or ViT-g (through LAVIS or, `blip2-hf`, transformers), a model
            with two encoders of transformers (`hf`, or `hf-lora` to
            tune its image encoder, too) or open_clip (`openclip`), or the small one.
        size: the side of the square that an image becomes, in pixels.
        pad_ratio: of an image's sides, from which on it is padded; `hf` and `openclip` do not.
        batch: triplets per step of the optimiser, all processes and parts together.
        accumulate: equal parts in which a batch is computed, to save memory.
        lr: the learning rate of the first epoch.
        final_lr_share: the share of `lr` that the cosine decay, once an epoch, goes towards.
        clip_norm: the gradient norm above which gradients are clipped.
        precision: of the trained part; `auto` is bf16 on a GPU that has it, else fp16 with a
            gradient scaler, and fp32 on a CPU.
        strategy: how negative sets are defined, after the warm-up on the whole pool.
        n_def: periods that the epochs are divided into; each but the first redefines the sets.
        n_neg: the first size of a set, for the strategies in `SIZED`; of `qure-bounded`, how many
            images below the target its drops lie among.
        threshold: of `qure-code`: its two drops are more than this many places apart.
        pool: which images can be negatives.
        captions: how two captions become one text in training.
        pooling: how an image's score comes from those of its vectors.
        val_recall: the ks of the recall@k whose mean over the corpora selects the best epoch;
            on CIRR with Recall_subset@1.

    Raises:
        UnreadableInput: a value out of range, or one that contradicts another.
    """

    name: str
    dataset: Literal["fashioniq", "cirr", "drawn"]
    encoder: EncoderName
    size: int
    pad_ratio: float
    epochs: int
    batch: int
    accumulate: int
    lr: float
    final_lr_share: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    clip_norm: float | None
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    seed: int
    strategy: Strategy
    n_def: int
    n_neg: int | None
    threshold: int
    pool: PoolRule
    captions: CaptionRule
    pooling: Pooling
    val_recall: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem is not None:
            raise UnreadableInput(f"recipe {self.name}", problem)

    @property
    def period(self) -> int:
        """Epochs between two definitions, floor(epochs / n_def); the first are the warm-up."""
        return self.epochs // self.n_def

    @property
    def definitions(self) -> tuple[int, ...]:
        """The epochs, counted from 0, before which the negative sets are redefined.

        None for `corpus`, whose sets are always the whole pool (both papers, Algorithm 1), and for
        `in-batch`.
        """
        if self.strategy in UNSCORED:
            return ()
        return tuple(range(self.period, self.epochs, self.period))

    def lr_at(self, epoch: int) -> float:
        """The learning rate throughout an epoch, counted from 0 (QuRe's `cosine_lr_schedule`)."""
        return cosine_lr(epoch, self.epochs, self.lr, self.final_lr_share)

    def _problems(self) -> Iterator[str]:
        yield from self.out_of_range()
        if self.n_def > self.epochs:
            yield f"n_def is {self.n_def}, more than its {self.epochs} epochs"
        if self.batch % self.accumulate:
            yield f"a batch of {self.batch} has no {self.accumulate} equal parts (accumulate)"
        if self.strategy == "in-batch" and self.accumulate > 1:
            yield "strategy in-batch needs accumulate=1: a part of a batch has fewer negatives"
        if self.strategy in SIZED and self.n_neg is None:
            yield f"strategy {self.strategy} needs n_neg, a number of images"


RETRAINING: Final = "preference"
"""The recipe that starts from a scorer and a release; its numbers: `model.preference.settings`."""


def recipe(name: str, others: Iterable[str] = ()) -> Recipe:
    """The scorer's recipe of this name; `others` are further names that an error offers."""
    if name not in RECIPES:
        known = (*RECIPES, RETRAINING, *others)
        raise UnreadableInput(repr(name), "there is no such recipe", known_names(name, known))
    return RECIPES[name]


def on_drawn(stated: Recipe) -> Recipe:
    """The same strategy, definitions and loss for the small encoder and the drawn catalogue."""
    sized = stated.n_neg is not None
    return replace(
        stated, **{key: value for key, value in DRAWN.items() if sized or key != "n_neg"}
    )


_QURE_FASHIONIQ = Recipe(
    name="qure-fashioniq",
    dataset="fashioniq",
    encoder="blip2-vitL",
    size=224,
    pad_ratio=1.25,
    epochs=30,
    batch=32,
    accumulate=1,
    lr=5e-6,
    final_lr_share=0.01,
    weight_decay=0.05,
    betas=(0.9, 0.999),
    eps=1e-8,
    clip_norm=None,
    precision="auto",
    seed=1000,
    strategy="qure",
    n_def=6,
    n_neg=None,
    threshold=1,
    pool="targets",
    captions="joined",
    pooling="max",
    val_recall=(10, 50),
)
_QURE_CIRR = replace(
    _QURE_FASHIONIQ,
    name="qure-cirr",
    dataset="cirr",
    epochs=50,
    lr=1e-5,
    pool="corpus",
    val_recall=(5,),
)
_CIRQRS_FASHIONIQ = replace(
    _QURE_FASHIONIQ,
    name="cirqrs-fashioniq",
    encoder="blip2-vitg",
    pad_ratio=1.5,
    strategy="cirqrs",
    n_def=5,
    n_neg=50,
    pool="corpus",
)
_CIRQRS_CIRR = replace(
    _CIRQRS_FASHIONIQ,
    name="cirqrs-cirr",
    dataset="cirr",
    epochs=50,
    lr=1e-5,
    n_def=6,
    n_neg=100,
    val_recall=(5,),
)

RECIPES: Final = {
    stated.name: stated for stated in (_CIRQRS_FASHIONIQ, _CIRQRS_CIRR, _QURE_FASHIONIQ, _QURE_CIRR)
}

DRAWN: Final[Mapping[str, Any]] = {
    "dataset": "drawn",
    "encoder": "tiny",
    "size": 96,
    "pad_ratio": 1.25,
    "epochs": 12,
    "batch": 32,
    "lr": 2e-3,
    "weight_decay": 0.01,
    "clip_norm": 1.0,
    "precision": "fp32",
    "n_neg": 12,
    "val_recall": (10, 50),
}
"""The values for training the small encoder from scratch on the drawn catalogue.

`n_neg` suits the pools, of about 300 images each: 50 would be a sixth of one, but are less than a
hundredth of FashionIQ's.
"""
