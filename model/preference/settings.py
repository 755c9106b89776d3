"""Every number of the recipe `preference`, besides the data and the scorer that it starts from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, get_type_hints

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.recipe import RETRAINING, Recipe, there_are
from hsfiq.model.recipes.values import parsed, shown

NAME: Final = RETRAINING

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "epochs": (1, 100_000),
    "batch": (1, 1_000_000),
    "lr": (1e-12, 10),
    "final_lr_share": (0, 1),
    "weight_decay": (0, 10),
    "clip_norm": (1e-12, 1e12),
    "score_weight": (0, 1e6),
    "offset_sd": (1e-6, 1e6),
    "mix": (0, 1e6),
    "seed": (0, 2**63 - 1),
}

TINY: Final[Mapping[str, Any]] = {"lr": 3e-4, "held": ("encoder.patches",)}
"""The small encoder's. What reads its images would learn the few of a study by heart; BLIP-2's
image encoder is frozen in any case."""

BLIP2: Final[Mapping[str, Any]] = {"lr": 1e-6, "held": None}
"""A fifth of the smallest rate of the papers' recipes, for a scorer that is only to be mended; not
tried on BLIP-2 itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scorer is retrained. None of the values is in a paper: all are ours.

    Attributes:
        epochs: how often each answer is trained with; the held-out part chooses none of them.
        batch: questions to a step of the optimiser, and triplets where these are mixed in.
        lr: the learning rate of the first epoch.
        held: parameters that keep their values, by the beginnings of their names; None for none.
        final_lr_share: of `lr`, towards which it falls along a cosine, once an epoch.
        weight_decay: AdamW's.
        clip_norm: the gradient's largest length; longer ones are shortened.
        score_weight: of the loss on the Likert scores, beside 1 of the preferences.
        offset_sd: standard deviation, in logits, of the normal law to which the participants'
            offsets are shrunk.
        mix: weight of the triplets' loss; 0 leaves it out.
        reliability: whether participants who contradict themselves weigh less.
        seed: of everything that is drawn.

    Raises:
        UnreadableInput: a value that cannot be.
    """

    lr: float
    held: tuple[str, ...] | None = None
    epochs: int = 8
    batch: int = 32
    final_lr_share: float = 0.01
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    score_weight: float = 1.0
    offset_sd: float = 1.0
    mix: float = 0.0
    reliability: Literal["off", "on"] = "off"
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
        """The defaults for an encoder."""
        return cls(**(TINY if name == "tiny" else BLIP2))

    def lr_at(self, epoch: int) -> float:
        """The learning rate throughout an epoch, counted from 0; as `Recipe.lr_at`."""
        least = self.lr * self.final_lr_share
        return least + (self.lr - least) * (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def with_values(self, values: Mapping[str, str]) -> Settings:
        """The settings with other values, as they are written on a command line.

        Raises:
            UnreadableInput: a key that there is not, or a value that it cannot have.
        """
        kinds = get_type_hints(Settings)
        changed = {}
        for key, text in values.items():
            if key not in kinds:
                raise UnreadableInput(
                    f"{key}={text}", f"{NAME} has no {key!r} to change", there_are(key, kinds)
                )
            try:
                changed[key] = parsed(text, kinds[key])
            except ValueError as error:
                raise UnreadableInput(f"{key}={text}", f"{text!r} {error}") from error
        return replace(self, **changed)

    def optimisation(self, recipe: Recipe) -> Recipe:
        """A recipe with these settings' optimiser, for what reads no more of it."""
        shared = {field.name for field in fields(self)} & {field.name for field in fields(recipe)}
        values = {name: getattr(self, name) for name in shared}
        return replace(recipe, **values, accumulate=1, strategy="corpus", n_def=1)

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON object."""
        return {"name": NAME, **asdict(self)}
