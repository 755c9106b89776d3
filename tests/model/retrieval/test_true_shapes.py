"""Files of the published layouts at their true shapes: every name is read, and no other expected.

The names and shapes are written out here from the architectures, not from the code under test.
A tensor of these files has one number in memory and the whole shape.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsfiq.model.retrieval.blip import (
    BASE,
    LARGE,
    Blip,
    BlipCrossAttention,
    BlipSizes,
    tokenizer_of,
)
from hsfiq.model.retrieval.clip import RN50X4_IMAGE, RN50X4_TEXT, Clip
from hsfiq.model.retrieval.import_weights import BLIP_TEXT
from hsfiq.model.retrieval.system import Combiner
from hsfiq.model.retrieval.weights import blip_tensors, clip_tensors, matched, read_published

Shapes = dict[str, tuple[int, ...]]


@pytest.fixture(autouse=True)
def numbers_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are the same: checking hundreds of millions of them would take memory and time."""
    monkeypatch.setattr(Tensor, "isfinite", lambda _: torch.ones((), dtype=torch.bool))


def linear(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def batch_norm(name: str, width: int) -> Shapes:
    return {
        **norm(name, width),
        f"{name}.running_mean": (width,),
        f"{name}.running_var": (width,),
        f"{name}.num_batches_tracked": (),
    }


def rn50x4() -> Shapes:
    """CLIP RN50x4 with OpenAI's names."""
    shapes: Shapes = {"logit_scale": (), "text_projection": (640, 640)}
    for i, (outputs, inputs) in enumerate(((40, 3), (40, 40), (80, 40)), start=1):
        shapes[f"visual.conv{i}.weight"] = (outputs, inputs, 3, 3)
        shapes |= batch_norm(f"visual.bn{i}", outputs)
    channels = 80
    for layer, (blocks, inner) in enumerate(((4, 80), (6, 160), (10, 320), (6, 640)), start=1):
        for block in range(blocks):
            name = f"visual.layer{layer}.{block}"
            kernels = ((inner, channels, 1), (inner, inner, 3), (4 * inner, inner, 1))
            for i, (outputs, inputs, side) in enumerate(kernels, start=1):
                shapes[f"{name}.conv{i}.weight"] = (outputs, inputs, side, side)
                shapes |= batch_norm(f"{name}.bn{i}", outputs)
            if block == 0:
                shapes[f"{name}.downsample.0.weight"] = (4 * inner, channels, 1, 1)
                shapes |= batch_norm(f"{name}.downsample.1", 4 * inner)
            channels = 4 * inner
    shapes["visual.attnpool.positional_embedding"] = (82, 2560)
    for letter in "qkv":
        shapes |= linear(f"visual.attnpool.{letter}_proj", 2560, 2560)
    shapes |= linear("visual.attnpool.c_proj", 640, 2560)
    shapes |= {"token_embedding.weight": (49408, 640), "positional_embedding": (77, 640)}
    for i in range(12):
        name = f"transformer.resblocks.{i}"
        shapes |= {f"{name}.attn.in_proj_weight": (1920, 640), f"{name}.attn.in_proj_bias": (1920,)}
        shapes |= linear(f"{name}.attn.out_proj", 640, 640)
        shapes |= linear(f"{name}.mlp.c_fc", 2560, 640) | linear(f"{name}.mlp.c_proj", 640, 2560)
        shapes |= norm(f"{name}.ln_1", 640) | norm(f"{name}.ln_2", 640)
    return shapes | norm("ln_final", 640)


def blip_image(width: int, blocks: int) -> Shapes:
    shapes: Shapes = {
        "visual_encoder.cls_token": (1, 1, width),
        "visual_encoder.pos_embed": (1, 577, width),
        "visual_encoder.patch_embed.proj.weight": (width, 3, 16, 16),
        "visual_encoder.patch_embed.proj.bias": (width,),
        **norm("visual_encoder.norm", width),
        **linear("vision_proj", 256, width),
    }
    for i in range(blocks):
        name = f"visual_encoder.blocks.{i}"
        shapes |= norm(f"{name}.norm1", width) | norm(f"{name}.norm2", width)
        shapes |= linear(f"{name}.attn.qkv", 3 * width, width)
        shapes |= linear(f"{name}.attn.proj", width, width)
        shapes |= linear(f"{name}.mlp.fc1", 4 * width, width)
        shapes |= linear(f"{name}.mlp.fc2", width, 4 * width)
    return shapes


def blip_text(image_width: int) -> Shapes:
    shapes: Shapes = {
        "text_encoder.embeddings.position_ids": (1, 512),
        "text_encoder.embeddings.word_embeddings.weight": (30524, 768),
        "text_encoder.embeddings.position_embeddings.weight": (512, 768),
        **norm("text_encoder.embeddings.LayerNorm", 768),
        **linear("text_proj", 256, 768),
    }
    for i in range(12):
        name = f"text_encoder.encoder.layer.{i}"
        for attention, width in (("attention", 768), ("crossattention", image_width)):
            shapes |= linear(f"{name}.{attention}.self.query", 768, 768)
            shapes |= linear(f"{name}.{attention}.self.key", 768, width)
            shapes |= linear(f"{name}.{attention}.self.value", 768, width)
            shapes |= linear(f"{name}.{attention}.output.dense", 768, 768)
            shapes |= norm(f"{name}.{attention}.output.LayerNorm", 768)
        shapes |= linear(f"{name}.intermediate.dense", 3072, 768)
        shapes |= linear(f"{name}.output.dense", 768, 3072)
        shapes |= norm(f"{name}.output.LayerNorm", 768)
    return shapes


def combiner(dim: int) -> Shapes:
    return {
        **linear("text_projection_layer", 2560, dim),
        **linear("image_projection_layer", 2560, dim),
        **linear("combiner_layer", 5120, 5120),
        **linear("output_layer", dim, 5120),
        **linear("dynamic_scalar.0", 5120, 5120),
        **linear("dynamic_scalar.3", 1, 5120),
    }


def written(path: Path, key: str, shapes: Shapes) -> dict[str, Tensor]:
    """The tensors of a file with these shapes, written and read."""
    tensors = {
        name: torch.zeros((), dtype=torch.long if name.endswith("tracked") else None).expand(shape)
        for name, shape in shapes.items()
    }
    torch.save({"epoch": 1, key: tensors}, path)
    assert path.stat().st_size < 2**20
    return read_published(path).tensors


def meta_blip(kind: type[Blip], sizes: BlipSizes) -> dict[str, Tensor]:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(30_517))]
    tokenizer = tokenizer_of(words)
    with torch.device("meta"):
        return kind(sizes, tokenizer).state_dict()


