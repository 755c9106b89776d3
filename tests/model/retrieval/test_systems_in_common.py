"""What the retrieval systems have in common, on small backbones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import nn

from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.system import Batch, System
from hsfiq.model.system_recipes import system_on_drawn, system_recipe
from tests.model.retrieval.small_systems import small_system

pytestmark = pytest.mark.usefixtures("one_thread")

names = pytest.mark.parametrize("name", ["bi-blip4cir", "covr-blip", "sprc", "mapnet"])
qformers = pytest.mark.parametrize("name", ["sprc-fashioniq", "mapnet-fashioniq"])


def built(name: str, stage: int = 1, **values: Any) -> System:
    recipe = system_on_drawn(system_recipe(f"{name}-fashioniq"))
    sizes = {"projection": 16, "hidden": 32} if hasattr(recipe, "hidden") else {}
    system = new_system(replace(recipe, **sizes, **values), None).eval()
    system.begin(stage)
    if stage == 1:
        system.before_training()
    return system


@pytest.mark.parametrize(
    ("name", "stage", "n_vectors", "dim"),
    [
        ("clip4cir", 1, 1, None),
        ("clip4cir", 2, 1, None),
        ("bi-blip4cir", 1, 1, None),
        ("bi-blip4cir", 2, 1, None),
        ("covr-blip", 1, 1, None),
        ("sprc", 1, 8, 128),
        ("mapnet", 1, 8, 128),
    ],
)
@torch.no_grad()
def test_vectors_have_length_1_and_rows_are_independent(
    name: str, stage: int, n_vectors: int, dim: int | None, batch: Batch
) -> None:
    system = built(name, stage)
    queries, images = system.compose(batch.references, batch.texts), system.gallery(batch.targets)
    assert images.shape == (6, n_vectors, dim or queries.shape[1])
    assert queries.shape == (6, images.shape[2])
    for vectors in (queries, images):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]))
    for row, text in enumerate(batch.texts):
        own = slice(row, row + 1)
        query = system.compose(batch.references[own], [text])
        torch.testing.assert_close(query[0], queries[row], atol=1e-5, rtol=0)
        image = system.gallery(batch.targets[own])[0]
        torch.testing.assert_close(image, images[row], atol=1e-5, rtol=0)
    # Both halves of a query make a difference.
    other_texts = system.compose(batch.references, batch.texts[::-1])
    other_images = system.compose(batch.references.flip(0), batch.texts)
    assert not torch.allclose(other_texts, queries, atol=1e-3)
    assert not torch.allclose(other_images, queries, atol=1e-5)


@names
def test_weights_follow_from_the_seed(name: str) -> None:
    first, again, other = (built(name, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(first[key].equal(again[key]) for key in first)
    drawn = {
        "bi-blip4cir": ("directions.forward_token", "combiner.output_layer.weight"),
        "covr-blip": ("backbone.text.proj.weight",),
    }.get(name, ("backbone.query_tokens",))
    assert not any(first[key].equal(other[key]) for key in drawn)


@qformers
def test_only_the_files_weights_are_left_out_of_a_checkpoint(name: str) -> None:
    system = small_system(name)
    assert system.stored_weights().keys() == cast("nn.Module", system).state_dict().keys()


@qformers
def test_the_two_data_sets_differ_in_few_values(name: str) -> None:
    fashioniq, cirr = system_recipe(name), system_recipe(name.replace("fashioniq", "cirr"))
    assert fashioniq.stages[0].lr == 2 * cirr.stages[0].lr == 2e-5
    last = [recipe.stages[0].lr_at(recipe.epochs[0] - 1, 99, 100) for recipe in (fashioniq, cirr)]
    first = [recipe.stages[0].lr_at(0, 0, 100) for recipe in (fashioniq, cirr)]
    assert first == pytest.approx([2e-7, 4e-7])
    # SPRC stops on CIRR before its schedule ends, at a rate that is still high.
    assert last[0] < 1e-10
    assert (last[1] > 1e-6) == (name == "sprc-fashioniq")


PUNCTUATED = "Is red (not blue). Has dots"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("clip4cir", PUNCTUATED),
        ("bi-blip4cir", PUNCTUATED),
        ("covr-blip", "is red not blue has dots"),
        ("sprc", "is red not blue has dots"),
    ],
)
def test_each_system_cleans_texts_as_its_code_does(system: str, expected: str) -> None:
    built = new_system(system_on_drawn(system_recipe(f"{system}-fashioniq")), None)
    assert built.clean_text(PUNCTUATED) == expected
    assert "&" in built.clean_text("red andmark blue")


def test_covr_reads_30_words_and_sprc_50() -> None:
    text = " ".join(map(str, range(60)))
    lengths = [
        len(
            new_system(system_on_drawn(system_recipe(f"{name}-fashioniq")), None)
            .clean_text(text)
            .split()
        )
        for name in ("covr-blip", "sprc", "clip4cir")
    ]
    assert lengths == [30, 50, 60]
