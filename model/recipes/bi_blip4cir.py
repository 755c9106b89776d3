"""Bi-BLIP4CIR's recipes; PAPERS.md says where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from hsfiq.model.recipes.system_recipe import SystemRecipe, drawn_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class BiBlip4cirRecipe(SystemRecipe):
    """Bi-BLIP4CIR's (Liu et al., WACV 2024).

    Attributes:
        alpha: the weight of the reversed loss; 0 in both stages is BLIP4CIR.
        direction: how a text says which way it is read. `token`: a learned embedding after [CLS]
            (paper); `backward-token`: reversed texts alone have one (table 3, row 3); `code`: the
            strings of the published code (`directed_text`); `none`: not at all.
        negatives: what the reversed loss contrasts with: the row's text composed with other targets
            (eq. 2), or other references (table 3, row 2).
        proj_lr: constant learning rate of the text encoder's last projection; `lr` if None.
        projection, hidden, dropout: of the Combiner, as in `Clip4cirRecipe`.
    """

    STAGED_TOO: ClassVar[tuple[str, ...]] = ("alpha",)

    alpha: tuple[float, ...]
    direction: Literal["token", "backward-token", "code", "none"] = "token"
    negatives: Literal["targets", "references"] = "targets"
    proj_lr: float | None
    projection: int
    hidden: int
    dropout: float = 0.5


_FASHIONIQ = BiBlip4cirRecipe(
    name="bi-blip4cir-fashioniq",
    dataset="fashioniq",
    system="bi-blip4cir",
    backbone="blip-base",
    size=384,
    pad_ratio=1.25,
    epochs=(15, 200),
    batch=(128, 512),
    lr=(5e-5, 2e-5),
    schedule=("cosine", "constant"),
    schedule_epochs=(None, None),
    weight_decay=(0.05, 0.0),
    temperature=0.01,
    seed=0,
    text="as-is",
    val_recall=(10, 50),
    alpha=(0.4, 0.5),
    proj_lr=5e-3,
    projection=2560,
    hidden=5120,
)

BI_BLIP4CIR_RECIPES: Final = (
    _FASHIONIQ,
    replace(
        _FASHIONIQ,
        name="bi-blip4cir-cirr",
        dataset="cirr",
        alpha=(0.1, 0.1),
        val_recall=(5,),
    ),
)

DRAWN_BI_BLIP4CIR: Final[dict[str, Any]] = {
    "triplets": 350,
    **drawn_stages(epochs=(8, 8), batch=(128, 64)),
    "proj_lr": None,
    "projection": 256,
    "hidden": 512,
}
