"""Loading a model that ranks images: a retrieval system or a scorer, from its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.encoders.blip2_weights import default_folder, read_tensors
from hsfiq.model.encoders.encoder import FrozenEncoder, Retriever
from hsfiq.model.encoders.hf import read_safetensors
from hsfiq.model.encoders.registry import build_retriever, is_specification
from hsfiq.model.recipes import Recipe
from hsfiq.model.retrieval import blip, blip2, clip
from hsfiq.model.retrieval.backbone import CrossAttention, DirectedTowers, QFormer, TwoTowers
from hsfiq.model.retrieval.bi_blip4cir import BiBlip4cir
from hsfiq.model.retrieval.blip import BASE, LARGE, Blip, BlipCrossAttention
from hsfiq.model.retrieval.clip import Clip
from hsfiq.model.retrieval.clip4cir import Clip4cir
from hsfiq.model.retrieval.covr_blip import CovrBlip
from hsfiq.model.retrieval.mapnet import Mapnet
from hsfiq.model.retrieval.sprc import Sprc
from hsfiq.model.retrieval.system import FROZEN, System
from hsfiq.model.retrieval.tiny import TinyQFormer, TinyTowers
from hsfiq.model.retrieval.weights import blip_tensors, clip_tensors
from hsfiq.model.runtime import generator, seed_for
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.system_recipes import (
    BiBlip4cirRecipe,
    Clip4cirRecipe,
    CovrBlipRecipe,
    MapnetRecipe,
    SprcRecipe,
    SystemRecipe,
    ZeroShot,
    system_recipe_from_json,
)

# Pre-trained backbones from the files of their authors. Nothing is downloaded.

Start = Literal["published", "frozen", "empty"]
"""The weights of CLIP or BLIP before training or loading: all published ones; the frozen
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


# Building a backbone by its name.
#
# `weights` is the folder of published files, the usual one if None; `start` says which of a
# backbone's weights they give (`Start`).


def build_towers(
    recipe: SystemRecipe, weights: Path | None, start: Start, *, reads_images: bool = False
) -> TwoTowers:
    """Two encoders apart."""
    if recipe.backbone == "tiny":
        return TinyTowers(generator(recipe.seed, "backbone"))
    if recipe.backbone in FILES:
        towers = load_towers(recipe.backbone, weights, start, reads_images=reads_images)
        return prepared(towers, recipe)
    raise not_for(recipe, weights)


def build_directed_towers(
    recipe: SystemRecipe, weights: Path | None, start: Start
) -> DirectedTowers:
    """Two separate encoders; the text encoder takes a direction."""
    towers = build_towers(recipe, weights, start)
    if isinstance(towers, TinyTowers | Blip):
        return towers
    raise not_for(recipe, weights)


def build_cross_attention(
    recipe: SystemRecipe, weights: Path | None, start: Start
) -> CrossAttention:
    """Two encoders; the text encoder can read an image."""
    towers = build_towers(recipe, weights, start, reads_images=True)
    if isinstance(towers, TinyTowers | BlipCrossAttention):
        return towers
    raise not_for(recipe, weights)


def prepared(towers: Clip | Blip, recipe: SystemRecipe) -> Clip | Blip:
    """Pad images as the recipe says; UnreadableInput if it wants them of another size."""
    right = towers.preprocessing.size
    if recipe.size != right:
        raise UnreadableInput(
            f"size={recipe.size}",
            f"{recipe.backbone} takes images of {right} pixels",
            f"set size={right}",
        )
    towers.preprocessing = replace(towers.preprocessing, pad_ratio=recipe.pad_ratio)
    return towers


def build_qformer(recipe: SystemRecipe, weights: Path | None) -> QFormer:
    """A Q-Former."""
    if recipe.backbone == "tiny":
        return TinyQFormer(generator(recipe.seed, "backbone"))
    if recipe.backbone in ("blip2-vitL", "blip2-vitg", "blip2-hf"):
        return blip2.load(
            recipe.backbone, size=recipe.size, pad_ratio=recipe.pad_ratio, weights=weights
        )
    raise not_for(recipe, weights)


def not_for(recipe: SystemRecipe, weights: Path | None) -> UnreadableInput:
    return UnreadableInput(
        f"backbone={recipe.backbone}",
        f"{recipe.system} does not support this backbone" + (f" from {weights}" if weights else ""),
        "use the recipe's own backbone",
    )


# Building a system from its recipe.


