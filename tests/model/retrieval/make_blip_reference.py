"""Make `tests/model/fixtures/blip_small*` anew: what BLIP's own code computes, at a small size.

LAVIS has BLIP's encoders with the names of its published files; run this in LAVIS' environment.
"""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from lavis.models.med import BertConfig, BertModel
from lavis.models.vit import VisionTransformer
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import BertTokenizer

FOLDER = Path(__file__).parents[1] / "fixtures"
SIZES = {
    "name": "blip-small",
    "size": 32,
    "patch": 8,
    "width": 24,
    "blocks": 2,
    "heads": 2,
    "text_width": 16,
    "text_layers": 2,
    "text_heads": 2,
    "positions": 100,
    "dim": 8,
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *SPECIAL,
    *("is", "has", "red", "blue", "green", "striped", "shirt", "sleeves", "long", "short"),
    *("##er", "dark", "and", "more", "the", "a", ".", ",", "[", "]"),
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"),
    *"abcdefghijklmnopqrstuvwxyz"[1:],
]
TEXTS = [
    "is red",
    "Has LONGER sleeves, and is more striped",
    " ".join(["red", "blue", "and", "green"] * 30),
]
N_IMAGES = 2


class Blip(nn.Module):
    """The parts that BLIP's retrieval models consist of, by their names in the files."""

    def __init__(self) -> None:
        super().__init__()
        self.visual_encoder = VisionTransformer(
            img_size=SIZES["size"],
            patch_size=SIZES["patch"],
            embed_dim=SIZES["width"],
            depth=SIZES["blocks"],
            num_heads=SIZES["heads"],
        )
        config = BertConfig(
            vocab_size=len(WORDS) + 2,
            hidden_size=SIZES["text_width"],
            num_hidden_layers=SIZES["text_layers"],
            num_attention_heads=SIZES["text_heads"],
            intermediate_size=4 * SIZES["text_width"],
            max_position_embeddings=SIZES["positions"],
            hidden_act="gelu",
            layer_norm_eps=1e-12,
            encoder_width=SIZES["width"],
            add_cross_attention=True,
            add_type_embeddings=False,
        )
        self.text_encoder = BertModel(config=config, add_pooling_layer=False)
        self.vision_proj = nn.Linear(SIZES["width"], SIZES["dim"])
        self.text_proj = nn.Linear(SIZES["text_width"], SIZES["dim"])


def tokenizer() -> BertTokenizer:
    """BLIP's tokenizer with few words."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(WORDS) + "\n")
        file.flush()
        bert = BertTokenizer(file.name)
    bert.add_special_tokens({"bos_token": "[DEC]"})
    bert.add_special_tokens({"additional_special_tokens": ["[ENC]"]})
    return bert


@torch.no_grad()
def outputs(blip: Blip, pixels: Tensor) -> dict[str, Tensor]:
    """Image tokens, and vectors of images, texts, and texts that read image 0, 1, 0."""
    bert = tokenizer()
    tokens = blip.visual_encoder(pixels)
    computed = {"tokens": tokens, "image": blip.vision_proj(tokens[:, 0])}
    alone = bert(TEXTS, padding=True, truncation=True, max_length=77, return_tensors="pt")
    states = blip.text_encoder(
        alone.input_ids, attention_mask=alone.attention_mask, return_dict=True, mode="text"
    ).last_hidden_state
    computed["text"] = blip.text_proj(states[:, 0])
    read = bert(TEXTS, padding=True, truncation=True, max_length=64, return_tensors="pt")
    read.input_ids[:, 0] = bert.additional_special_tokens_ids[0]
    references = tokens[torch.arange(len(TEXTS)) % N_IMAGES]
    states = blip.text_encoder(
        read.input_ids,
        attention_mask=read.attention_mask,
        encoder_hidden_states=references,
        encoder_attention_mask=torch.ones(references.shape[:2], dtype=torch.long),
        return_dict=True,
    ).last_hidden_state
    computed["fused"] = blip.text_proj(states[:, 0])
    return computed


def main() -> None:
    """Write both files."""
    torch.manual_seed(13)
    torch.set_num_threads(1)
    blip = Blip().eval()
    for parameter in blip.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
        parameter.data = parameter.data.half().float()
    pixels = torch.randn(N_IMAGES, 3, SIZES["size"], SIZES["size"])
    tensors = {
        f"weights/{name}": tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in blip.state_dict().items()
    }
    tensors["inputs/pixels"] = pixels
    tensors |= {f"outputs/{name}": value for name, value in outputs(blip, pixels).items()}
    path = FOLDER / "blip_small.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    path.chmod(0o644)
    about = {
        "versions": {name: version(name) for name in ("salesforce-lavis", "transformers", "torch")},
        "sizes": SIZES,
        "words": WORDS,
        "texts": TEXTS,
        "tokenized": [[text, tokenizer()(text).input_ids] for text in TEXTS],
    }
    (FOLDER / "blip_small.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
