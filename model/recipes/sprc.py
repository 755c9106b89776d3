"""SPRC's recipes; PAPERS.md says where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.model.recipes.system_recipe import SystemRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class SprcRecipe(SystemRecipe):
    """SPRC's (Bai et al., ICLR 2024).

    Attributes:
        regularisation: the weight of the loss of texts with the free prompt tokens (`rtc`).
        alignment: the weight of the distance of the two prompts' means (`align`).
        temperature_kind: whether `temperature` is trained too, or stays as it is.
    """

    regularisation: float
    alignment: float
    temperature_kind: Literal["learned", "fixed"] = "learned"


_FASHIONIQ = SprcRecipe(
    name="sprc-fashioniq",
    dataset="fashioniq",
    system="sprc",
    backbone="blip2-vitg",
    size=224,
    pad_ratio=1.25,
    epochs=(30,),
    batch=(128,),
    lr=(2e-5,),
    schedule=("one-cycle",),
    schedule_epochs=(None,),
    weight_decay=(0.05,),
    warmup=0.05,
    start_divisor=100.0,
    betas=(0.9, 0.98),
    eps=1e-7,
    temperature=0.07,
    seed=0,
    val_recall=(10, 50),
    regularisation=1.0,
    alignment=1.0,
)

SPRC_RECIPES: Final = (
    _FASHIONIQ,
    replace(
        _FASHIONIQ,
        name="sprc-cirr",
        dataset="cirr",
        epochs=(50,),
        lr=(1e-5,),
        schedule_epochs=(80,),
        warmup=0.02,
        start_divisor=25.0,
        val_recall=(5,),
        regularisation=0.4,
        alignment=0.4,
    ),
)

DRAWN_SPRC: Final[dict[str, Any]] = {
    "triplets": 2500,
    "epochs": (8,),
    "batch": (64,),
    "lr": (1e-3,),
    "schedule": ("one-cycle",),
    "schedule_epochs": (None,),
    "weight_decay": (0.01,),
    "temperature_kind": "fixed",
}
"""At the learning rate that random weights need, a learned temperature falls within an epoch."""
