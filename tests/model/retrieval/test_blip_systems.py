"""Bi-BLIP4CIR and CoVR-BLIP: directions, losses against their formulas, and what is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hsfiq.model.retrieval.bi_blip4cir import BiBlip4cir, Direction, directed_text
from hsfiq.model.retrieval.covr_blip import CovrBlip
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.system import Batch
from hsfiq.model.system_recipes import (
    BiBlip4cirRecipe,
    CovrBlipRecipe,
    system_on_drawn,
    system_recipe,
)
from tests.model.retrieval.small_systems import (
    BATCH,
    TEXTS,
    begun,
    has_dropout_on,
    losses_of_steps,
    trained_names,
)
from tests.model.retrieval.test_backbone import literal_hn_nce

pytestmark = pytest.mark.usefixtures("one_thread")


def small(**values: Any) -> BiBlip4cirRecipe:
    recipe = system_on_drawn(system_recipe("bi-blip4cir-fashioniq"))
    assert isinstance(recipe, BiBlip4cirRecipe)
    return replace(recipe, **{"projection": 16, "hidden": 32, **values})


def built(stage: int = 1, **values: Any) -> BiBlip4cir:
    system = new_system(small(**values), None)
    assert isinstance(system, BiBlip4cir)
    return begun(system, stage)


both_stages = pytest.mark.parametrize("stage", [1, 2])
directions = pytest.mark.parametrize("direction", ["token", "backward-token", "code", "none"])


def literal_reversed_loss(system: BiBlip4cir, batch: Batch) -> float:
    """Eq. 2, pair by pair; with references as negatives, row 2 of table 3."""
    n, scale = len(batch.texts), 1 / system.recipe.temperature

    def cosine(target: int, text: int, reference: int) -> float:
        composed = system.compose_reversed(
            batch.targets[target : target + 1], batch.reversed_texts[text : text + 1]
        )[0]  # [D]
        goal = system.backbone.image_vectors(batch.references[reference : reference + 1])[0]  # [D]
        return float(composed @ goal / (composed.norm() * goal.norm()))

    total = 0.0
    for i in range(n):
        if system.recipe.negatives == "targets":
            row = [cosine(j, i, i) for j in range(n)]
        else:
            row = [cosine(i, i, j) for j in range(n)]
        total -= log(exp(scale * row[i]) / sum(exp(scale * each) for each in row))
    return total / n


@both_stages
@pytest.mark.parametrize("negatives", ["targets", "references"])
@torch.no_grad()
def test_the_loss_is_the_sum_of_equations_1_and_2(stage: int, negatives: str) -> None:
    system = built(stage, negatives=negatives, alpha=(0.4, 0.7))
    losses = system.losses(BATCH)
    forward = 0.0
    targets = system.gallery(BATCH.targets)[:, 0]  # [B, D]
    for i, query in enumerate(system.compose(BATCH.references, BATCH.texts)):
        scores = [float(query @ target) / system.recipe.temperature for target in targets]
        forward -= log(exp(scores[i]) / sum(map(exp, scores))) / len(targets)
    assert losses.terms["forward"].item() == pytest.approx(forward, rel=1e-4)
    expected = (0.4, 0.7)[stage - 1] * literal_reversed_loss(system, BATCH)
    assert losses.terms["reversed"].item() == pytest.approx(expected, rel=1e-4)


class TwoNumbers(nn.Module):
    """Towers that read an image's vector, and a text's, off their inputs."""

    dim = text_width = 2
    frozen = ()
    preprocessing = tokens_shape = None

    def image_vectors(self, tokens: Tensor) -> Tensor:
        return tokens[:, 0]

    def text_vectors(self, texts: Sequence[str], direction: Tensor | None = None) -> Tensor:
        assert direction is None
        return torch.tensor([[float(part) for part in text.split()] for text in texts])


@pytest.mark.parametrize(
    ("negatives", "first", "second"),
    [
        # Text 1 moves target 1 to (1, 1) / sqrt 2 and target 2 to (0, 1); reference 1 is (1, 0).
        ("targets", log(1 + exp(-1 / sqrt(2))), log(1 + exp(-1))),
        # Target 1 with text 1 is as near to both references.
        ("references", log(2), log(1 + exp(-1))),
    ],
)
def test_the_reversed_loss_computed_by_hand(negatives: str, first: float, second: float) -> None:
    recipe = small(negatives=negatives, temperature=1.0, alpha=(1.0, 1.0), direction="none")
    system = BiBlip4cir(TwoNumbers(), recipe)  # type: ignore[arg-type]
    images = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])  # [B, 1, 2]
    batch = Batch(
        triplet_ids=["1", "2"],
        texts=["0 0", "0 0"],
        reversed_texts=["0 1", "0 0"],
        references=images,
        targets=3 * images,  # composed with length 1 in stage I
    )
    loss = system.losses(batch).terms["reversed"]
    assert loss.item() == pytest.approx((first + second) / 2)


def test_without_alpha_there_is_no_reversed_loss() -> None:
    assert list(built(alpha=(0.0, 0.5)).losses(BATCH).terms) == ["forward"]
    assert list(built(2, alpha=(0.0, 0.5)).losses(BATCH).terms) == ["forward", "reversed"]


@pytest.mark.parametrize(
    ("text", "direction", "expected"),
    [
        ("is red", "forward", "[forward] is red"),
        ("is red and plain", "backward", "[backward] is red and [backward] plain"),
        ("has sandals", "forward", "[forward] has sand [forward] als"),
        ("", "backward", "[backward]"),
    ],
)
def test_the_published_codes_strings(text: str, direction: Direction, expected: str) -> None:
    assert directed_text(text, direction) == expected


@torch.no_grad()
def test_the_strings_enter_as_words() -> None:
    system = built(direction="code")
    words = system.backbone.text_vectors(["[backward] is red and [backward] long"])
    assert torch.equal(system.text_vectors(["is red and long"], "backward"), words)


@directions
@torch.no_grad()
def test_the_direction_is_read(direction: str) -> None:
    system = built(direction=direction)
    forward, backward = (system.text_vectors(TEXTS, way) for way in ("forward", "backward"))
    plain = system.backbone.text_vectors(TEXTS)
    assert torch.equal(forward, backward) == (direction == "none")
    assert torch.equal(forward, plain) == (direction in ("backward-token", "none"))


@torch.no_grad()
def test_a_token_acts_like_a_word_after_the_first_position() -> None:
    backbone = built().backbone
    embedding = backbone.text.embedding  # type: ignore[attr-defined]
    states, present = embedding(["is red", "is"])  # [B, 1 + T, H]
    word = states[0, 1] - embedding.places[1]  # [H]
    as_token = backbone.text_vectors(["red", ""], word)
    torch.testing.assert_close(as_token, backbone.text_vectors(["is red", "is"]))
    assert present.tolist() == [[True, True, True], [True, True, False]]


@torch.no_grad()
def test_a_token_fits_before_the_longest_text() -> None:
    assert built().text_vectors(["red " * 60], "forward").isfinite().all()


def test_stage_1_trains_the_text_encoder_and_the_tokens() -> None:
    system = built()
    names = trained_names(system, BATCH)
    encoder = {name for name, _ in system.named_parameters() if name.startswith("backbone.text.")}
    reading = {name for name in encoder if "cross" in name}  # an image, which CoVR alone does
    tokens = {"directions.forward_token", "directions.backward_token"}
    unseen = {name for name in encoder if name.endswith("_attention.k.bias")}  # no effect
    assert names - unseen == (encoder - reading - unseen) | tokens


def test_a_token_for_reversed_texts_alone() -> None:
    names = trained_names(built(direction="backward-token"), BATCH)
    assert {name for name in names if "token" in name} == {"directions.backward_token"}


def test_stage_2_trains_the_combiner() -> None:
    system = built(2)
    combiner = {name for name, _ in system.named_parameters() if name.startswith("combiner.")}
    assert trained_names(system, BATCH) == combiner
    assert {name for name, value in system.named_parameters() if value.requires_grad} == combiner


def test_frozen_encoders_have_no_dropout() -> None:
    system = built(2).train()
    assert system.training
    assert has_dropout_on(system.combiner)
    assert not system.backbone.training
    assert not built(1).train().backbone.image.training


def test_the_projection_has_its_own_learning_rate_in_stage_1() -> None:
    system = built(proj_lr=5e-3)
    assert system.own_lr() == {"backbone.text.proj.": 5e-3}
    names = [
        name for name, _ in system.named_parameters() if name.startswith(tuple(system.own_lr()))
    ]
    assert names == ["backbone.text.proj.weight", "backbone.text.proj.bias"]
    assert built(2, proj_lr=5e-3).own_lr() == {}
    assert built(proj_lr=None).own_lr() == {}


@both_stages
@directions
@torch.no_grad()
def test_reversed_vectors_have_length_1_and_independent_rows(stage: int, direction: str) -> None:
    system = built(stage, direction=direction)
    vectors = system.compose_reversed(BATCH.references, TEXTS)  # [B, D]
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(TEXTS)))
    for row in range(len(TEXTS)):
        alone = system.compose_reversed(BATCH.references[row : row + 1], TEXTS[row : row + 1])
        torch.testing.assert_close(alone[0], vectors[row], atol=1e-5, rtol=0)


def test_the_tokens_of_the_directions_differ() -> None:
    tokens = built().state_dict()
    assert not torch.equal(tokens["directions.forward_token"], tokens["directions.backward_token"])


def test_stage_2_computes_no_text_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    system = built(stage=2)
    slow = system.losses(BATCH)
    system.keep_texts([*TEXTS, *TEXTS, "is wide"])
    calls: list[Sequence[str]] = []
    encode = system.backbone.text_vectors
    monkeypatch.setattr(
        system.backbone,
        "text_vectors",
        lambda texts, direction=None: calls.append(texts) or encode(texts, direction),
    )
    fast = system.losses(BATCH)
    assert not calls
    for name, term in slow.terms.items():
        torch.testing.assert_close(fast.terms[name], term)
    system.text_vectors(["is new"], "forward")
    assert calls == [["is new"]]
    system.begin(1)  # trains the text encoder
    system.keep_texts(TEXTS)
    system.losses(BATCH)
    assert len(calls) == 3


@both_stages
def test_cached_vectors_need_no_image_encoder(stage: int) -> None:
    system = built(stage)
    encoder = system.training_encoder()
    assert encoder.tokens_shape == (1, system.backbone.dim)
    vectors = replace(
        BATCH,
        references=system.image_vectors(BATCH.references).unsqueeze(1),  # [B, 1, D]
        targets=system.image_vectors(BATCH.targets).unsqueeze(1),
    )
    expected = system.losses(vectors)
    for module in encoder.image_modules():
        module.to("meta")
    for name, term in system.losses(vectors).terms.items():
        assert term.equal(expected.terms[name])


def built_covr(**values: Any) -> CovrBlip:
    recipe = system_on_drawn(system_recipe("covr-blip-fashioniq"))
    assert isinstance(recipe, CovrBlipRecipe)
    system = new_system(replace(recipe, **values), None)
    assert isinstance(system, CovrBlip)
    return begun(system, 1)


@pytest.mark.parametrize(
    ("loss", "alpha", "beta", "slip"),
    [
        ("hn-nce", 1.0, 0.5, False),
        ("hn-nce-code", 1.0, 0.5, True),
        ("info-nce", 1.0, 0.0, False),  # HN-NCE whose negatives all weigh 1
    ],
)
@torch.no_grad()
def test_the_loss_sums_both_directions(loss: str, alpha: float, beta: float, slip: bool) -> None:
    system = built_covr(loss=loss)
    losses = system.losses(BATCH)
    queries = system.compose(BATCH.references, BATCH.texts)  # [B, D]
    logits = queries @ system.gallery(BATCH.targets)[:, 0].T / system.recipe.temperature  # [B, B]
    torch.testing.assert_close(losses.logits, logits)
    to_targets = literal_hn_nce(logits.tolist(), alpha, beta, slip=slip)
    to_queries = literal_hn_nce(logits.T.tolist(), alpha, beta, slip=False)
    assert losses.terms["to-targets"].item() == pytest.approx(to_targets, rel=1e-4)
    assert losses.terms["to-queries"].item() == pytest.approx(to_queries, rel=1e-4)


def test_the_text_encoder_with_its_cross_attention_is_trained() -> None:
    system = built_covr()
    encoder = {name for name, _ in system.named_parameters() if name.startswith("backbone.text.")}
    unseen = {name for name in encoder if name.endswith("_attention.k.bias")}  # no effect
    assert trained_names(system, BATCH) - unseen == encoder - unseen
    assert {name for name, value in system.named_parameters() if value.requires_grad} == encoder


def test_training_leaves_the_gallery_as_it_was() -> None:
    system = built_covr()
    before = system.gallery(BATCH.targets)
    query = system.compose(BATCH.references, BATCH.texts)
    losses = losses_of_steps(system, BATCH, 15, lr=1e-3)
    assert losses[-1] < 0.5 * losses[0]
    assert torch.equal(system.gallery(BATCH.targets), before)
    assert not torch.allclose(system.compose(BATCH.references, BATCH.texts), query)
