"""SPRC's recipes; PAPERS.md says where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.model.recipes.qformer import QFORMER_CIRR, QFORMER_TRAINING
from hsfiq.model.recipes.system_recipe import SystemRecipe, drawn_stages


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
    epochs=(30,),
    batch=(128,),
    **QFORMER_TRAINING,
    regularisation=1.0,
    alignment=1.0,
)

SPRC_RECIPES: Final = (
    _FASHIONIQ,
    replace(
        _FASHIONIQ,
        name="sprc-cirr",
        **QFORMER_CIRR,
        epochs=(50,),
        schedule_epochs=(80,),
        regularisation=0.4,
        alignment=0.4,
    ),
)

DRAWN_SPRC: Final[dict[str, Any]] = {
    "triplets": 2500,
    **drawn_stages(epochs=(8,), batch=(64,)),
    "temperature_kind": "fixed",
}
"""At the learning rate that random weights need, a learned temperature falls within an epoch."""
