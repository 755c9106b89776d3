"""CoVR-BLIP's recipes; PAPERS.md says where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from hsfiq.model.recipes.system_recipe import SystemRecipe, drawn_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class CovrBlipRecipe(SystemRecipe):
    """CoVR-BLIP's (Ventura et al., AAAI 2024).

    Attributes:
        loss: `hn-nce` as its formula says, `hn-nce-code` as the published code computes it, or
            `info-nce`, which weighs all negatives alike.
        alpha: the weight of the positive among the negatives.
        beta: how much more a negative weighs that scores higher.
    """

    loss: Literal["hn-nce", "hn-nce-code", "info-nce"] = "hn-nce"
    alpha: float
    beta: float


_FASHIONIQ = CovrBlipRecipe(
    name="covr-blip-fashioniq",
    dataset="fashioniq",
    system="covr-blip",
    backbone="blip-large",
    size=384,
    pad_ratio=100.0,
    epochs=(6,),
    batch=(256,),
    lr=(1e-4,),
    schedule=("cosine",),
    schedule_epochs=(None,),
    weight_decay=(0.05,),
    temperature=0.07,
    precision="fp32",
    captions="joined",
    seed=1234,
    max_words=30,
    val_recall=(10, 50),
    alpha=1.0,
    beta=0.5,
)

COVR_BLIP_RECIPES: Final = (
    _FASHIONIQ,
    replace(_FASHIONIQ, name="covr-blip-cirr", dataset="cirr", batch=(512,), val_recall=(5,)),
)

DRAWN_COVR_BLIP: Final[dict[str, Any]] = {
    "triplets": 1600,
    **drawn_stages(epochs=(10,), batch=(32,)),
}
