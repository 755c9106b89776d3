"""Models of open_clip, offline and small, as retrievers without training."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.cli import run
from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.registry import build_retriever
from hsfiq.model.image_tokens import open_image
from hsfiq.model.scorer.loading import load_scorer
from tests.model.encoders.small_encoder import draw_images
from tests.openclip.small_open_clip import saved_open_clip

TEXTS = ["is red", "is blue and long"]


@torch.no_grad()
def test_queries_and_images_are_the_librarys_vectors(tmp_path: Path) -> None:
    folder = saved_open_clip(tmp_path / "model")
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    images = draw_images(tmp_path / "images", 2)
    with open_image(images["i0"]) as first, open_image(images["i1"]) as second:
        expected = torch.stack([transform(first), transform(second)])
        retriever = build_retriever(f"openclip:{folder}")
        prepare = retriever.preprocessing
        pixels = torch.stack([prepare(first), prepare(second)])
    torch.testing.assert_close(pixels, expected)
    image = F.normalize(model.encode_image(pixels), dim=1)
    text = F.normalize(model.encode_text(open_clip.tokenize(TEXTS, context_length=16)), dim=1)
    tokens = retriever.image_tokens(pixels)
    torch.testing.assert_close(retriever.gallery(tokens)[:, 0], image)
    torch.testing.assert_close(retriever.compose(tokens, TEXTS), F.normalize(image + text, dim=1))
    for part, vectors in (("text", text), ("image", image)):
        own = build_retriever(f"openclip:{folder}@{part}")
        torch.testing.assert_close(own.compose(tokens, TEXTS), vectors)
        assert own.frozen_id() == retriever.frozen_id()


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    folder = saved_open_clip(tmp_path / "model")
    before = build_retriever(f"openclip:{folder}").frozen_id()
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["preprocess_cfg"]["resize_mode"] = "squash"
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    assert build_retriever(f"openclip:{folder}").frozen_id() != before


def test_broken_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"nowhere has no open_clip_config\.json; name the"):
        build_retriever("openclip:nowhere")
    folder = saved_open_clip(tmp_path / "model")
    (folder / "open_clip_model.safetensors").write_bytes(b"cut")
    with pytest.raises(UnreadableInput, match="cannot be loaded"):
        build_retriever(f"openclip:{folder}")


def test_it_is_trained_as_a_scorer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved_open_clip(tmp_path / "model")
    values = ("encoder=openclip", "size=28", "epochs=1", "n_def=1", "batch=16", "lr=1e-3")
    command = ["train", "cirqrs-fashioniq", "--data", "drawn", "--limit", "40"]
    options = ["--weights", str(folder), "--cache", str(tmp_path / "cache")]
    changes = [part for value in values for part in ("--set", value)]
    out = tmp_path / "run"
    assert run([*command, *options, *changes, "--out", str(out)]) == 0, capsys.readouterr().err
    loaded = load_scorer(out, folder, torch.device("cpu"))
    encoder = loaded.scorer.encoder
    trained = {name for name, each in encoder.named_parameters() if each.requires_grad}
    assert "towers.model.token_embedding.weight" in trained
    assert not any(".visual." in name for name in trained)
    refused = ["train", *command[1:], "--out", str(tmp_path / "no"), "--set", "encoder=openclip"]
    assert run(refused) == 2
    assert "encoder=openclip: needs the folder of its model" in capsys.readouterr().err
