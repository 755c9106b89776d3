"""Published weights as a checkpoint of a retrieval system, or, of QuRe, of a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import Checkpoint, write_card
from hsfiq.model.encoders.hf import HF_VIT, VIT, to_hf
from hsfiq.model.encoders.hf_conversion import atomic_folder, require_new
from hsfiq.model.recipes import Recipe, recipe
from hsfiq.model.retrieval import system_card
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.sprc import Sprc
from hsfiq.model.retrieval.system import FROZEN, System
from hsfiq.model.retrieval.weights import (
    QURE,
    REMEDY,
    Dataset,
    PublishedFile,
    blip_tensors,
    clip_tensors,
    matched,
    read_published,
    require_like,
)
from hsfiq.model.scorer.loading import copy_parameters, new_scorer
from hsfiq.model.scorer.run import DATA, SCORES, encoder_of, recipe_lines
from hsfiq.model.scorer.scorer import trained_parameters
from hsfiq.model.system_recipes import SystemName, SystemRecipe, system_recipe

# Which published files make which retrieval system.


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys of a system's files.

    Attributes:
        changes: what its authors' code does otherwise than the system's recipe.
        hint: what to add if a file is missing.
    """

    system: SystemName
    needs: tuple[str, ...]
    may_have: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""


LAYOUTS = (
    Layout(
        "clip4cir",
        ("CLIP",),
        ("Combiner",),
        hint="add CLIP4CIR's tuned CLIP (tuned_clip_*.pt)",
    ),
    Layout(
        "bi-blip4cir",
        ("BLIPTextEncoder", "model"),
        ("Combiner",),
        changes={"direction": "code"},
        hint="add Bi-BLIP4CIR's text encoder (tuned_blip_*.pt) and BLIP's model_base.pth",
    ),
    Layout("covr-blip", ("model",)),
    # BLIP4CIR, from SPN4CIR's repository (blip4cir/ at 7edaf9f): it composes as CoVR-BLIP does, but
    # pads images, reads texts as they are, and was trained on one of four texts.
    Layout(
        "covr-blip",
        ("BLIP_Retrieval",),
        changes={
            "backbone": "blip-base",
            "pad_ratio": 1.25,
            "text": "as-is",
            "captions": "four-way",
        },
    ),
    Layout("sprc", ("Blip2QformerCirAlignPrompt",), changes={"backbone": "blip2-hf"}),
)


def layout_of(files: Sequence[PublishedFile]) -> Layout:
    """The layout that these files make up; UnreadableInput if they are of none, or of two."""
    keys = [file.key for file in files]
    twice = next((file for file in files if keys.count(file.key) > 1), None)
    if twice is not None:
        raise UnreadableInput(
            str(twice.path), f"is the second file with {twice.key!r}", "name one of the two"
        )
    for layout in LAYOUTS:
        if set(layout.needs) <= set(keys) <= {*layout.needs, *layout.may_have}:
            return layout
    hints = [each.hint for each in LAYOUTS if set(keys) < {*each.needs, *each.may_have}]
    raise UnreadableInput(
        ", ".join(str(file.path) for file in files),
        f"weights of {', '.join(map(repr, keys))}, which do not form one system",
        "; or ".join(filter(None, hints)) or "name the files of one system",
    )


def dataset_of(files: Sequence[PublishedFile], stated: Dataset | None) -> Dataset:
    """The training data of the files; UnreadableInput if that is unknown or contradictory."""
    known = {file.known.dataset: file for file in files if file.known and file.known.dataset}
    if len(known) > 1:
        names = " and ".join(file.description for file in known.values())
        raise UnreadableInput(
            ", ".join(str(file.path) for file in known.values()),
            f"are {names}, with different training data",
            "name files with the same training data",
        )
    for dataset, file in known.items():
        if dataset is not None and stated not in (None, dataset):
            raise UnreadableInput(
                str(file.path), f"is {file.description} for {dataset}, not {stated}"
            )
        if dataset is not None:
            return dataset
    if stated is None:
        raise UnreadableInput(
            ", ".join(str(file.path) for file in files),
            "do not state their training data",
            "add --dataset fashioniq or --dataset cirr",
        )
    return stated


# SPRC's tensors, which have LAVIS' names, as those of BLIP-2 through transformers.
#
# Its file holds the image encoder too, which SPRC does not train.