def new_system(recipe: SystemRecipe, weights: Path | None, start: Start = "published") -> System:
    """The system before training, on a pre-trained backbone; new weights follow from the seed.

    `weights` is the folder of the backbones' published files; the usual one if None. `start` says
    which of its weights CLIP or BLIP takes from them, in case a checkpoint has the others; BLIP-2
    takes all. The small backbone's weights are drawn too.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed_for(recipe.seed, "weights"))
        return build_system(recipe, weights, start)


def build_system(recipe: SystemRecipe, weights: Path | None, start: Start) -> System:
    if isinstance(recipe, Clip4cirRecipe):
        return Clip4cir(build_towers(recipe, weights, start), recipe)
    if isinstance(recipe, BiBlip4cirRecipe):
        return BiBlip4cir(build_directed_towers(recipe, weights, start), recipe)
    if isinstance(recipe, CovrBlipRecipe):
        return CovrBlip(build_cross_attention(recipe, weights, start), recipe)
    if isinstance(recipe, SprcRecipe):
        return Sprc(build_qformer(recipe, weights), recipe)
    if isinstance(recipe, MapnetRecipe):
        return Mapnet(build_qformer(recipe, weights), recipe)
    raise TypeError(f"no system has recipes of {type(recipe).__name__}")


@dataclass(frozen=True, slots=True)
class LoadedRetriever:
    retriever: Retriever
    frozen_encoder: FrozenEncoder
    """Whose tokens the retriever reads; systems on the same backbone share their tokens."""
    recipe: Recipe | SystemRecipe | ZeroShot
    checkpoint: Checkpoint

    @property
    def system(self) -> str:
        """The name for ranked lists: the system's, or the recipe's of a scorer."""
        return self.recipe.system if isinstance(self.recipe, SystemRecipe) else self.recipe.name


def load_retriever(path: Path, weights: Path | None, device: torch.device) -> LoadedRetriever:
    """Load the system or the scorer of a checkpoint, or build an untrained one, `NAME:ARGUMENT`.

    `weights` is the folder of published files, which hold the frozen weights; the usual one if
    None. UnreadableInput for weights that the checkpoint was not trained on.
    """
    if is_specification(path):
        return zero_shot(str(path), device)
    checkpoint = checkpoints.read(path)
    recipe = recipe_of(checkpoint)
    if isinstance(recipe, SystemRecipe):
        system = load_system(checkpoint, recipe, weights).to(device)
        return LoadedRetriever(system, system.backbone, recipe, checkpoint)
    return retriever_of(load_scorer(path, weights, device))


def zero_shot(specification: str, device: torch.device) -> LoadedRetriever:
    """A retriever that is used as it was published, with what a checkpoint would record."""
    retriever = build_retriever(specification)
    retriever.train(mode=False)
    if isinstance(retriever, nn.Module):
        retriever.to(device)
    recipe = ZeroShot(retriever.name)
    about = {
        "recipe": recipe.to_json(),
        "encoder": {
            "name": retriever.name,
            "frozen_sha256": retriever.frozen_id(),
            "tokens": list(retriever.tokens_shape),
        },
        "files": {"scorer": {"sha256": digest_of(specification, retriever)}},
    }
    return LoadedRetriever(retriever, retriever, recipe, Checkpoint(Path(specification), about))


def digest_of(specification: str, retriever: Retriever) -> str:
    """Identifies the scores: the weights, and how the specification says to use them."""
    return sha256(f"{specification} {retriever.frozen_id()}".encode()).hexdigest()


def recipe_of(checkpoint: Checkpoint) -> Recipe | SystemRecipe:
    """The recipe of a system or a scorer; UnreadableInput if it is not one of this version."""
    value, where = checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe"
    if isinstance(value, dict) and "system" in value:
        return system_recipe_from_json(value, where)
    return Recipe.from_json(value, where)


def retriever_of(loaded: Loaded) -> LoadedRetriever:
    encoder = loaded.scorer.encoder
    return LoadedRetriever(encoder, encoder, loaded.recipe, loaded.checkpoint)


def load_system(checkpoint: Checkpoint, recipe: SystemRecipe, weights: Path | None) -> System:
    """The system of a checkpoint, as its stage left it; raises as `load_retriever`."""
    where = str(checkpoint.path)
    encoder, stage = (checkpoint.about.get(key) for key in ("encoder", "stage"))
    if not isinstance(encoder, dict) or not isinstance(stage, int):
        raise UnreadableInput(
            where, "does not record its stage and encoder", "copy the checkpoint again"
        )
    system = with_frozen_weights(checkpoint, recipe, weights)
    if encoder.get("frozen_sha256") != system.frozen_id():
        raise UnreadableInput(
            where,
            "was trained on other weights of the frozen image encoder",
            "name the folder of those weights with --weights",
        )
    system.begin(stage)
    system.load(checkpoint)
    return system


def with_frozen_weights(
    checkpoint: Checkpoint, recipe: SystemRecipe, weights: Path | None
) -> System:
    """A system for a checkpoint's weights; the frozen ones are its own, if it was imported."""
    if FROZEN not in checkpoint.about["files"]:
        return new_system(recipe, weights, "frozen")
    system = new_system(recipe, weights, "empty")
    system.load_frozen(checkpoint)
    return system
