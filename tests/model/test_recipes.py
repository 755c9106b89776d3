"""The papers' recipes, their values on the command line, and their tables in PAPERS.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import (
    DRAWN,
    RANGES,
    RECIPES,
    SIZED,
    Recipe,
    Strategy,
    on_drawn,
    parsed,
    recipe,
    shown,
)
from hsfiq.model.scorer.negatives import DESCRIPTIONS
from hsfiq.model.system_recipes import (
    STAGED,
    SYSTEM_RECIPES,
    system_on_drawn,
    system_recipe,
    system_recipe_from_json,
)

PAPERS = Path(__file__).parents[2] / "PAPERS.md"
QURE = RECIPES["qure-fashioniq"]

by_name = pytest.mark.parametrize("name", RECIPES)


@given(st.integers(1, 60), st.integers(1, 60))
def test_sets_are_defined_as_in_algorithm_1(epochs: int, n_def: int) -> None:
    if n_def > epochs:
        with pytest.raises(UnreadableInput, match=f"n_def is {n_def}, more than its {epochs}"):
            replace(QURE, epochs=epochs, n_def=n_def)
        return
    literal = [epoch for epoch in range(1, epochs) if epoch % (epochs // n_def) == 0]
    assert list(replace(QURE, epochs=epochs, n_def=n_def).definitions) == literal


def test_the_learning_rate_follows_a_cosine() -> None:
    assert QURE.lr_at(0) == 5e-6
    assert QURE.lr_at(15) == pytest.approx((5e-6 + 5e-8) / 2)
    assert QURE.lr_at(30) == pytest.approx(5e-8)
    rates = [QURE.lr_at(epoch) for epoch in range(30)]
    assert rates == sorted(rates, reverse=True)
    assert replace(QURE, final_lr_share=1.0).lr_at(17) == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cirqrs-fashionq", "there is no such recipe; did you mean 'cirqrs-fashioniq'? choose"),
        ("xyz", "'xyz': there is no such recipe; choose from cirqrs-fashioniq,"),
        ("", "'': there is no such recipe; choose from"),
        ("a\nb", r"'a\nb': there is no such recipe; choose from"),
    ],
)
def test_an_unknown_name(name: str, message: str) -> None:
    with pytest.raises(UnreadableInput, match=re.escape(message)) as error:
        recipe(name)
    assert "\n" not in str(error.value)


def test_other_values() -> None:
    texts = {"epochs": "12", "lr": "1e-4", "betas": "0.8, 0.99", "clip_norm": "1"}
    texts |= {"strategy": "top-k", "n_neg": "100", "val_recall": "1,5,10"}
    changed = QURE.with_values(texts)
    expected = replace(QURE, epochs=12, lr=1e-4, betas=(0.8, 0.99), clip_norm=1.0)
    assert changed == replace(expected, strategy="top-k", n_neg=100, val_recall=(1, 5, 10))
    assert changed.with_values({"clip_norm": "none"}).clip_norm is None
    assert QURE.with_values({}) == QURE


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("epoch", "5", "that can be changed; did you mean 'epochs'? choose from"),
        ("name", "x", "name=x: qure-fashioniq has no setting 'name' that can be changed; choose"),
        ("dataset", "cirr", "dataset=cirr: qure-fashioniq has no setting 'dataset'"),
        ("epochs", "five", "epochs=five: 'five' is not a whole number"),
        ("epochs", "1_0", "epochs=1_0: '1_0' is not a whole number"),
        ("epochs", "", "epochs=: '' is not a whole number"),
        ("epochs", "0", "recipe qure-fashioniq: epochs is 0, not from 1 to 100000"),
        ("batch", "32.0", "'32.0' is not a whole number"),
        ("lr", "fast", "lr=fast: 'fast' is not a number"),
        ("lr", "nan", "recipe qure-fashioniq: lr is nan, not from 1e-12 to 10"),
        ("lr", "inf", "lr is inf, not from"),
        ("lr", "0", "lr is 0.0, not from"),
        ("betas", "0.9", "betas=0.9: '0.9' is not 2 comma-separated values"),
        ("betas", "0.9,1", "betas is 0.9,1.0, not from 0 to 0.999999"),
        ("clip_norm", "-1", "clip_norm is -1.0, not from"),
        ("val_recall", "10,0", "val_recall is 10,0, not from 1"),
        ("strategy", "hard", "strategy=hard: 'hard' is not one of corpus, top-k, after-target"),
        ("strategy", "top-k", "strategy top-k needs n_neg"),
        ("accumulate", "3", "accumulate is 3, but batch is 32: not equal parts"),
        ("n_def", "31", "n_def is 31, more than its 30 epochs"),
        ("seed", "-1", "seed is -1, not from 0"),
    ],
)
def test_invalid_values(key: str, text: str, message: str) -> None:
    with pytest.raises(UnreadableInput, match=re.escape(message)):
        QURE.with_values({key: text})


def test_every_number_has_its_range() -> None:
    numbers = {
        key
        for kinds in (Recipe.kinds(), *(stated.kinds() for stated in SYSTEM_RECIPES.values()))
        for key, kind in kinds.items()
        if re.search(r"\b(int|float)\b", str(kind)) is not None
    }
    assert set(RANGES) == numbers


def test_every_strategy_has_a_rule() -> None:
    assert set(get_args(Strategy)) == set(DESCRIPTIONS)


def test_an_unknown_name_is_reported_without_importing_torch() -> None:
    code = "import sys, hsfiq.model.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@st.composite
def random_recipes(draw: st.DrawFn) -> Recipe:
    values: dict[str, Any] = {"name": draw(st.sampled_from(list(RECIPES)))}
    for key, kind in Recipe.kinds().items():
        if key in RANGES:
            lowest, highest = RANGES[key]
            is_whole = "int" in str(kind)
            value = (
                st.integers(int(lowest), int(highest)) if is_whole else st.floats(lowest, highest)
            )
            if "tuple" in str(kind):
                value = st.tuples(value, value)  # type: ignore[assignment]
            values[key] = draw(value | st.none() if "None" in str(kind) else value)
        elif key != "name":
            values[key] = draw(st.sampled_from(get_args(kind)))
    values["n_def"] = min(values["n_def"], values["epochs"])
    in_parts = values["strategy"] != "in-batch"
    values["accumulate"] = draw(st.sampled_from([1, values["batch"]] if in_parts else [1]))
    if values["strategy"] in SIZED:
        values["n_neg"] = values["n_neg"] or 1
    return Recipe(**values)


@given(random_recipes())
def test_a_recipe_round_trips_through_json(random_recipe: Recipe) -> None:
    assert (
        Recipe.from_json(json.loads(json.dumps(random_recipe.to_json())), "it.json")
        == random_recipe
    )


@given(random_recipes())
def test_values_round_trip_through_text(random_recipe: Recipe) -> None:
    for key, kind in Recipe.kinds().items():
        assert parsed(shown(getattr(random_recipe, key)), kind) == getattr(random_recipe, key)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "it.json: is not a recipe of this version; missing or unknown: accumulate, batch,"),
        ({**QURE.to_json(), "warmth": 3}, "it.json: is not a recipe of this version; missing or"),
        ({**QURE.to_json(), "lr": None}, "it.json: lr: None is not a number"),
        ({**QURE.to_json(), "lr": []}, "it.json: lr: [] is not a number"),
        ({**QURE.to_json(), "epochs": 3.0}, "it.json: epochs: 3.0 is not a whole number"),
        ({**QURE.to_json(), "epochs": True}, "it.json: epochs: True is not a whole number"),
        ({**QURE.to_json(), "pool": {"a": 1}}, "it.json: pool: {'a': 1} is not one of targets"),
        ({**QURE.to_json(), "n_def": 40}, "recipe qure-fashioniq: n_def is 40, more than its 30"),
    ],
)
def test_invalid_recipes_are_refused(value: object, message: str) -> None:
    with pytest.raises(UnreadableInput, match=re.escape(message)):
        Recipe.from_json(value, "it.json")


@by_name
def test_a_recipe_on_the_drawn_catalogue(name: str) -> None:
    paper_recipe, small = recipe(name), on_drawn(recipe(name))
    assert (small.encoder, small.dataset) == ("tiny", "drawn")
    for key in ("name", "strategy", "n_def", "threshold", "pool", "pooling"):
        assert getattr(small, key) == getattr(paper_recipe, key)
    assert (small.n_neg is None) == (paper_recipe.n_neg is None)
    assert set(paper_recipe.changes(small)) <= set(DRAWN)


def test_changed_values_are_reported() -> None:
    changed = replace(QURE, epochs=3, n_def=2, clip_norm=1.0)
    numbers = {"epochs": ("30", "3"), "n_def": ("6", "2")}
    assert QURE.changes(changed) == numbers | {"clip_norm": ("none", "1.0")}
    assert QURE.changes(QURE) == {}


ROW = re.compile(r"\| `(?P<key>\w+)` \| `(?P<value>[^`]*)` \| (?P<source>.+) \|")


def documented_values() -> dict[str, list[re.Match[str]]]:
    """The rows of each recipe's table."""
    tables: dict[str, list[re.Match[str]]] = {}
    rows: list[re.Match[str]] = []
    for line in PAPERS.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `([\w-]+)`", line):
            rows = tables[heading[1]] = []
        elif row := ROW.fullmatch(line):
            rows.append(row)
    return tables


