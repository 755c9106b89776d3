"""Missing or damaged weights, or those of another model, give one clear line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders.blip2_weights import (
    ARCHITECTURES,
    Architecture,
    default_folder,
    read_tensors,
)
from hsfiq.model.encoders.lavis import from_files, load


def complaint(architecture: Architecture, weights: Path) -> str:
    with pytest.raises(UnreadableInput) as error_info:
        from_files(architecture, weights)
    line = str(error_info.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_missing_files_are_named_with_their_source(name: str, tmp_path: Path) -> None:
    (tmp_path / "bert-base-uncased").mkdir()
    (tmp_path / "bert-base-uncased" / "vocab.txt").touch()
    with pytest.raises(UnreadableInput) as error_info:
        load(name, tmp_path)
    line = str(error_info.value)
    assert "\n" not in line
    assert line.startswith(f"{tmp_path}: {name} lacks ")
    store = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2/"
    assert f"({store}{ARCHITECTURES[name].checkpoint})" in line
    assert "https://huggingface.co/bert-base-uncased/resolve/main/config.json" in line
    assert "vocab.txt" not in line
    assert "--weights" in line


def test_an_unknown_name_lists_the_known_names(tmp_path: Path) -> None:
    with pytest.raises(
        HsfiqError, match="blip2-huge: choose from blip2-vitL, blip2-vitg, blip2-coco"
    ):
        load("blip2-huge", tmp_path)


def test_the_folder_of_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HSFIQ_WEIGHTS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "hsfiq" / "weights"
    monkeypatch.setenv("HSFIQ_WEIGHTS", "/elsewhere")
    assert default_folder() == Path("/elsewhere")


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("which", ["checkpoint", "vit_file"])
def test_a_truncated_file(
    architecture: Architecture, weights: Path, which: str, share: float
) -> None:
    file = weights / getattr(architecture, which)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    line = complaint(architecture, weights)
    assert line.startswith(f"{file}: is not a complete PyTorch file")
    assert "download it again" in line


@given(content=st.binary(max_size=200))
def test_files_that_are_not_pytorch_files(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("anything") / "weights.pth"
    file.write_bytes(content)
    with pytest.raises(UnreadableInput, match=r"is not a complete PyTorch file|holds no tensors"):
        read_tensors(file)


def change(file: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    content = torch.load(file)
    edit(content.get("model", content))
    torch.save(content, file)


def test_a_checkpoint_that_lacks_a_part(architecture: Architecture, weights: Path) -> None:
    file = weights / architecture.checkpoint
    change(file, lambda tensors: [tensors.pop(f"text_proj.{n}") for n in ("weight", "bias")])
    line = complaint(architecture, weights)
    assert line == f"{file}: lacks text_proj.weight, text_proj.bias; use the file of this model"


def test_a_checkpoint_with_other_names(architecture: Architecture, weights: Path) -> None:
    file = weights / architecture.checkpoint
    tensors = torch.load(file)["model"]
    torch.save({"model": {f"module.{name}": tensor for name, tensor in tensors.items()}}, file)
    line = complaint(architecture, weights)
    assert "lacks query_tokens, " in line
    assert "and has module.query_tokens, " in line


def test_an_image_encoder_without_a_tensor(architecture: Architecture, weights: Path) -> None:
    file = weights / architecture.vit_file
    change(file, lambda tensors: tensors.pop(next(iter(tensors))))
    assert complaint(architecture, weights).startswith(f"{file}: lacks ")


def test_a_tensor_of_another_shape(architecture: Architecture, weights: Path) -> None:
    file = weights / architecture.checkpoint
    change(file, lambda tensors: tensors.update({"vision_proj.bias": torch.zeros(128)}))
    line = complaint(architecture, weights)
    assert line == f"{file}: vision_proj.bias is [128], not [256]; use the file of this model"


@pytest.mark.parametrize("content", [{}, {"model": 3}, {"model": {"temp": "0.07"}}, [1, 2]])
def test_a_pytorch_file_without_tensors(
    architecture: Architecture, weights: Path, content: object
) -> None:
    file = weights / architecture.checkpoint
    torch.save(content, file)
    line = complaint(architecture, weights)
    assert line == f"{file}: holds no tensors by name under the key 'model'"


def test_tensors_that_no_score_depends_on_may_be_missing(
    architecture: Architecture, weights: Path
) -> None:
    def strip(tensors: dict[str, torch.Tensor]) -> None:
        for name in [n for n in tensors if n.startswith(("itm_head", "Qformer.cls", "temp"))]:
            del tensors[name]

    assert from_files(architecture, weights).temperature.item() == pytest.approx(0.05)
    change(weights / architecture.checkpoint, strip)
    assert from_files(architecture, weights).temperature.item() == pytest.approx(0.07)


def test_invalid_vocabularies_and_bert_configs(weights: Path, architecture: Architecture) -> None:
    vocabulary, config = (weights / "bert-base-uncased" / n for n in ("vocab.txt", "config.json"))
    words = vocabulary.read_text()
    vocabulary.write_text(words.replace("[UNK]\n", ""))
    assert "lacks [UNK]" in complaint(architecture, weights)
    vocabulary.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in complaint(architecture, weights)
    vocabulary.write_text(words + "silk\n")
    assert "word_embeddings.weight is [30, 32], not [31, 32]" in complaint(architecture, weights)
    vocabulary.write_text(words)
    for content in ("{", "[]", json.dumps({"hidden_size": 30, "num_attention_heads": 4})):
        config.write_text(content)
        assert str(config) in complaint(architecture, weights)


# The names in the published files.
BLOCK = {
    "clip": [
        *("attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj.weight", "attn.out_proj.bias"),
        *("mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"),
        *("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"),
    ],
    "eva": [
        *("attn.qkv.weight", "attn.q_bias", "attn.v_bias", "attn.proj.weight", "attn.proj.bias"),
        *("mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "mlp.fc2.bias"),
        *("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"),
    ],
}
AROUND = {
    "clip": [
        *("class_embedding", "positional_embedding", "conv1.weight"),
        *("ln_pre.weight", "ln_pre.bias"),
    ],
    "eva": ["cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"],
}
BLOCKS = {"clip": "transformer.resblocks", "eva": "blocks"}


def test_image_encoders_have_the_published_names(architecture: Architecture, weights: Path) -> None:
    kind = architecture.vit.kind
    encoder = from_files(architecture, weights).lavis.visual_encoder
    assert set(encoder.state_dict()) == {
        *AROUND[kind],
        *(f"{BLOCKS[kind]}.{block}.{name}" for block in (0, 1) for name in BLOCK[kind]),
    }


def test_the_checkpoint_has_the_published_names(architecture: Architecture, weights: Path) -> None:
    names = torch.load(weights / architecture.checkpoint)["model"].keys()
    layer = "Qformer.bert.encoder.layer"
    assert {
        *("query_tokens", "temp", "ln_vision.weight", "vision_proj.weight", "text_proj.bias"),
        *("Qformer.bert.embeddings.word_embeddings.weight", "itm_head.weight"),
        f"{layer}.2.crossattention.self.query.weight",
        f"{layer}.1.attention.output.LayerNorm.bias",
        *(f"{layer}.1.{part}.dense.weight" for part in ("intermediate", "output")),
        *(f"{layer}.1.{part}.dense.weight" for part in ("intermediate_query", "output_query")),
    } <= names
    assert not any(name.startswith((f"{layer}.1.cross", "visual_encoder.")) for name in names)
