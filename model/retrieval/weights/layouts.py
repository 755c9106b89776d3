"""Which published files make which retrieval system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.system_recipe import SystemName
from hsfiq.model.retrieval.weights.published_files import Dataset, PublishedFile


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
        f"weights of {', '.join(map(repr, keys))}, which do not make one system",
        "; or ".join(filter(None, hints)) or "name the files of one system",
    )


def dataset_of(files: Sequence[PublishedFile], stated: Dataset | None) -> Dataset:
    """What the files were trained on; UnreadableInput if that is unknown or contradictory."""
    known = {file.known.dataset: file for file in files if file.known and file.known.dataset}
    if len(known) > 1:
        names = " and ".join(file.description for file in known.values())
        raise UnreadableInput(
            ", ".join(str(file.path) for file in known.values()),
            f"are {names}, trained on different data",
            "name the files of one training",
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
            "do not say what they were trained on",
            "add --dataset fashioniq or --dataset cirr",
        )
    return stated
