"""BLIP-2 through transformers: outputs equal to LAVIS', trained parameters, checkpoints."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import normalize

from hsfiq.demo.study import database_url
from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.encoders.encoder import Encoder
from hsfiq.model.encoders.hf import Blip2Hf, load
from hsfiq.model.encoders.hf_conversion import convert
from hsfiq.model.scorer.job import TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import run
from hsfiq.model.scorer.scorer import Scorer, relevance, trained_parameters
from tests.model.encoders.lavis_reference import Reference, references
from tests.model.retrieval.helpers import StopAt, Stopped
from tests.model.scorer.helpers import CPU, ONE_PROCESS, Drawn, Recorder, hsfiq, options
from tests.model.scorer.helpers import SMALL as RECIPE

pytestmark = [
    pytest.mark.usefixtures("one_thread", "no_network"),
    pytest.mark.xdist_group("converted weights"),
]


def trained(encoder: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in encoder.named_parameters() if p.requires_grad}


@torch.no_grad()
def test_outputs_equal_lavis(reference: Reference, encoder: Blip2Hf, texts: list[str]) -> None:
    implementation: Encoder = encoder
    tokens = implementation.image_tokens(reference.pixels)
    query, gallery = (
        implementation.compose(references(tokens, texts), texts),
        implementation.gallery(tokens),
    )
    scores = relevance(query, gallery, "max", chunk=1)
    ours = {"tokens": tokens, "gallery": gallery, "query": query, "scores": scores}
    assert ours.keys() == reference.outputs.keys()
    for name, theirs in reference.outputs.items():
        assert ours[name].dtype == torch.float32
        assert torch.allclose(ours[name], theirs, atol=1e-5, rtol=0), name
    # Too little for these numbers to tell.
    assert encoder.hf.vision_model.post_layernorm.eps == reference.about["ln_vision_eps"]
    # The texts make a difference that does not go unseen.
    assert (scores[0] - scores[1:]).abs().amax(dim=1).min() > 1e-3
    assert implementation.tokens_shape == tokens.shape[1:]
    assert implementation.preprocessing.size == 42


@torch.no_grad()
def test_cached_tokens_suffice(reference: Reference, encoder: Blip2Hf, texts: list[str]) -> None:
    """On a GPU, it then makes room for larger batches; without weights it would fail."""
    tokens = encoder.image_tokens(reference.pixels)
    query, gallery = encoder.compose(references(tokens, texts), texts), encoder.gallery(tokens)
    emptied = deepcopy(encoder)
    for module in emptied.image_modules():
        module.to("meta")
    assert emptied.compose(references(tokens, texts), texts).equal(query)
    assert emptied.gallery(tokens).equal(gallery)
    kept = {name for name, each in emptied.named_parameters() if not each.is_meta}
    assert trained(encoder).keys() <= kept


def test_token_ids_equal_lavis(reference: Reference, encoder: Blip2Hf) -> None:
    for text, ids in reference.about["tokenized"]:
        ours = encoder.tokenizer(text, truncation=True, max_length=32).input_ids
        assert ours == ids, text


def test_temperature_and_frozen_weights(
    reference: Reference, encoder: Blip2Hf, folder: Path
) -> None:
    assert encoder.temperature.equal(reference.weights["temp"])
    assert encoder.frozen_id() == reference.about["frozen_id"]
    (folder / "lavis.safetensors").unlink()
    assert load(folder).temperature.item() == pytest.approx(0.07)
    tensors = load_file(folder / "model.safetensors")
    tensors["vision_model.encoder.layers.1.mlp.fc1.bias"][3] += 0.5
    tensors["vision_model.post_layernorm.bias"][3] += 0.5
    save_file(tensors, folder / "model.safetensors")
    frozen_id = load(folder).frozen_id()
    assert frozen_id != reference.about["frozen_id"]
    tensors["vision_model.post_layernorm.bias"][3] += 0.5  # is trained
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).frozen_id() == frozen_id


@torch.no_grad()
def test_transformers_own_forward(reference: Reference, encoder: Blip2Hf, texts: list[str]) -> None:
    tokens = encoder.image_tokens(reference.pixels)
    text = encoder.tokenizer(
        texts, padding="max_length", truncation=True, max_length=32, return_tensors="pt"
    )
    pixels = references(reference.pixels, texts)
    fused = encoder.hf(pixels, **text, use_image_text_matching_head=True).text_embeds[:, :32]
    query = normalize(encoder.hf.text_projection(fused).mean(dim=1), dim=-1)
    assert torch.allclose(encoder.compose(references(tokens, texts), texts), query, atol=1e-6)
    images = encoder.hf(pixels, **text).image_embeds
    assert torch.allclose(encoder.gallery(tokens), images[:2], atol=1e-6)


@torch.no_grad()
def test_a_batch_equals_its_rows(reference: Reference, encoder: Blip2Hf, texts: list[str]) -> None:
    tokens = encoder.image_tokens(reference.pixels)
    together = encoder.compose(references(tokens, texts), texts)
    for row, text in enumerate(texts):
        single = encoder.image_tokens(reference.pixels[row % 2][None])
        assert torch.allclose(encoder.compose(single, [text])[0], together[row], atol=1e-5)
    with pytest.raises(ValueError, match="2 references, but 6 texts"):
        encoder.compose(tokens, texts)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_vector_has_length_one(
    reference: Reference, encoder: Blip2Hf, texts: list[str], dtype: torch.dtype
) -> None:
    tokens = references(encoder.image_tokens(reference.pixels), texts).to(dtype)
    exact = [encoder.compose(tokens, texts), encoder.gallery(tokens)]
    with torch.autocast("cpu", torch.bfloat16):
        cast = [encoder.compose(tokens, texts), encoder.gallery(tokens)]
    for vectors, cast_vectors in zip(exact, cast, strict=True):
        assert vectors.dtype == cast_vectors.dtype == torch.float32
        assert (vectors.norm(dim=-1) - 1).abs().max() < 1e-5
        assert (cast_vectors.norm(dim=-1) - 1).abs().max() < 1e-5
        assert (vectors * cast_vectors).sum(dim=-1).min() > 0.99


def test_the_gradient_reaches_exactly_what_is_trained(
    reference: Reference, encoder: Blip2Hf, texts: list[str]
) -> None:
    encoder.train()
    assert not any(module.training for module in encoder.hf.vision_model.modules())
    with torch.autocast("cpu", torch.bfloat16):
        tokens = encoder.image_tokens(reference.pixels)
    assert not tokens.requires_grad
    assert torch.allclose(tokens, reference.outputs["tokens"], atol=1e-5)
    rows = references(tokens, texts)
    Scorer(encoder, "max")(rows, texts, rows.flip(0), rows).sum().backward()
    parameters = encoder.named_parameters()
    reached = {name for name, p in parameters if p.grad is not None and p.grad.any()}
    # A key's bias moves all scores of a softmax alike: its gradient is rounding at most.
    keys = {name for name in trained(encoder) if name.endswith("attention.key.bias")}
    assert reached | keys == trained(encoder).keys()


def test_the_trained_parameters_are_those_of_lavis(
    reference: Reference, encoder: Blip2Hf, tmp_path: Path
) -> None:
    scorer = Scorer(encoder, "max")
    names = [f"encoder.{name}" for name in reference.about["trained"]]
    about = {"encoder": {"name": "blip2-hf"}, "recipe": {"encoder": "blip2-hf"}}
    saved = save(tmp_path / "run", about, trained_parameters(scorer))
    lavis = convert(saved, tmp_path / "lavis")
    assert lavis.about["encoder"]["name"] == lavis.about["recipe"]["encoder"] == "blip2-vitg"
    assert lavis.about["converted_from"]["encoder"] == "blip2-hf"
    tensors = lavis.tensors("scorer")
    assert sorted(tensors) == sorted(names)
    for name in reference.about["trained"]:
        weight = reference.weights["temp" if name == "temperature" else name[len("lavis.") :]]
        assert tensors[f"encoder.{name}"].equal(weight)
    converted_back = convert(tmp_path / "lavis", tmp_path / "back")
    assert converted_back.about["converted_from"]["sha256"] == lavis.sha256
    ours = trained_parameters(scorer)
    assert converted_back.tensors("scorer").keys() == ours.keys()
    assert all(
        weight.equal(ours[name]) for name, weight in converted_back.tensors("scorer").items()
    )


def save(out: Path, about: dict[str, Any], tensors: dict[str, Any]) -> Path:
    return checkpoints.save(out, "best", about, {"scorer": tensors}).path


@pytest.mark.parametrize(
    ("about", "name", "message"),
    [
        ({}, "encoder.temperature", "does not record its encoder"),
        (
            "tiny",
            "encoder.temperature",
            "has the encoder tiny: only blip2-vitg and blip2-hf can be",
        ),
        ("blip2-hf", "encoder.hf.head", "has encoder.hf.head, unknown to the other encoder"),
        ("blip2-vitg", "encoder.hf.query_tokens", "has encoder.hf.query_tokens, unknown"),
        ("blip2-hf", "encoder.query_tokens", "has encoder.query_tokens, unknown"),
    ],
)
def test_unconvertible_checkpoints(tmp_path: Path, about: Any, name: str, message: str) -> None:
    if about:
        about = {"encoder": {"name": about}, "recipe": {"encoder": about}}
    path = save(tmp_path / "run", about, {name: torch.zeros(1)})
    command = hsfiq("weights", "convert", path, "--out", tmp_path / "out")
    assert command.code == 2
    assert f"{path}: {message}" in command.err
    assert not (tmp_path / "out").exists()


VALUES = {"encoder": "blip2-hf", "size": "42", "epochs": "2", "n_def": "1", "lr": "1e-4"}


def test_training_is_stopped_and_resumed(drawn: Drawn, converted: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE.with_values(VALUES), batch=13)
    data = drawn.first(26)

    def train(name: str, recorder: Recorder) -> Path:
        paths = ScorerPaths(weights=converted, cache=tmp_path / "cache")
        job = TrainingJob(data, tmp_path / name, paths, ONE_PROCESS, recorder, save_every=0)
        run(recipe, job)
        return tmp_path / name

    uninterrupted, resumed = Recorder(), Recorder()
    train("whole", uninterrupted)
    with pytest.raises(Stopped):
        train("stopped", StopAt(3))
    train("stopped", resumed)
    assert len(uninterrupted.losses) == 4
    assert resumed.losses == uninterrupted.losses[2:]  # the third step was taken, and not saved
    ended = [checkpoints.read(tmp_path / name) for name in ("whole", "stopped")]
    kept, resumed_tensors = (checkpoint.tensors("scorer") for checkpoint in ended)
    assert kept.keys() == resumed_tensors.keys()
    assert all(kept[name].equal(resumed_tensors[name]) for name in kept)
    before = trained_parameters(Scorer(load(converted), "max"))
    assert not kept["encoder.hf.query_tokens"].equal(before["encoder.hf.query_tokens"])
    loaded = load_scorer(tmp_path / "whole", converted, CPU).scorer
    assert all(kept[name].equal(weight) for name, weight in trained_parameters(loaded).items())
    convert(tmp_path / "whole", tmp_path / "lavis")
    with pytest.raises(UnreadableInput, match="lavis: exists already; name another --out"):
        convert(tmp_path / "whole", tmp_path / "lavis")
    convert(tmp_path / "lavis", tmp_path / "back")
    reloaded = load_scorer(tmp_path / "back", converted, CPU).scorer
    assert all(kept[name].equal(weight) for name, weight in trained_parameters(reloaded).items())


def test_the_commands_train_and_score(
    drawn: Drawn, converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40)
    assert hsfiq("demo", "--answers", "25", "--dir", tmp_path / "demo").code == 0
    url, release = database_url(tmp_path / "demo"), tmp_path / "hp"
    assert hsfiq("export", "--release", "hp", "--out", release, "--database", url).code == 0
    values = [word for key, value in VALUES.items() for word in ("--set", f"{key}={value}")]
    out = tmp_path / "run"
    trained_ = hsfiq(*options(drawn, out, *values, "--weights", converted))
    assert trained_.code == 0, trained_.err
    images = tmp_path / "demo" / "images"
    folders = ("--cache", tmp_path / "cache", "--images", images, "--weights", converted)
    scored = hsfiq("score", release, "--checkpoint", out, *folders, "--json")
    assert scored.code == 0, scored.err
    assert scored.result["n_scored"] == scored.result["n_sets"] > 0
