"""The model card of a retrieval system's checkpoint, trained here or imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.checkpoints.model_card import write_card
from hsfiq.model.recipes.system_recipe import SystemName, SystemRecipe
from hsfiq.model.recipes.systems import system_recipe, system_recipe_from_json
from hsfiq.model.retrieval.weights.origins import IMPORTED_FROM, card_section
from hsfiq.model.training.model_card import (
    DATA,
    DRAWN,
    NO_JUDGEMENTS,
    data_and_figures,
    provenance_lines,
    recipe_lines,
)

PAPERS: Final[Mapping[SystemName, str]] = {
    "clip4cir": "CLIP4CIR (Baldrati et al., CVPR 2022 and TOMM 2023)",
    "bi-blip4cir": "Bi-BLIP4CIR (Liu et al., WACV 2024)",
    "covr-blip": "CoVR-BLIP (Ventura et al., AAAI 2024)",
    "sprc": "SPRC (Bai et al., ICLR 2024), built from the paper alone",
    "mapnet": (
        "in the spirit of MAPNet (Shi et al., ICCV 2025), of which only a poster is public; what "
        "the poster leaves open is a setting of the recipe, so this is no reproduction"
    ),
}
VARIANTS: Final[Mapping[SystemName, tuple[str, ...]]] = {
    "clip4cir": ("tuned",),
    "bi-blip4cir": ("direction", "negatives", "alpha"),
    "covr-blip": ("loss",),
    "sprc": ("regularisation", "alignment", "temperature_kind"),
    "mapnet": (
        *("contrastive_weight", "msi_weight", "rp_weight"),
        *("proximity", "neighbours", "marginals"),
    ),
}
"""The settings that choose between readings of a paper, its code and its ablations."""


def write_system_card(checkpoint: Checkpoint) -> None:
    """Write README.md into the checkpoint's folder."""
    about = checkpoint.about
    recipe = system_recipe_from_json(about["recipe"], str(checkpoint.path))
    is_drawn = recipe.dataset == "drawn"
    what = (
        f"A composed image retrieval system, {PAPERS[recipe.system]}. It ranks images for a "
        f"reference image and a text, on the backbone `{recipe.backbone}`."
    )
    command = (
        f"hsfiq retrieve {recipe.system} --checkpoint FOLDER "
        f"--data {'drawn' if is_drawn else 'DIR'} --out run.jsonl"
    )
    write_card(
        checkpoint.path.parent,
        f"`{recipe.system}`, trained on {DATA[recipe.dataset]}",
        [what, *([DRAWN] if is_drawn else []), NO_JUDGEMENTS],
        {
            **(card_section(about) if IMPORTED_FROM in about else trained(about, recipe)),
            "Recipe": recipe_lines(system_recipe(recipe.name), recipe, VARIANTS[recipe.system]),
            "Provenance": provenance(checkpoint, recipe),
            "Use": ["```bash", command, "```"],
        },
        tags=(recipe.system, recipe.dataset),
    )


def trained(about: Mapping[str, Any], recipe: SystemRecipe) -> dict[str, Iterable[str]]:
    """The data, and the figures of the best epoch."""
    n_train = about["data"]["n_train"]
    return data_and_figures(
        about,
        min(recipe.triplets or n_train, n_train),
        "training targets that are the best of their batch",
    )


def provenance(checkpoint: Checkpoint, recipe: SystemRecipe) -> Iterator[str]:
    yield f"- stage {checkpoint.about['stage']} of {len(recipe.epochs)}"
    yield from provenance_lines(checkpoint)
