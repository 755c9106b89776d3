"""What SPRC and MAPNet have in common, on the small Q-Former."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import nn

from hsfiq.model.retrieval.system import Batch
from hsfiq.model.system_recipes import system_recipe
from tests.model.retrieval.qformer_systems import small_system
from tests.model.retrieval.small_systems import losses_of_steps

pytestmark = pytest.mark.usefixtures("one_thread")

both = pytest.mark.parametrize("name", ["sprc-fashioniq", "mapnet-fashioniq"])


@both
@torch.no_grad()
def test_vectors(name: str, batch: Batch) -> None:
    system = small_system(name)
    queries = system.compose(batch.references, batch.texts)
    images = system.gallery(batch.targets)
    assert (queries.shape, images.shape) == ((6, 128), (6, 8, 128))
    for vectors in (queries, images):
        assert torch.allclose(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]), atol=1e-5)


@both
@torch.no_grad()
def test_rows_are_independent(name: str, batch: Batch) -> None:
    system = small_system(name)
    queries = system.compose(batch.references, batch.texts)
    images = system.gallery(batch.targets)
    for row, text in enumerate(batch.texts):
        own = slice(row, row + 1)
        query = system.compose(batch.references[own], [text])
        assert torch.allclose(query[0], queries[row], atol=1e-5)
        assert torch.allclose(system.gallery(batch.targets[own])[0], images[row], atol=1e-5)
    # Both halves of a query make a difference.
    other_texts = system.compose(batch.references, batch.texts[::-1])
    other_images = system.compose(batch.references.flip(0), batch.texts)
    assert not torch.allclose(other_texts, queries, atol=1e-3)
    assert not torch.allclose(other_images, queries, atol=1e-5)


@both
def test_weights_follow_from_the_seed(name: str) -> None:
    first, again, other = (small_system(name, seed=seed).state_dict() for seed in ("3", "3", "4"))
    assert all(first[key].equal(again[key]) for key in first)
    assert not first["backbone.query_tokens"].equal(other["backbone.query_tokens"])


@both
def test_steps_lower_the_loss(name: str, batch: Batch) -> None:
    losses = losses_of_steps(small_system(name), batch, 12, lr=1e-3)
    assert losses[-1] < 0.6 * losses[0]


@both
def test_only_the_files_weights_are_left_out_of_a_checkpoint(name: str) -> None:
    system = small_system(name)
    assert system.stored_weights().keys() == cast("nn.Module", system).state_dict().keys()


@both
def test_the_two_data_sets_differ_in_few_values(name: str) -> None:
    fashioniq, cirr = system_recipe(name), system_recipe(name.replace("fashioniq", "cirr"))
    assert fashioniq.stages[0].lr == 2 * cirr.stages[0].lr == 2e-5
    last = [recipe.stages[0].lr_at(recipe.epochs[0] - 1, 99, 100) for recipe in (fashioniq, cirr)]
    first = [recipe.stages[0].lr_at(0, 0, 100) for recipe in (fashioniq, cirr)]
    assert first == pytest.approx([2e-7, 4e-7])
    # SPRC stops on CIRR before its schedule ends, at a rate that is still high.
    assert last[0] < 1e-10
    assert (last[1] > 1e-6) == (name == "sprc-fashioniq")
