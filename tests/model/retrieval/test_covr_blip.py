"""CoVR-BLIP: a query that reads the reference, an untuned gallery, and its loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from hsfiq.model.retrieval.covr_blip import CovrBlip
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.system_recipes import CovrBlipRecipe, system_on_drawn, system_recipe
from tests.model.retrieval.small_systems import BATCH, begun, losses_of_steps, trained_names
from tests.model.retrieval.test_backbone import literal_hn_nce

pytestmark = pytest.mark.usefixtures("one_thread")


def built(**values: Any) -> CovrBlip:
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
    system = built(loss=loss)
    losses = system.losses(BATCH)
    queries = system.compose(BATCH.references, BATCH.texts)  # [B, D]
    logits = queries @ system.gallery(BATCH.targets)[:, 0].T / system.recipe.temperature  # [B, B]
    torch.testing.assert_close(losses.logits, logits)
    to_targets = literal_hn_nce(logits.tolist(), alpha, beta, slip=slip)
    to_queries = literal_hn_nce(logits.T.tolist(), alpha, beta, slip=False)
    assert losses.terms["to-targets"].item() == pytest.approx(to_targets, rel=1e-4)
    assert losses.terms["to-queries"].item() == pytest.approx(to_queries, rel=1e-4)


def test_the_text_encoder_with_its_cross_attention_is_trained() -> None:
    system = built()
    encoder = {name for name, _ in system.named_parameters() if name.startswith("backbone.text.")}
    unseen = {name for name in encoder if name.endswith("_attention.k.bias")}  # no effect
    assert trained_names(system, BATCH) - unseen == encoder - unseen
    assert {name for name, value in system.named_parameters() if value.requires_grad} == encoder


def test_training_leaves_the_gallery_as_it_was() -> None:
    system = built()
    before = system.gallery(BATCH.targets)
    query = system.compose(BATCH.references, BATCH.texts)
    losses = losses_of_steps(system, BATCH, 15, lr=1e-3)
    assert losses[-1] < 0.5 * losses[0]
    assert torch.equal(system.gallery(BATCH.targets), before)
    assert not torch.allclose(system.compose(BATCH.references, BATCH.texts), query)
