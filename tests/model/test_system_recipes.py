"""The settings of the systems' recipes, and the learning rates of their stages."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import shown
from hsfiq.model.system_recipes import (
    STAGED,
    SYSTEM_RECIPES,
    system_on_drawn,
    system_recipe,
    system_recipe_from_json,
)

RECIPE = system_recipe("clip4cir-fashioniq")


@pytest.mark.parametrize("name", SYSTEM_RECIPES)
def test_a_recipe_is_read_back_from_its_json(name: str) -> None:
    for stated in (SYSTEM_RECIPES[name], system_on_drawn(SYSTEM_RECIPES[name])):
        value = json.loads(json.dumps(stated.to_json()))
        assert system_recipe_from_json(value, "here") == stated


def test_the_stages_have_their_own_values() -> None:
    first, second = RECIPE.stages
    assert (first.number, first.epochs, first.batch, first.lr) == (1, 100, 128, 2e-6)
    assert (second.number, second.epochs, second.batch, second.lr) == (2, 300, 4096, 2e-5)


def test_one_cycle_is_that_of_torch() -> None:
    stage = system_on_drawn(RECIPE).with_values({"epochs": "3,1", "warmup": "0.25"}).stages[0]
    n_steps = 10
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=stage.lr,
        total_steps=stage.epochs * n_steps,
        pct_start=stage.warmup,
        div_factor=stage.start_divisor,
    )
    for epoch in range(stage.epochs):
        for step in range(n_steps):
            expected = schedule.get_last_lr()[0]
            assert stage.lr_at(epoch, step, n_steps) == pytest.approx(expected, rel=1e-9)
            optimizer.step()
            schedule.step()


def test_a_cosine_schedule_rises_again_after_its_epochs() -> None:
    stage = replace(RECIPE.stages[0], schedule="cosine", schedule_epochs=10, epochs=20, lr=1.0)
    rates = [stage.lr_at(epoch, 0, 5) for epoch in range(20)]
    assert rates[0] == 1.0
    assert rates[10] == pytest.approx(0.0, abs=1e-12)
    assert rates[15] == pytest.approx(rates[5])


def test_one_value_is_that_of_all_stages() -> None:
    assert [stage.epochs for stage in RECIPE.with_values({"epochs": "3"}).stages] == [3, 3]
    one_stage = {key: shown(getattr(RECIPE, key)[0]) for key in STAGED}
    assert len(RECIPE.with_values(one_stage).stages) == 1


def test_stages_that_differ_in_number_are_refused() -> None:
    with pytest.raises(UnreadableInput, match="the stages differ in number: epochs=3,4,5, batch="):
        RECIPE.with_values({"epochs": "3,4,5"})


def test_an_unknown_recipe_and_an_unknown_system_are_refused() -> None:
    with pytest.raises(UnreadableInput, match="did you mean 'clip4cir-cirr'"):
        system_recipe("clip4cir-cir")
    with pytest.raises(UnreadableInput, match="of no known system: 'dall-e'"):
        system_recipe_from_json({"system": "dall-e"}, "here")