PROMPTS, TEMPERATURE = "prompt_tokens", "temp"

CLIP_NORM = "visual_encoder.ln_pre.weight"
"""Of CLIP's ViT alone, which the files with `vitl` in their names hold."""

_HF = "encoder.hf."


def fill_sprc(system: Sprc, published: Mapping[str, Tensor], file: Path) -> None:
    """Give SPRC on `blip2-hf` the weights of its file; the image encoder has to be the same.

    UnreadableInput, as `matched`, and for another image encoder.
    """
    if CLIP_NORM in published:
        raise UnreadableInput(
            str(file),
            "is SPRC on CLIP's ViT-L, an image encoder that transformers' BLIP-2 lacks",
            "take the file on ViT-g (sprc_fiq.pt, sprc_cirr.pt), or train sprc-fashioniq or "
            "sprc-cirr with --set backbone=blip2-vitL",
        )
    missing = [name for name in (PROMPTS, TEMPERATURE) if name not in published]
    if missing:
        raise UnreadableInput(str(file), f"lacks {missing[0]}", REMEDY)
    prompts, temperature = published[PROMPTS], published[TEMPERATURE]
    require_like(prompts, system.prompts.unsqueeze(0), PROMPTS, file)  # [1, Q, H]
    require_like(temperature, system.temperature, TEMPERATURE, file)
    backbone = system.get_submodule("backbone")
    rest = {name: published[name] for name in published if name != PROMPTS}
    fill_backbone(backbone, to_hf(rest, str(file)), file)
    with torch.no_grad():
        system.prompts.copy_(prompts[0])
        system.temperature.copy_(temperature)


def fill_backbone(backbone: nn.Module, tensors: Mapping[str, Tensor], file: Path) -> None:
    wanted = {
        name.removeprefix(_HF): value
        for name, value in backbone.state_dict().items()
        if name.startswith(_HF)
    }
    checked = matched(tensors, wanted, str, file)
    for name, value in checked.items():
        # The published file has this part in half precision.
        if name.startswith(HF_VIT) and not torch.equal(value.half(), wanted[name].half()):
            raise UnreadableInput(
                str(file),
                f"its image encoder differs from the BLIP-2 in the folder of weights, in {name}",
                "name the folder of the BLIP-2 that it was trained on with --weights",
            )
    trained = {f"{_HF}{name}": checked[name] for name in checked if not name.startswith(HF_VIT)}
    backbone.load_state_dict(trained, strict=False)


# QuRe's published `model.pth` as a scorer's checkpoint.
#
# The file is the state of a LAVIS BLIP-2 with the frozen image encoder in half precision. As every
# checkpoint of a scorer, the imported one holds what was trained alone; loading it takes LAVIS and
# its published files.

LAVIS = "encoder.lavis."
SCORER_TEMPERATURE = "encoder.temperature"


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
        name: tensors["temp" if name == SCORER_TEMPERATURE else name.removeprefix(LAVIS)]
        for name in parameters
    }
    copy_parameters(trained, parameters, str(file.path))
    about = {
        "recipe": named.to_json(),
        "data": {"name": dataset},
        **encoder_of(scorer.encoder),
        system_card.IMPORTED_FROM: system_card.origins([file]),
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
    what = f"{SCORES} Encoder: `{named.encoder}`."
    write_card(
        checkpoint.path.parent,
        f"QuRe's retriever, trained on {DATA[named.dataset]} by its authors, as a scorer",
        [what],
        {
            **system_card.card_section(checkpoint.about),
            "Recipe": recipe_lines(recipe(named.name), named, ("strategy",)),
            "Use": ["```bash", "hsfiq score RELEASE --checkpoint FOLDER", "```"],
        },
        tags=("relevance-score", named.dataset),
    )


# Published weights as a checkpoint of a retrieval system, or, of QuRe, of a scorer.
#
# The checkpoint holds every weight, the frozen ones too, so only the tokenizer's file is needed
# beside it. SPRC's does not: it needs the published BLIP-2, as a scorer does.

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
        system_card.write_system_card(saved)
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
    """The content of the checkpoint's JSON file."""
    return {
        "recipe": recipe.to_json(),
        "stage": 2 if any(file.key == "Combiner" for file in files) else 1,
        **encoder_of(system.backbone),
        system_card.IMPORTED_FROM: system_card.origins(files),
    }
