"""QuRe's published `model.pth` as a scorer's checkpoint.

The file is the state of a LAVIS BLIP-2 with the frozen image encoder in half precision. As every
checkpoint of a scorer, the imported one holds what was trained alone; loading it takes LAVIS and
its published files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.checkpoints.model_card import write_card
from hsfiq.model.encoders.hf.convert_weights import atomic_folder
from hsfiq.model.encoders.hf.tensor_names import VIT
from hsfiq.model.recipes.recipe import Recipe, recipe
from hsfiq.model.retrieval.weights.checks import matched
from hsfiq.model.retrieval.weights.origins import (
    IMPORTED_FROM,
    card_section,
    encoder_of,
    origins,
)
from hsfiq.model.retrieval.weights.published_files import Dataset, PublishedFile
from hsfiq.model.retrieval.weights.sprc_names import CLIP_NORM
from hsfiq.model.scorer.loading import copy_parameters, new_scorer
from hsfiq.model.scorer.scorer import trained_parameters
from hsfiq.model.training.model_card import DATA, recipe_lines

LAVIS = "encoder.lavis."
TEMPERATURE = "encoder.temperature"


def import_qure(
    file: PublishedFile, out: Path, dataset: Dataset, weights: Path | None
) -> Checkpoint:
    """Write a scorer's checkpoint, completely or not at all; raises as `import_weights`."""
    on_clip = CLIP_NORM in file.tensors
    named = replace(recipe(f"qure-{dataset}"), encoder="blip2-vitL" if on_clip else "blip2-vitg")
    scorer = new_scorer(named, weights)
    wanted = {
        name.removeprefix(LAVIS): value
        for name, value in scorer.state_dict().items()
        if name.startswith(LAVIS)
    }
    tensors = matched(file.tensors, wanted, str, file.path)
    require_same_encoder(tensors, wanted, file.path)
    parameters = trained_parameters(scorer)
    trained = {
        name: tensors["temp" if name == TEMPERATURE else name.removeprefix(LAVIS)]
        for name in parameters
    }
    copy_parameters(trained, parameters, str(file.path))
    about = {
        "recipe": named.to_json(),
        "data": {"name": dataset},
        **encoder_of(scorer.encoder),
        IMPORTED_FROM: origins([file]),
    }
    with atomic_folder(out) as draft:
        saved = checkpoints.save(draft, checkpoints.BEST, about, {"scorer": parameters})
        write_imported_card(saved, named)
    return Checkpoint(out / saved.path.name, saved.about)


def require_same_encoder(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], file: Path
) -> None:
    for name, value in tensors.items():
        if name.startswith(VIT) and not torch.equal(value.half(), wanted[name].half()):
            raise UnreadableInput(
                str(file),
                f"its image encoder differs from LAVIS' published one, in {name}",
                "name the folder of the image encoder that it was trained on with --weights",
            )


def write_imported_card(checkpoint: Checkpoint, named: Recipe) -> None:
    what = (
        "It scores how relevant an image is to a reference image and a text. Encoder: "
        f"`{named.encoder}`."
    )
    write_card(
        checkpoint.path.parent,
        f"QuRe's retriever, trained on {DATA[named.dataset]} by its authors, as a scorer",
        [what],
        {
            **card_section(checkpoint.about),
            "Recipe": recipe_lines(recipe(named.name), named, ("strategy",)),
            "Use": ["```bash", "hsfiq score RELEASE --scorer FOLDER", "```"],
        },
        tags=("relevance-score", named.dataset),
    )
