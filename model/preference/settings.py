"""The settings of the recipe `preference`, besides the data and the scorer that it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, get_type_hints

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.recipe import RETRAINING, Recipe
from hsfiq.model.recipes.values import RANGES as RECIPE_RANGES
from hsfiq.model.recipes.values import cosine_lr, read_values, shown

NAME: Final = RETRAINING

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "score_weight": (0, 1e6),
    "offset_sd": (1e-6, 1e6),
    "mix": (0, 1e6),
    "folds": (0, 100),
} | {
    key: RECIPE_RANGES[key]
    for key in ("epochs", "batch", "lr", "final_lr_share", "weight_decay", "clip_norm", "seed")
}

TINY: Final[Mapping[str, Any]] = {"lr": 3e-4, "held": ("encoder.patches",)}
"""For the small encoder. Its image encoder would memorise the few images of a study; BLIP-2's is
frozen in any case."""

BLIP2: Final[Mapping[str, Any]] = {"lr": 1e-6, "held": None}
"""A fifth of the smallest learning rate of the papers' recipes, since the scorer is only adjusted;
not tried on BLIP-2 itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scorer is retrained. None of the values comes from a paper."""

    lr: float  # learning rate of the first epoch
    held: tuple[str, ...] | None = None  # prefixes of the names of parameters to freeze
    epochs: int = 8  # passes over the answers; the last is kept, whatever the held-out part gives
    batch: int = 32  # questions per optimiser step, and triplets if they are mixed in
    final_lr_share: float = 0.01  # of `lr`, reached by cosine decay, one step per epoch
    weight_decay: float = 0.01  # AdamW's
    clip_norm: float = 1.0  # largest norm of the gradient; larger ones are scaled down
    score_weight: float = 1.0  # of the loss on Likert scores; that on preferences has weight 1
    offset_sd: float = 1.0  # of the normal prior of participants' offsets, in logits
    mix: float = 0.0  # weight of the loss on triplets
    reliability: Literal["off", "on"] = "off"  # "on": contradicting answers lower one's weight
    folds: int = 4  # of cross-fitting, which fits the final answer model; 0 leaves it out
    seed: int = 1000

    def __post_init__(self) -> None:
        for key, (least, most) in RANGES.items():
            value = getattr(self, key)
            if not least <= value <= most:
                raise UnreadableInput(
                    f"recipe {NAME}", f"{key} is {shown(value)}, not from {least} to {most}"
                )

    @classmethod
    def for_encoder(cls, name: str) -> Settings:
        return cls(**(TINY if name == "tiny" else BLIP2))

    def lr_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return cosine_lr(epoch, self.epochs, self.lr, self.final_lr_share)

    def with_values(self, values: Mapping[str, str]) -> Settings:
        """The settings with values changed as on the command line; refuse unknown keys."""
        return replace(self, **read_values(values, get_type_hints(Settings), NAME))

    def optimisation(self, recipe: Recipe) -> Recipe:
        """The recipe with the optimiser values of these settings."""
        shared = {field.name for field in fields(self)} & {field.name for field in fields(recipe)}
        values = {name: getattr(self, name) for name in shared}
        return replace(recipe, **values, accumulate=1, strategy="corpus", n_def=1)

    def to_json(self) -> dict[str, Any]:
        return {"name": NAME, **asdict(self)}
