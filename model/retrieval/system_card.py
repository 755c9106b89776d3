"""The model card of a retrieval system's checkpoint, trained here or imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hsfiq.model.checkpoints import Checkpoint, write_card
from hsfiq.model.retrieval.weights import PublishedFile
from hsfiq.model.scorer import run
from hsfiq.model.system_recipes import (
    SystemName,
    system_recipe,
    system_recipe_from_json,
)

# What an imported checkpoint records of its files.

IMPORTED_FROM = "imported_from"
"""The key of a checkpoint's JSON file for the published files."""

NOT_COMPARED = (
    "Their authors trained them; the authors' license and published figures apply. Names and "
    "shapes of all tensors were compared with the model, but its lists were not compared with "
    "published figures."
)


def origins(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    return [
        {
            "file": file.path.name,
            "sha1": file.sha1,
            "known_as": file.known.name if file.known else None,
        }
        for file in files
    ]


def card_section(about: Mapping[str, Any]) -> dict[str, Iterable[str]]:
    """The published files, as a section of the model card."""
    files = [
        f"- `{file['file']}`, SHA-1 `{file['sha1']}`: {file['known_as'] or 'not a known file'}"
        for file in about[IMPORTED_FROM]
    ]
    return {"Published files": [*files, "", NOT_COMPARED]}


PAPERS: Final[Mapping[SystemName, str]] = {
    "clip4cir": "CLIP4CIR (Baldrati et al., CVPR 2022 and TOMM 2023)",
    "bi-blip4cir": "Bi-BLIP4CIR (Liu et al., WACV 2024)",
    "covr-blip": "CoVR-BLIP (Ventura et al., AAAI 2024)",
    "sprc": "SPRC (Bai et al., ICLR 2024), built from the paper alone",
    "mapnet": (
        "in the spirit of MAPNet (Shi et al., ICCV 2025), with only a poster public; what "
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
    if IMPORTED_FROM in about:
        source = card_section(about)
    else:
        n_train = about["data"]["n_train"]
        n_used = min(recipe.triplets or n_train, n_train)
        accuracy = "training targets that are the best of their batch"
        source = run.data_and_figures(about, n_used, accuracy)
    write_card(
        checkpoint.path.parent,
        f"`{recipe.system}`, trained on {run.DATA[recipe.dataset]}",
        [what, *([run.DRAWN] if is_drawn else []), run.NO_JUDGEMENTS],
        {
            **source,
            "Recipe": run.recipe_lines(system_recipe(recipe.name), recipe, VARIANTS[recipe.system]),
            "Provenance": [
                f"- stage {about['stage']} of {len(recipe.epochs)}",
                *run.provenance_lines(checkpoint),
            ],
            "Use": ["```bash", command, "```"],
        },
        tags=(recipe.system, recipe.dataset),
    )