def test_every_recipe_has_its_table() -> None:
    assert list(documented_values()) == [*RECIPES, *SYSTEM_RECIPES]


@by_name
def test_every_value_has_its_source(name: str) -> None:
    rows = documented_values()[name]
    assert [row["key"] for row in rows] == [field.name for field in fields(Recipe)]
    values = {row["key"]: row["value"] for row in rows}
    assert all(values[key] == getattr(recipe(name), key) for key in Recipe.FIXED)
    written = {key: text for key, text in values.items() if key not in Recipe.FIXED}
    assert recipe(name).changes(recipe(name).with_values(written)) == {}
    for row in rows[len(Recipe.FIXED) :]:
        assert re.search(r"paper|code|\*\*not stated\*\*", row["source"]), row["key"]


@pytest.mark.parametrize("name", SYSTEM_RECIPES)
def test_every_value_of_a_system_has_its_source(name: str) -> None:
    """The tables for CIRR have only what differs from FashionIQ."""
    stated = SYSTEM_RECIPES[name]
    keys = [field.name for field in fields(stated)]
    if stated.dataset == "cirr":
        base = SYSTEM_RECIPES[name.replace("-cirr", "-fashioniq")]
        keys = [key for key in keys if getattr(stated, key) != getattr(base, key)]
    rows = documented_values()[name]
    assert [row["key"] for row in rows] == keys
    for row in rows:
        value = parsed(row["value"], type(stated).kinds()[row["key"]])
        assert value == getattr(stated, row["key"]), row["key"]
        is_ours = row["key"] in ("name", "system")
        assert is_ours or re.search(r"paper|code|\*\*not stated\*\*", row["source"]), row["key"]


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
    with pytest.raises(UnreadableInput, match="names an unknown system: 'dall-e'"):
        system_recipe_from_json({"system": "dall-e"}, "here")
