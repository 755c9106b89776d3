"""Folders of BLIP-2's files for transformers: other layouts, and broken ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Blip2Config

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders import hf as hf_model
from hsfiq.model.encoders.blip2_weights import EVA_G
from hsfiq.model.encoders.hf import config_of, load, vit_of
from hsfiq.model.encoders.registry import build_encoder
from tests.model.encoders.lavis_reference import Reference, references

pytestmark = [
    pytest.mark.usefixtures("one_thread", "no_network"),
    pytest.mark.xdist_group("converted weights"),
]


def alter(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))


def older(config: dict[str, Any]) -> None:
    """Change the config to the format of older versions of transformers."""
    config["qformer_config"]["qformer_text_input"] = True
    del config["qformer_config"]["use_qformer_text_input"]


def in_parts(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    place = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(place.values()):
        save_file({name: tensors[name] for name in tensors if place[name] == file}, folder / file)
    index = {"metadata": {}, "weight_map": place}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@torch.no_grad()
@pytest.mark.parametrize(
    "edit",
    [
        lambda folder: alter(folder, older),
        lambda folder: alter(folder, lambda config: config.update(image_token_index=30523)),
        lambda folder: alter(
            folder, lambda config: config["vision_config"].update(dtype="float16")
        ),
        lambda folder: (folder / "vocab.txt").unlink(),
        lambda folder: (folder / "tokenizer.json").unlink(),
        in_parts,
    ],
    ids=["older", "image-token", "half", "tokenizer.json", "vocab.txt", "parts"],
)
def test_other_folders_of_the_same_model(
    reference: Reference, folder: Path, texts: list[str], edit: Callable[[Path], object]
) -> None:
    edit(folder)
    encoder = load(folder).eval()
    tokens = encoder.image_tokens(reference.pixels)
    query = encoder.compose(references(tokens, texts), texts)
    assert torch.allclose(query, reference.outputs["query"], atol=1e-5, rtol=0)
    assert encoder.frozen_id() == reference.about["frozen_id"]


@torch.no_grad()
def test_half_precision_on_disk_is_single_in_memory(reference: Reference, folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name: weight.half() for name, weight in tensors.items()}, folder / "model.safetensors"
    )
    encoder = load(folder).eval()
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    gallery = encoder.gallery(encoder.image_tokens(reference.pixels))
    assert torch.allclose(gallery, reference.outputs["gallery"], atol=1e-2)


def test_the_published_sizes() -> None:
    config = config_of(EVA_G, {}, 30523)
    assert vit_of(config) == vit_of(Blip2Config()) == EVA_G
    assert config.vision_config.to_dict() == Blip2Config().vision_config.to_dict()
    shapes = hf_model.shapes(config, "here")
    assert shapes["embeddings.word_embeddings.weight"].shape == (30523, 768)
    assert shapes["vision_model.encoder.layers.38.mlp.fc1.weight"].shape == (6144, 1408)


def complaint(folder: Path) -> str:
    with pytest.raises(UnreadableInput) as error_info:
        load(folder)
    line = str(error_info.value)
    assert "\n" not in line
    return line


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = complaint(tmp_path)
    assert line.startswith(f"{tmp_path}: blip2-hf lacks config.json, model.safetensors or ")
    assert "https://huggingface.co/Salesforce/blip2-itm-vit-g" in line
    assert f"hf download Salesforce/blip2-itm-vit-g --local-dir {tmp_path}" in line
    assert "--weights" in line
    monkeypatch.setenv("HSFIQ_WEIGHTS", str(tmp_path))
    with pytest.raises(UnreadableInput, match=f"^{tmp_path / 'blip2-itm-vit-g'}: blip2-hf lacks"):
        load(None)


def test_a_part_that_is_missing_is_named(folder: Path) -> None:
    in_parts(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "blip2-hf lacks model-00002-of-00002.safetensors (" in complaint(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "index.json: lists no files of tensors" in complaint(folder)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_a_truncated_file(folder: Path, share: float) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    assert complaint(folder).startswith(f"{file}: is not a complete safetensors file")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda config: config["qformer_config"].pop("use_qformer_text_input"),
            "Q-Former reads no text",
        ),
        (lambda config: config.pop("qformer_config"), "is not a config of BLIP-2 ("),
        (lambda config: config["vision_config"].update(hidden_size="wide"), "is not a config of"),
        (lambda config: config["vision_config"].update(num_attention_heads=5), "is not a config"),
        (lambda config: config["vision_config"].update(patch_size=16), "patches that are not 14"),
        (lambda config: config["qformer_config"].update(vocab_size=20), "107 words, and its mod"),
        (lambda config: config.update(num_query_tokens=8), "is [1, 32, 16], not [1, 8, 16]"),
        (
            lambda config: config["vision_config"].update(num_hidden_layers=3),
            "model.safetensors: lacks",
        ),
    ],
)
def test_a_config_that_does_not_fit(
    folder: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    alter(folder, edit)
    assert message in complaint(folder)


def test_files_of_another_model(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    for content in ("{}", '{"model": {"vocab": {"a": 3}}}'):
        (folder / "tokenizer.json").write_text(content)
        assert "tokenizer.json: holds no BERT vocabulary" in complaint(folder)
    for content, message in (("[]", "holds no JSON object"), ("{", "is not a JSON file")):
        (folder / "config.json").write_text(content)
        assert f"config.json: {message}" in complaint(folder)


def test_images_have_the_models_size(folder: Path) -> None:
    draw = torch.Generator()
    with pytest.raises(UnreadableInput, match="size=224: encoder blip2-hf takes images of 42"):
        build_encoder("blip2-hf", size=224, pad_ratio=1.25, folder=folder, generator=draw)
    built = build_encoder("blip2-hf", size=42, pad_ratio=1.5, folder=folder, generator=draw)
    assert built.preprocessing.pad_ratio == 1.5


def test_a_missing_package_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = r"blip2-hf needs transformers 5 .*'hsfiq\[hf\]'"
    with pytest.raises(HsfiqError, match=message) as error_info:
        load(folder)
    assert "\n" not in str(error_info.value)


def test_nothing_imports_transformers_before_it_is_needed() -> None:
    code = (
        "import sys, hsfiq.model.encoders.registry, hsfiq.model.scorer.loading; "
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
