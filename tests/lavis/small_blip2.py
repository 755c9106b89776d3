"""Models with LAVIS' own classes, small enough to run in milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from lavis.models.blip2_models.Qformer import BertConfig
from torch import Tensor

from hsfiq.model.encoders.blip2_weights import Architecture, Vit
from hsfiq.model.encoders.lavis_model import LocalBlip2Qformer

BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 29,
    "hidden_dropout_prob": 0.1,
}
WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("is", "and", "more", "less", "red", "blue", "green", "dress", "shirt", "with", "sleeve"),
    *("##s", "long", "short", "has", "no", "the", "a", "logo", "striped", "##er", "dark", "light"),
    "than",
]

CLIP = Architecture(
    "blip2-small-clip",
    Vit("clip", size=42, width=24, blocks=2, heads=2),
    "small_clip.pth",
    "clip_vit.pth",
)
EVA = Architecture(
    "blip2-small-eva",
    Vit("eva", size=42, width=24, blocks=2, heads=2),
    "small_eva.pth",
    "eva_vit.pth",
)
WHOLE = Architecture("blip2-small-whole", EVA.vit, "small_whole.pth", None)
"""Its checkpoint holds the image encoder, as that of `coco` does."""

TEXTS = ["is red", "has long sleeves and no logo", "is darker", "more striped than the blue shirt"]


def write_weights(folder: Path, architecture: Architecture, seed: int) -> None:
    """Write files as published: tensors by LAVIS' names, BERT's vocabulary and config."""
    (folder / "bert-base-uncased").mkdir(parents=True)
    vocabulary = folder / "bert-base-uncased" / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n")
    (folder / "bert-base-uncased" / "config.json").write_text(json.dumps(BERT))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        lavis = LocalBlip2Qformer(architecture.vit, BertConfig(**BERT), vocabulary)
        for parameter in lavis.parameters():
            parameter.data += 0.02 * torch.randn(parameter.shape)
    lavis.temp.data.fill_(0.05)
    state = {name: tensor.clone() for name, tensor in lavis.state_dict().items()}
    vit = {n.removeprefix(VIT): t.half() for n, t in state.items() if n.startswith(VIT)}
    if architecture.vit_file is not None:
        torch.save(vit | one_block_more(architecture), folder / architecture.vit_file)
        state = {name: tensor for name, tensor in state.items() if not name.startswith(VIT)}
    torch.save({"model": state}, folder / architecture.checkpoint)


VIT = "visual_encoder."


def one_block_more(architecture: Architecture) -> dict[str, Tensor]:
    """The tensors in the image encoders' files that BLIP-2 does not use."""
    prefix = "transformer.resblocks" if architecture.vit.kind == "clip" else "blocks"
    return {f"{prefix}.{architecture.vit.blocks}.surplus": torch.zeros(3)}


def loss(tokens_of: list[Tensor], encoder: torch.nn.Module, texts: list[str]) -> Tensor:
    """The published loss of a batch: reference, positive and negative tokens (QuRe eq. 2)."""
    reference, positive, negative = tokens_of
    query = encoder.compose(reference, texts)
    scores = [
        torch.einsum("bd,bld->bl", query, encoder.gallery(tokens)).amax(dim=1)
        for tokens in (positive, negative)
    ]
    margin = (scores[0] - scores[1]) / encoder.temperature
    return torch.nn.functional.softplus(-margin).mean()
