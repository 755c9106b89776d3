"""Pre-trained backbones from the files of their authors. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import default_folder, read_tensors
from hsfiq.model.encoders.hf.weight_files import read_safetensors
from hsfiq.model.retrieval.backbones import blip
from hsfiq.model.retrieval.backbones.blip import Blip
from hsfiq.model.retrieval.backbones.blip_sizes import BASE, LARGE
from hsfiq.model.retrieval.backbones.clip import model as clip
from hsfiq.model.retrieval.backbones.clip.model import Clip
from hsfiq.model.retrieval.weights.blip_names import blip_tensors
from hsfiq.model.retrieval.weights.clip_names import clip_tensors

Start = Literal["published", "frozen", "empty"]
"""What the weights of CLIP or BLIP are before training or loading: all published ones; the frozen
ones alone, because a checkpoint has the others; or none, because a checkpoint has all. BLIP-2
always has all published ones: no checkpoint holds its image encoder."""

HUB = "https://huggingface.co"
BLIP_STORE = "https://storage.googleapis.com/sfr-vision-language-research/BLIP/models"

FILES = {
    clip.NAME: (
        "resnet50x4_clip.openai/open_clip_model.safetensors",
        f"{HUB}/timm/resnet50x4_clip.openai",
    ),
    BASE.name: ("model_base.pth", f"{BLIP_STORE}/model_base.pth"),
    LARGE.name: (
        "model_large_retrieval_coco.pth",
        f"{BLIP_STORE}/model_large_retrieval_coco.pth",
    ),
}
"""Each backbone's file in the folder of weights, and where it is published."""


def load_towers(
    name: str, folder: Path | None, start: Start, *, reads_images: bool = False
) -> Clip | Blip:
    """Build a backbone by name; `folder` is that of published files, the usual one if None.

    `reads_images` gives BLIP's text encoder cross-attention; CLIP's has none.

    UnreadableInput, with its address, for a missing file.
    """
    folder = folder or default_folder()
    # CLIP has no frozen weights, so a checkpoint holds all.
    needs_file = start == "published" or (start == "frozen" and name != clip.NAME)
    file = required(folder / FILES[name][0], name) if needs_file else None
    model = (
        clip.build(folder, None)
        if name == clip.NAME
        else blip.build(name, folder, None, reads_images=reads_images)
    )
    if file is None:
        return model
    if isinstance(model, Clip):
        return filled_clip(model, file)
    return filled_blip(model, file, frozen_only=start == "frozen")


def required(file: Path, name: str) -> Path:
    if not file.is_file():
        raise UnreadableInput(
            str(file),
            f"{name} lacks its published weights ({FILES[name][1]})",
            "download the file there, or name the folder that has it with --weights",
        )
    return file


def filled_clip(model: Clip, file: Path) -> Clip:
    """Give CLIP the weights of a file with OpenAI's names, which is open_clip's layout too."""
    model.load_state_dict(clip_tensors(read_safetensors(file), model.state_dict(), file))
    return model


def filled_blip(model: Blip, file: Path, *, frozen_only: bool) -> Blip:
    """Give BLIP the weights of one of its authors' files: all, or only those never trained."""
    wanted = model.state_dict()
    unused: tuple[str, ...] = ()
    if frozen_only:
        wanted = {name: wanted[name] for name in wanted if name.startswith(model.frozen)}
        unused = ("vision_proj.", "text_encoder.", "text_proj.")
    tensors = blip_tensors(read_tensors(file, key="model"), wanted, file, unused)
    model.load_state_dict(tensors, strict=not frozen_only)
    return model
