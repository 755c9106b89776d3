"""CLIP4CIR's recipes; PAPERS.md says where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.model.recipes.system_recipe import SystemRecipe, drawn_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip4cirRecipe(SystemRecipe):
    """CLIP4CIR's (Baldrati et al., CVPR 2022 and TOMM 2023).

    Attributes:
        tuned: what stage I trains: both encoders (2023) or the text encoder alone (2022).
        projection: the width of the Combiner's two projections.
        hidden: the width of its hidden layers.
        dropout: in the Combiner.
    """

    tuned: Literal["both", "text"] = "both"
    projection: int
    hidden: int
    dropout: float = 0.5


_FASHIONIQ = Clip4cirRecipe(
    name="clip4cir-fashioniq",
    dataset="fashioniq",
    system="clip4cir",
    backbone="clip-rn50x4",
    size=288,
    pad_ratio=1.25,
    epochs=(100, 300),
    batch=(128, 4096),
    lr=(2e-6, 2e-5),
    schedule=("constant", "constant"),
    schedule_epochs=(None, None),
    weight_decay=(0.01, 0.0),
    eps=1e-7,
    temperature=0.01,
    seed=0,
    text="as-is",
    val_recall=(10, 50),
    projection=2560,
    hidden=5120,
)

CLIP4CIR_RECIPES: Final = (
    _FASHIONIQ,
    replace(_FASHIONIQ, name="clip4cir-cirr", dataset="cirr", val_recall=(5,)),
)

DRAWN_CLIP4CIR: Final[dict[str, Any]] = {
    "triplets": 150,
    **drawn_stages(epochs=(8, 15), batch=(128, 128)),
    "projection": 512,
    "hidden": 1024,
}
