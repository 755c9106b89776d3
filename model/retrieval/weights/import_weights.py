"""Published weights as a checkpoint of a retrieval system, or, of QuRe, of a scorer.

The checkpoint holds every weight, the frozen ones too, so only the tokenizer's file is needed
beside it. SPRC's does not: it needs the published BLIP-2, as a scorer does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.encoders.hf.convert_weights import atomic_folder, require_new
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.recipes.systems import system_recipe
from hsfiq.model.retrieval.system_card import write_system_card
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.sprc import Sprc
from hsfiq.model.retrieval.systems.system import FROZEN, System
from hsfiq.model.retrieval.weights.blip_names import blip_tensors
from hsfiq.model.retrieval.weights.checks import matched
from hsfiq.model.retrieval.weights.clip_names import clip_tensors
from hsfiq.model.retrieval.weights.layouts import dataset_of, layout_of
from hsfiq.model.retrieval.weights.origins import IMPORTED_FROM, encoder_of, origins
from hsfiq.model.retrieval.weights.published_files import (
    QURE,
    Dataset,
    PublishedFile,
    read_published,
)
from hsfiq.model.retrieval.weights.qure_scorer import import_qure
from hsfiq.model.retrieval.weights.sprc_names import fill_sprc

BLIP_TEXT = ("text_encoder.", "text_proj.")


def import_weights(
    paths: Sequence[Path], out: Path, *, dataset: Dataset | None, weights: Path | None
) -> Checkpoint:
    """Write a checkpoint of what the files make up, completely or not at all.

    `weights` is the folder with the tokenizer's file, the usual one if None. UnreadableInput for
    files that cannot be read or do not belong together, a tensor that is missing, unknown or of
    another shape, and if `out` exists.
    """
    require_new(out)
    files = [read_published(path) for path in paths]
    if [file.key for file in files] == [QURE]:
        return import_qure(files[0], out, dataset_of(files, dataset), weights)
    layout = layout_of(files)
    recipe = system_recipe(f"{layout.system}-{dataset_of(files, dataset)}")
    recipe = replace(recipe, **layout.changes)
    system = new_system(recipe, weights, "empty")
    fill(system, files)
    parts = {"scorer": system.stored_weights()}
    if not isinstance(system, Sprc):
        parts[FROZEN] = system.frozen_weights()
    with atomic_folder(out) as draft:
        saved = checkpoints.save(draft, checkpoints.BEST, about(system, recipe, files), parts)
        write_system_card(saved)
    return Checkpoint(out / saved.path.name, saved.about)


def fill(system: System, files: Sequence[PublishedFile]) -> None:
    """Give a system the weights of its files; raises as `import_weights`."""
    if isinstance(system, Sprc):
        fill_sprc(system, files[0].tensors, files[0].path)
        return
    by_key = {file.key: file for file in files}
    backbone = system.get_submodule("backbone")
    backbone.load_state_dict(backbone_tensors(by_key, backbone.state_dict()))
    if "Combiner" in by_key:
        file, combiner = by_key["Combiner"], system.get_submodule("combiner")
        combiner.load_state_dict(
            matched(file.tensors, combiner.state_dict(), lambda name: name, file.path)
        )


def backbone_tensors(
    by_key: Mapping[str, PublishedFile], wanted: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The backbone's weights, checked one by one and under our names."""
    if "CLIP" in by_key:
        file = by_key["CLIP"]
        return clip_tensors(file.tensors, wanted, file.path)
    if "BLIPTextEncoder" in by_key:
        image, text = by_key["model"], by_key["BLIPTextEncoder"]
        sides = [
            {name: wanted[name] for name in wanted if name.startswith(side)}
            for side in ("image.", "text.")
        ]
        return {
            **blip_tensors(image.tensors, sides[0], image.path, BLIP_TEXT),
            **blip_tensors(text.tensors, sides[1], text.path),
        }
    file = by_key.get("model") or by_key["BLIP_Retrieval"]
    return blip_tensors(file.tensors, wanted, file.path)


def about(system: System, recipe: SystemRecipe, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """What the checkpoint's JSON file says."""
    return {
        "recipe": recipe.to_json(),
        "stage": 2 if any(file.key == "Combiner" for file in files) else 1,
        **encoder_of(system.backbone),
        IMPORTED_FROM: origins(files),
    }