def test_clip4cir(tmp_path: Path) -> None:
    with torch.device("meta"):
        wanted = Clip(RN50X4_IMAGE, RN50X4_TEXT, None).state_dict()
    tensors = written(tmp_path / "file.pt", "CLIP", rn50x4())
    assert len(tensors) == 669  # as open_clip's RN50x4-quickgelu
    assert clip_tensors(tensors, wanted, tmp_path).keys() == wanted.keys()


def test_bi_blip4cir(tmp_path: Path) -> None:
    wanted = meta_blip(Blip, BASE)
    image, text = (
        {name: wanted[name] for name in wanted if name.startswith(side)}
        for side in ("image.", "text.")
    )
    base = written(tmp_path / "base.pth", "model", blip_image(768, 12) | blip_text(768))
    tuned = written(tmp_path / "tuned.pt", "BLIPTextEncoder", blip_text(768))
    assert blip_tensors(base, image, tmp_path, BLIP_TEXT).keys() == image.keys()
    assert blip_tensors(tuned, text, tmp_path).keys() == text.keys()


@pytest.mark.parametrize(("width", "blocks", "sizes"), [(1024, 24, LARGE), (768, 12, BASE)])
def test_covr_blip_and_blip4cir(tmp_path: Path, width: int, blocks: int, sizes: BlipSizes) -> None:
    wanted = meta_blip(BlipCrossAttention, sizes)
    shapes = blip_image(width, blocks) | blip_text(width)
    tensors = written(tmp_path / "ckpt_5.ckpt", "model", shapes)
    assert blip_tensors(tensors, wanted, tmp_path).keys() == wanted.keys()


@pytest.mark.parametrize("dim", [640, 256])
def test_combiners(tmp_path: Path, dim: int) -> None:
    with torch.device("meta"):
        wanted = Combiner(dim, 2560, 5120, dropout=0.5).state_dict()
    tensors = written(tmp_path / "combiner.pt", "Combiner", combiner(dim))
    assert matched(tensors, wanted, str, tmp_path).keys() == wanted.keys()
