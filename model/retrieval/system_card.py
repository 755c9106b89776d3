"""The model card of a retrieval system's checkpoint, trained here or imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.checkpoints.model_card import write_card
from hsfiq.model.recipes.system_recipe import SystemName, SystemRecipe
from hsfiq.model.recipes.systems import system_recipe, system_recipe_from_json
from hsfiq.model.recipes.values import shown

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

DATA: Final = {"fashioniq": "FashionIQ", "cirr": "CIRR", "drawn": "the drawn catalogue"}

DRAWN = (
    "Its images are drawn garments and its texts are written from their attributes. The figures "
    "say nothing about photographs, about the published system, or about what people prefer."
)
NO_JUDGEMENTS = (
    "It was trained on triplets alone: no human judgement, and no simulated one, was used."
)
SELECTED = (
    "Those of the epoch with the best mean recall on these validation triplets, so they are a "
    "little too good. They have no intervals; `hsfiq evaluate --intervals` gives some."
)
IMPORTED = (
    "Their authors trained them; their licence and their published figures hold. Names and shapes "
    "of all tensors were compared with the model, but its lists have not been compared with "
    "published figures."
)


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
            **(imported(about) if "imported_from" in about else trained(about, recipe)),
            "Recipe": recipe_lines(recipe),
            "Provenance": provenance(checkpoint, recipe),
            "Use": ["```bash", command, "```"],
        },
        tags=(recipe.system, recipe.dataset),
    )


def trained(about: Mapping[str, Any], recipe: SystemRecipe) -> dict[str, Iterable[str]]:
    """The data, and the figures of the best epoch."""
    data, best = about["data"], about["progress"]["epochs"][-1]
    n_used = min(recipe.triplets or data["n_train"], data["n_train"])
    figures = {key: value for key, value in best["val"].items() if key != "mean"}
    figures["training loss"] = best["loss"]
    figures["training targets that are the best of their batch"] = best["accuracy"]
    return {
        "Data": [
            f"- {DATA[data['name']]}: {n_used:,} of {data['n_train']:,} training triplets",
            f"- validated on {data['n_val']:,} triplets",
            f"- content: sha256 `{data['sha256']}`",
        ],
        "Figures": [
            SELECTED,
            "",
            f"| epoch {best['epoch']}, counted from 0 | value |",
            "|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in figures.items()),
        ],
    }


def imported(about: Mapping[str, Any]) -> dict[str, Iterable[str]]:
    files = [
        f"- `{file['file']}`, SHA-1 `{file['sha1']}`: {file['known_as'] or 'not a known file'}"
        for file in about["imported_from"]
    ]
    return {"Published files": [*files, "", IMPORTED]}


def recipe_lines(recipe: SystemRecipe) -> Iterator[str]:
    """The named variants, and what differs from the published recipe."""
    variants = VARIANTS[recipe.system]
    yield f"`{recipe.name}`; PAPERS.md of hsfiq says where each value comes from."
    yield ""
    for key in variants:
        yield f"- variant `{key}`: {shown(getattr(recipe, key))}"
    for key, (published, here) in system_recipe(recipe.name).changes(recipe).items():
        if key not in variants:
            yield f"- `{key}`: {here} instead of {published}"


def provenance(checkpoint: Checkpoint, recipe: SystemRecipe) -> Iterator[str]:
    about = checkpoint.about
    yield f"- stage {about['stage']} of {len(recipe.epochs)}"
    yield f"- weights: sha256 `{checkpoint.sha256}`"
    yield f"- frozen image encoder: sha256 `{about['encoder']['frozen_sha256']}`"
    if about.get("init_sha256"):
        yield f"- started from: sha256 `{about['init_sha256']}`"
