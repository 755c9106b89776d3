"""Image-text models of transformers, offline and small, as retrievers without training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 -- the usual name
from transformers import (
    BertTokenizer,
    BlipConfig,
    BlipImageProcessorPil,
    BlipModel,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
)

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read
from hsfiq.model.encoders.dual import DualEncoder, TrainedDual
from hsfiq.model.encoders.registry import build_encoder, build_retriever, is_specification
from hsfiq.model.encoders.towers import TransformersTowers, digest_of, features
from hsfiq.model.image_tokens import FeatureCache, open_image
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import run
from tests.model.encoders.small_encoder import draw_images
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL, Drawn

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "red", "blue", "and", "long"]
TEXTS = ["is red", "is blue and long"]
LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
TEXT = {
    **LAYERS,
    "num_attention_heads": 2,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 8,
    "eos_token_id": 3,
    "pad_token_id": 0,
    "bos_token_id": 2,
}
VISION = {**LAYERS, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
SQUARE = {"height": 28, "width": 28}


def clip() -> tuple[Any, Any]:
    config = CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=12)
    return CLIPModel(config), CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size=SQUARE)


def siglip() -> tuple[Any, Any]:
    config = SiglipConfig(text_config={**TEXT, "projection_size": 16}, vision_config=VISION)
    return SiglipModel(config), SiglipImageProcessorPil(size=SQUARE, resample=2)


def blip() -> tuple[Any, Any]:
    text = {**TEXT, "encoder_hidden_size": 16}
    config = BlipConfig(text_config=text, vision_config=VISION, projection_dim=12)
    return BlipModel(config), BlipImageProcessorPil(size=SQUARE)


def saved(make: Callable[[], tuple[Any, Any]], folder: Path) -> Path:
    """A model with random weights in the layout of transformers."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        model, processor = make()
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.fixture(params=[clip, siglip, blip], ids=["clip", "siglip", "blip"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return saved(request.param, tmp_path / "model")


@torch.no_grad()
def test_queries_and_images_are_the_librarys_vectors(folder: Path, tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", 2)
    retriever = build_retriever(f"hf:{folder}")
    assert isinstance(retriever, DualEncoder)
    assert isinstance(retriever.towers, TransformersTowers)
    model, processor = retriever.towers.model, retriever.preprocessing
    with open_image(images["i0"]) as first, open_image(images["i1"]) as second:
        pixels = torch.stack([processor(first), processor(second)])
    image = F.normalize(features(model.get_image_features(pixel_values=pixels)), dim=1)
    ids = [[2, 5, 6, 3], [2, 5, 7, 8, 9, 3]]
    if model.config.model_type == "siglip":
        padded = [row + [0] * (8 - len(row)) for row in ids]
        text = features(model.get_text_features(input_ids=torch.tensor(padded)))
    else:
        text = torch.cat(
            [features(model.get_text_features(input_ids=torch.tensor([row]))) for row in ids]
        )
    text = F.normalize(text, dim=1)
    cache = FeatureCache.open(tmp_path / "cache", retriever, torch.float32)
    cache.fill(images, device=CPU, workers=1)
    inference = Inference(retriever, cache, ONE_PROCESS)
    expected = {"": F.normalize(image + text, dim=1), "@text": text, "@image": image}
    for suffix, query in expected.items():
        own = build_retriever(f"hf:{folder}{suffix}")
        queries = Inference(own, cache, ONE_PROCESS).queries(["i0", "i1"], TEXTS)
        torch.testing.assert_close(queries, query, atol=1e-5, rtol=0)
        assert own.frozen_id() == retriever.frozen_id()  # they share the cached vectors
    gallery = inference.gallery(["i0", "i1"])
    torch.testing.assert_close(gallery[:, 0], image, atol=1e-5, rtol=0)


def test_the_provenance_tells_ways_of_composing_apart(tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    loaded = [load_retriever(Path(f"hf:{folder}{part}"), None, CPU) for part in ("", "@text")]
    assert [each.system for each in loaded] == ["hf:model", "hf:model@text"]
    first, second = (each.checkpoint for each in loaded)
    assert first.sha256 != second.sha256
    assert first.about["encoder"] == {**second.about["encoder"], "name": "hf:model"}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "logit_scale_init_value": 1.0}))
    changed = load_retriever(Path(f"hf:{folder}"), None, CPU)
    assert changed.checkpoint.sha256 != first.sha256


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere", "nowhere has no config.json; name the folder of a transformers"),
        ("nowhere@both", "unknown query 'both'; write one of sum, text, image"),
    ],
)
def test_unusable_arguments(argument: str, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        build_retriever(f"hf:{argument}")


def test_another_vocabulary_is_another_model(tmp_path: Path) -> None:
    digests = {digest_of(tmp_path, TransformersTowers.files)}
    for name in ("vocab.txt", "merges.txt", "spiece.model"):
        (tmp_path / name).write_text("is\nred\n")
        digests.add(digest_of(tmp_path, TransformersTowers.files))
    assert len(digests) == 4


def test_a_model_without_two_encoders_is_refused(tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    text = {**config["text_config"], "model_type": "bert", "architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps(text))
    with pytest.raises(
        UnreadableInput, match=r"BertModel has no image and text vectors|cannot be loaded"
    ):
        build_retriever(f"hf:{folder}")


PLUGIN = """
from hsfiq.model.encoders.tiny import Tiny
import torch


def load(argument):
    tiny = Tiny(torch.Generator().manual_seed(int(argument)))
    tiny.name = f"seeded:{argument}"
    return tiny
"""


def test_installed_package_adds_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seeded_encoder.py").write_text(PLUGIN)
    about = tmp_path / "seeded_encoder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: seeded-encoder\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[hsfiq.encoders]\nseeded = seeded_encoder:load\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_retriever(Path("seeded:3"), None, CPU).system == "seeded:3"
    with pytest.raises(UnreadableInput, match=r"is named other; there are: hf, openclip, seeded"):
        build_retriever("other:3")


def test_existing_paths_are_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_specification(Path("hf:model"))
    assert not is_specification(Path("runs/model"))
    (tmp_path / "hf:model").mkdir()
    assert not is_specification(Path("hf:model"))


PIXELS = torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(4))


def built(folder: Path) -> TrainedDual:
    encoder = build_encoder(
        "hf", size=28, pad_ratio=1.25, folder=folder, generator=torch.Generator().manual_seed(1)
    )
    assert isinstance(encoder, TrainedDual)
    return encoder


@pytest.mark.parametrize("make", [clip, siglip, blip])
def test_training_starts_from_the_zero_shot_sum_and_changes_texts_alone(
    make: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    folder = saved(make, tmp_path / "model")
    encoder, untrained = built(folder), build_retriever(f"hf:{folder}")
    tokens = encoder.image_tokens(PIXELS)
    torch.testing.assert_close(encoder.compose(tokens, TEXTS), untrained.compose(tokens, TEXTS))
    torch.testing.assert_close(encoder.gallery(tokens), untrained.gallery(tokens))
    trained = {name for name, each in encoder.named_parameters() if each.requires_grad}
    text = {name for name in trained if ".text_model." in name or ".text_projection." in name}
    assert text
    assert trained - text == {
        "temperature",
        *(f"residual.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")),
    }
    encoder.compose(tokens, TEXTS).sum().backward()
    without = {name for name, each in encoder.named_parameters() if each.grad is None}
    assert not without & (trained - {"temperature"})


def test_a_run_with_a_cache_equals_one_without(drawn: Drawn, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    recipe = replace(SMALL, encoder="hf", size=28, epochs=2, lr=1e-3)
    scorers = []
    for name, is_cached in (("cached", True), ("uncached", False)):
        paths = ScorerPaths(weights=folder, cache=tmp_path / "cache")
        out = tmp_path / name
        job = TrainingJob(drawn.first(26), out, paths, ONE_PROCESS, Callback(), cached=is_cached)
        run(recipe, job)
        scorers.append(load_scorer(out, folder, CPU).scorer.state_dict())
    start = built(folder).state_dict()
    assert any(not torch.equal(scorers[0][f"encoder.{name}"], start[name]) for name in start)
    for name in scorers[0]:
        torch.testing.assert_close(scorers[0][name], scorers[1][name], atol=2e-4, rtol=0)


@pytest.mark.parametrize("make", [clip, siglip, blip])
def test_lora_changes_images_only_once_it_is_trained(
    make: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    folder = saved(make, tmp_path / "model")
    encoder = build_encoder(
        "hf-lora", size=28, pad_ratio=1.25, folder=folder, generator=torch.Generator()
    )
    untrained = built(folder)
    tokens, vectors = encoder.image_tokens(PIXELS), untrained.image_tokens(PIXELS)
    torch.testing.assert_close(encoder.gallery(tokens), untrained.gallery(vectors))
    torch.testing.assert_close(encoder.compose(tokens, TEXTS), untrained.compose(vectors, TEXTS))
    assert encoder.frozen_id() != untrained.frozen_id()
    parameters = dict(encoder.named_parameters())
    trained = {name for name, each in parameters.items() if each.requires_grad}
    adapters = {name for name in trained if ".lora_" in name}
    assert adapters
    assert len(trained) == len(adapters) + sum(p.requires_grad for p in untrained.parameters())
    encoder.gallery(tokens).sum().backward()
    assert all(parameters[name].grad is not None for name in adapters)


def test_lora_is_trained_against_the_other_targets_of_a_batch(drawn: Drawn, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    paths = ScorerPaths(weights=folder, cache=tmp_path / "cache")
    brief = replace(SMALL, encoder="hf-lora", size=28, epochs=2, n_def=1, batch=8, lr=1e-3)
    recipe = replace(brief, strategy="in-batch", n_neg=None)
    job = TrainingJob(drawn.first(17), tmp_path / "run", paths, ONE_PROCESS, Callback())
    run(recipe, job)
    checkpoint = read(tmp_path / "run" / "last.json")
    epochs = checkpoint.about["progress"]["epochs"]
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    adapters = {
        name: each for name, each in checkpoint.tensors("scorer").items() if ".lora_B" in name
    }
    assert adapters
    assert all(each.abs().max() > 0 for each in adapters.values())  # it starts at 0
    scorer = load_scorer(checkpoint.path, folder, CPU).scorer
    for name, value in adapters.items():
        torch.testing.assert_close(scorer.state_dict()[name], value)


def test_the_folder_of_the_model_is_required() -> None:
    with pytest.raises(UnreadableInput, match=r"encoder=hf: needs the folder .* with --weights"):
        build_encoder("hf", size=28, pad_ratio=1.25, folder=None, generator=torch.Generator())
