"""Training defines its negatives by the rule with the current weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hsfiq.model.data import mining_text, training_text
from hsfiq.model.encoders.encoder import Encoder, normalise
from hsfiq.model.features import TokenSource
from hsfiq.model.recipes import RECIPES, Recipe, Strategy, recipe
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.job import RunFolder
from hsfiq.model.scorer.loading import new_scorer
from hsfiq.model.scorer.negatives import (
    Definition,
    Hardness,
    NegativeRule,
    defined_at,
    from_tensors,
    rule_at,
)
from hsfiq.model.scorer.scorer import Scorer
from hsfiq.model.scorer.training import Batch, Trainer
from tests.model.negatives import reference_negatives
from tests.model.training.helpers import ONE_PROCESS, SMALL, Drawn, Recorder, train

pytestmark = pytest.mark.usefixtures("one_thread")


# ------------------------------------------------------------------------------------ which rule


def rules_of(run_recipe: Recipe) -> dict[int, str]:
    """The rules in words, by the first epoch in which each applies."""
    rules: dict[int, str] = {}
    for epoch in range(run_recipe.epochs):
        rule = str(rule_at(run_recipe, epoch))
        if epoch == 0 or rule != str(rule_at(run_recipe, epoch - 1)):
            rules[epoch] = rule
    return rules


CORPUS = "everything but the target"
HALVED = "the {} best scored below the target, half as many at each redefinition"
DROPS = "those between the two steepest score drops below the target"


@pytest.mark.parametrize(
    ("name", "definitions", "rules"),
    [
        (
            "cirqrs-fashioniq",
            (6, 12, 18, 24),
            {
                6: HALVED.format(50),
                12: HALVED.format(25),
                18: HALVED.format(12),
                24: HALVED.format(6),
            },
        ),
        (
            "cirqrs-cirr",
            (8, 16, 24, 32, 40, 48),
            {8 * i: HALVED.format(100 >> i - 1) for i in range(1, 7)},
        ),
        ("qure-fashioniq", (5, 10, 15, 20, 25), {5: DROPS}),
        ("qure-cirr", (8, 16, 24, 32, 40, 48), {8: DROPS}),
    ],
)
def test_the_papers_definitions(
    name: str, definitions: tuple[int, ...], rules: dict[int, str]
) -> None:
    run_recipe = recipe(name)
    assert run_recipe.definitions == definitions
    assert rules_of(run_recipe) == {0: CORPUS, **rules}
    starts = [0, *definitions]
    for epoch in range(run_recipe.epochs):
        assert defined_at(run_recipe, epoch) == max(start for start in starts if start <= epoch)


def test_the_corpus_is_never_redefined_but_redrawn() -> None:
    run_recipe = replace(recipe("cirqrs-fashioniq"), strategy="corpus")
    assert rules_of(run_recipe) == {0: CORPUS}
    assert {defined_at(run_recipe, epoch) for epoch in range(30)} == {0, 6, 12, 18, 24}


# --------------------------------------------------------------------------------- definitions


class Checker(Recorder):
    """Compares each definition with sets computed one query at a time."""

    def __init__(
        self, drawn: Drawn, run_recipe: Recipe, scorer: Scorer, tokens: TokenSource
    ) -> None:
        super().__init__()
        self._drawn, self._recipe, self._scorer, self._tokens = drawn, run_recipe, scorer, tokens

    @torch.no_grad()
    def defined(self, definition: Definition) -> None:
        super().defined(definition)
        data, encoder = self._drawn.data, self._scorer.encoder
        rule = rule_at(self._recipe, definition.epoch)
        pools = {
            name: [encoder.gallery(self._tokens.tokens([image]))[0] for image in images]
            for name, images in data.pools.items()
        }
        uniforms = torch.rand(
            definition.columns.shape,
            generator=generator(self._recipe.seed, "negatives", definition.epoch),
        )
        n_fell_back = 0
        for i, example in enumerate(data.train):
            query = self.query(encoder, example)
            scores = [(vectors @ query).max().numpy() for vectors in pools[example.pool]]
            target = data.pools[example.pool].index(example.target)
            members, fell_back = reference_negatives.negatives(scores, target, rule)
            assert target not in members
            assert definition.sizes[i] == len(members)
            expected = reference_negatives.draws(members, uniforms[i].tolist())
            assert definition.columns[i].tolist() == expected
            n_fell_back += fell_back
        assert definition.n_fell_back == n_fell_back

    def query(self, encoder: Encoder, example: Any) -> torch.Tensor:
        text = normalise(mining_text(example.captions))
        return encoder.compose(self._tokens.tokens([example.reference]), [text])[0]


def trainer_of(
    drawn: Drawn,
    tokens: TokenSource,
    run_recipe: Recipe,
    folder: Path,
    callback: Recorder | None = None,
) -> tuple[Trainer, Scorer]:
    scorer = new_scorer(run_recipe, None)
    recorder = callback or Checker(drawn, run_recipe, scorer, tokens)
    run_folder = RunFolder(folder, {"recipe": run_recipe.to_json()}, {})
    return Trainer(
        scorer, drawn.data, run_recipe, tokens, run_folder, ONE_PROCESS, [recorder]
    ), scorer


@pytest.mark.parametrize("strategy", ["cirqrs", "qure", "qure-code", "top-k", "after-target"])
def test_negatives_are_defined_with_the_current_weights(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path, strategy: Strategy
) -> None:
    run_recipe = replace(SMALL, strategy=strategy, epochs=3, n_def=2, n_neg=6)
    trainer, _ = trainer_of(drawn, tokens, run_recipe, tmp_path)
    trainer.train()
    (checker,) = trainer.callbacks
    assert isinstance(checker, Checker)
    assert [definition.epoch for definition in checker.definitions] == [0, 1, 2]
    assert [definition.columns.shape[1] for definition in checker.definitions] == [1, 1, 1]


def test_set_sizes_halve(drawn: Drawn, tmp_path: Path) -> None:
    run_recipe = replace(SMALL, epochs=5, n_def=5, n_neg=8)
    finished = train(drawn, tmp_path / "run", run_recipe)
    lines = finished.last.about["progress"]["definitions"]
    # Where the target ranks so low that fewer are below it, a set is smaller; where none is, all.
    assert [line["median_size"] for line in lines[1:]] == [8, 4, 2, 1]
    assert [line["rule"] for line in lines] == [CORPUS, *(HALVED.format(k) for k in (8, 4, 2, 1))]
    assert lines[0]["smallest"] == min(map(len, drawn.data.pools.values())) - 1
    for line, definition in zip(lines, finished.recorder.definitions, strict=True):
        assert line["n_queries"] == 60
        assert line["mean_size"] == definition.sizes.double().mean().item()


def test_a_definition_is_kept_until_the_next(drawn: Drawn, tmp_path: Path) -> None:
    """30 epochs in 4 parts are 7, 7, 7, 7 and 2; here 5 in 2 parts: 2, 2 and 1."""
    finished = train(drawn, tmp_path / "run", replace(SMALL, epochs=5, n_def=2))
    assert [definition.epoch for definition in finished.recorder.definitions] == [0, 2, 4]
    assert [definition.columns.shape[1] for definition in finished.recorder.definitions] == [
        2,
        2,
        1,
    ]


# ----------------------------------------------------------------------------------------- epochs


def test_an_epoch_trains_each_triplet_once_with_its_draw(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path
) -> None:
    run_recipe = replace(SMALL, captions="four-way")
    trainer, _ = trainer_of(drawn, tokens, run_recipe, tmp_path, Recorder())
    definition = trainer.current_definition(0)
    data = drawn.data
    by_id = {example.triplet_id: (i, example) for i, example in enumerate(data.train)}
    orders = []
    for epoch in (0, 1):
        batches: list[Batch] = list(trainer.batches(epoch, 0, definition))
        assert [batch.n for batch in batches] == [13, 13, 13, 13, 8]
        assert [batch.weight for batch in batches] == [1 / 13] * 4 + [1 / 8]
        orders.append([name for batch in batches for name in batch.triplet_ids])
        assert sorted(orders[-1]) == sorted(by_id)
        captions = torch.rand(60, generator=generator(run_recipe.seed, "captions", epoch)).tolist()
        for batch in batches:
            for place, name in enumerate(batch.triplet_ids):
                i, example = by_id[name]
                negative = data.pools[example.pool][definition.columns[i, epoch]]
                images = [example.reference, example.target, negative]
                read = torch.stack(
                    [batch.references[place], batch.targets[place], batch.negatives[place]]
                )
                assert read.equal(tokens.tokens(images))
                text = training_text(example.captions, "four-way", captions[i])
                assert batch.texts[place] == normalise(text)
    assert orders[0] != orders[1]
    remaining = list(trainer.batches(1, 3, definition))
    assert [name for batch in remaining for name in batch.triplet_ids] == orders[1][39:]


def test_a_checkpoint_keeps_a_definition() -> None:
    columns, sizes = torch.tensor([[3, 1], [0, 2]], dtype=torch.int32), torch.tensor([4, 2])
    hardness = Hardness(3, 1.5, 0.25, 0.1, 0.2, -0.5)
    definition = Definition(6, str(NegativeRule("qure")), columns, sizes.int(), 1, hardness)
    reloaded = from_tensors(definition.tensors(), definition.to_json())
    assert (reloaded.epoch, reloaded.rule, reloaded.n_fell_back) == (6, DROPS, 1)
    assert reloaded.columns.equal(columns)
    assert reloaded.sizes.equal(sizes.int())
    assert reloaded.hardness == hardness


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_of_the_papers_trains_on_the_drawn_catalogue(
    drawn: Drawn, tmp_path: Path, name: str
) -> None:
    run_recipe = recipe(name)
    small = replace(
        SMALL,
        name=name,
        epochs=2,
        n_def=2,
        strategy=run_recipe.strategy,
        n_neg=run_recipe.n_neg,
        pool=run_recipe.pool,
    )
    assert len(train(drawn, tmp_path / "run", small, data=drawn.first(13)).recorder.epochs) == 2
