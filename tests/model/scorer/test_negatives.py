"""Negatives: hardness, mining and redefinition, against loops and reference implementations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, median_low
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skew

from hsfiq.cli.training_bar import TrainingBar
from hsfiq.errors import UnreadableInput
from hsfiq.model.data import mining_text, training_text
from hsfiq.model.encoders.encoder import Encoder, normalise
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.recipes import Pooling, Recipe, Strategy, recipe
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.job import RunFolder, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, new_scorer
from hsfiq.model.scorer.negatives import (
    FAR,
    Definition,
    Hardness,
    NegativeRule,
    defined_at,
    draw_from_corpus,
    draw_from_scores,
    draw_negatives,
    from_tensors,
    hardness_of,
    negative_mask,
    rule_at,
    skewness,
    summary,
)
from hsfiq.model.scorer.negatives import Drawn as DrawnNegatives
from hsfiq.model.scorer.scorer import Scorer
from hsfiq.model.scorer.training import Batch, Trainer
from tests.model.scorer import reference_negatives
from tests.model.scorer.helpers import ONE_PROCESS, SMALL, Drawn, Recorder, train

pytestmark = pytest.mark.usefixtures("one_thread")

TAU = 0.07


def test_hardness_equals_loops_over_the_images() -> None:
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(40, 25, generator=generator).mul(4).round().mul(0.05)  # with equal scores
    targets, negatives = (torch.randint(0, 25, (40,), generator=generator) for _ in range(2))
    negatives = torch.where(negatives == targets, (negatives + 1) % 25, negatives)
    rows = []
    for row, target, negative in zip(scores.tolist(), targets, negatives, strict=True):
        above = [sum(score > row[image] for score in row) for image in (target, negative)]
        margins = [(row[target] - score) / TAU for i, score in enumerate(row) if i != target]
        margin = (row[target] - row[negative]) / TAU
        weights = [1 / (1 + math.exp(each)) for each in margins]
        rows.append(
            (above[1] - above[0], margin, 1 / (1 + math.exp(margin)), fmean(weights), skew(row))
        )
    measured = hardness_of(scores, targets, negatives, TAU)
    for ours, theirs in zip(measured.tolist(), rows, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    hardness = summary(measured)
    assert hardness.median_place == median_low(row[0] for row in rows)
    assert hardness.mean_margin == pytest.approx(fmean(row[1] for row in rows), abs=1e-4)
    assert hardness.share_far == fmean(row[1] > FAR for row in rows)
    assert hardness.random_weight == pytest.approx(fmean(row[3] for row in rows), abs=1e-5)


def test_the_tail_of_a_ranking_is_easier_than_random_images() -> None:
    scores = torch.linspace(1, 0, 50).expand(3, 50)
    for negative, is_easier in ((1, False), (49, True)):
        rows = hardness_of(scores, torch.zeros(3).long(), torch.full((3,), negative), TAU)
        assert summary(rows).is_easier_than_random == is_easier


def test_equal_scores_are_not_skewed() -> None:
    assert skewness(torch.ones(2, 5)).tolist() == [0, 0]


@pytest.mark.parametrize("weight", [0.2, 0.1])
def test_negatives_easier_than_random_images_are_warned_of(
    weight: float, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, sizes = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    hardness = Hardness(3, 1.5, 0.25, weight, 0.15, -0.5)
    TrainingBar().defined(Definition(6, "qure", columns, sizes, 0, hardness))
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("warning: epoch 6: the") for line in lines) == (weight < 0.15)


ScoredBatch = tuple[torch.Tensor, torch.Tensor]

FEW = st.integers(0, 4).map(float)
SOME = st.integers(0, 40).map(lambda i: i / 8)
ANY = st.floats(-4, 4, width=32)


@st.composite
def batches(draw: st.DrawFn) -> ScoredBatch:
    """Scores [B, N] and targets [B]; mostly with few distinct scores, so that ties are common."""
    images = draw(st.integers(2, 24))
    values = draw(st.sampled_from((FEW, SOME, ANY)))
    row = st.lists(values, min_size=images, max_size=images)
    rows = draw(st.lists(row, min_size=1, max_size=4))
    targets = [draw(st.integers(0, images - 1)) for _ in rows]
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(targets)


def rules() -> st.SearchStrategy[NegativeRule]:
    sizes = st.integers(1, 26)
    return st.one_of(
        st.sampled_from((NegativeRule("corpus"), NegativeRule("qure"))),
        sizes.map(lambda k: NegativeRule("top-k", k=k)),
        sizes.map(lambda k: NegativeRule("after-target", k=k)),
        sizes.map(lambda k: NegativeRule("cirqrs", k=k)),
        st.integers(1, 4).map(lambda threshold: NegativeRule("qure-code", threshold=threshold)),
        sizes.map(lambda k: NegativeRule("qure-bounded", k=k)),
    )


def check(scores: torch.Tensor, targets: torch.Tensor, rule: NegativeRule) -> None:
    mask, fell_back = negative_mask(scores, targets, rule)
    for row, target in enumerate(targets.tolist()):
        expected = reference_negatives.negatives(list(scores[row].numpy()), target, rule)
        assert (set(mask[row].nonzero().flatten().tolist()), bool(fell_back[row])) == expected


@given(batches(), rules())
def test_sets_equal_the_reference(batch: ScoredBatch, rule: NegativeRule) -> None:
    check(*batch, rule)


@pytest.mark.parametrize("rule", [NegativeRule("qure"), NegativeRule("qure-code", threshold=1)])
def test_sets_of_realistic_scores_equal_the_reference(rule: NegativeRule) -> None:
    generator = torch.Generator().manual_seed(3)
    queries, images = (torch.randn(n, 16, generator=generator) for n in (40, 300))
    check(queries @ images.T, torch.arange(40), rule)


QURE = NegativeRule("qure")


@pytest.mark.parametrize(
    ("scores", "target", "rule", "expected", "falls_back"),
    [
        # Ranked: target 10, then 5 4.9 | 3 2.9 2.8 | 1 0.9: steepest 1.9 and 1.8.
        ([2.9, 5, 10, 1, 4.9, 3, 2.8, 0.9, 12], 2, QURE, {0, 5, 6}, False),
        # Drops below the target, in ranking order: 4 5 1 2. From the steepest on their places are
        # 1 0 3 2: the code passes the neighbours 1 and 0 by and takes 0 and 3.
        ([20.0, 13, 9, 4, 3, 1], 0, QURE, {2}, False),
        ([20.0, 13, 9, 4, 3, 1], 0, NegativeRule("qure-code", threshold=1), {2, 3, 4}, False),
        # The steepest drops lie at the end; among the four images below the target they do not.
        ([9.0, 8, 7, 5, 4.5, 4, 3.9, 1, -5], 0, QURE, {7}, False),
        ([9.0, 8, 7, 5, 4.5, 4, 3.9, 1, -5], 0, NegativeRule("qure-bounded", k=4), {2}, False),
        ([9.0, 8, 7, 5, 4.5, 4, 3.9, 1, -5], 0, NegativeRule("qure-bounded", k=99), {7}, False),
        ([5.0, 4, 3, 6], 0, QURE, {1, 2}, True),  # two below the target: no second drop
        ([5.0, 4, 4, 4, 4], 0, QURE, {1, 2, 3, 4}, True),  # no drop at all
        ([1.0, 4, 1, 2], 0, QURE, {1, 2, 3}, True),  # nothing below
    ],
)
def test_sets_by_hand(
    scores: list[float], target: int, rule: NegativeRule, expected: set[int], falls_back: bool
) -> None:
    mask, fell_back = negative_mask(torch.tensor([scores]), torch.tensor([target]), rule)
    assert set(mask[0].nonzero().flatten().tolist()) == expected
    assert bool(fell_back[0]) == falls_back


def test_all_decreasing_drops_are_examined() -> None:
    curve = -torch.arange(200, dtype=torch.float64).sqrt()
    smooth = curve.float()
    late_drop = smooth.clone()
    late_drop[160:] -= 0.035  # between two of the first drops that the walk then compares late
    rule = NegativeRule("qure-code", threshold=1)
    check(torch.stack([smooth, late_drop]), torch.tensor([0, 0]), rule)
    _, fell_back = negative_mask(torch.stack([smooth, late_drop]), torch.tensor([0, 0]), rule)
    assert fell_back.tolist() == [True, False]


def test_cirqrs_halves_and_stops_at_one() -> None:
    def sizes(k: int, definitions: int) -> list[int | None]:
        rule = NegativeRule("cirqrs", k=k)
        return [rule.redefined(times).k for times in range(definitions)]

    assert sizes(50, 4) == [50, 25, 12, 6]
    assert sizes(100, 8) == [100, 50, 25, 12, 6, 3, 1, 1]
    fixed = NegativeRule("after-target", k=100)
    assert fixed.redefined(3) == fixed


def test_the_description_of_a_rule() -> None:
    assert str(NegativeRule("cirqrs", k=50).redefined(1)).startswith("the 25 best scored below")
    assert "more than 1 apart" in str(NegativeRule("qure-code", threshold=1))


@pytest.mark.parametrize(
    ("strategy", "k", "threshold", "message"),
    [
        ("hardest", None, None, "one of corpus, top-k"),
        ("top-k", None, None, "give k, 1 or more"),
        ("cirqrs", 0, None, "give k, 1 or more"),
        ("qure", 50, None, "leave k out"),
        ("qure-code", None, None, "give threshold, 1 or more"),
        ("corpus", None, 1, "leave threshold out"),
    ],
)
def test_invalid_rules(strategy: str, k: int | None, threshold: int | None, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        NegativeRule(strategy, k, threshold)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        ([[1.0]], 0, "pool of images: has 1"),
        ([[1.0, 2.0]], 2, r"query 0: its target is not in the pool \(column 2 of 2\)"),
        ([[1.0, 2.0]], -1, "its target is not in the pool"),
        ([[1.0, float("nan")]], 0, "infinite or not a number"),
        ([[float("-inf"), 1.0]], 0, "infinite or not a number"),
    ],
)
@pytest.mark.parametrize("rule", [NegativeRule("top-k", k=1), NegativeRule("qure")])
def test_unusable_scores_are_refused(
    scores: list[list[float]], target: int, message: str, rule: NegativeRule
) -> None:
    with pytest.raises(UnreadableInput, match=message):
        negative_mask(torch.tensor(scores), torch.tensor([target]), rule)


def uniforms(queries: int, draws: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(queries, draws, generator=torch.Generator().manual_seed(seed))


@given(batches(), rules(), st.integers(1, 30), st.integers(0, 5))
def test_draws_equal_the_reference(
    batch: ScoredBatch, rule: NegativeRule, epochs: int, seed: int
) -> None:
    scores, targets = batch
    u = uniforms(len(targets), epochs, seed)
    drawn = draw_from_scores(scores, targets, rule, u, TAU)
    for row, target in enumerate(targets.tolist()):
        members, fell_back = reference_negatives.negatives(list(scores[row].numpy()), target, rule)
        assert drawn.columns[row].tolist() == reference_negatives.draws(
            members, list(u[row].numpy())
        )
        assert (int(drawn.sizes[row]), bool(drawn.fell_back[row])) == (len(members), fell_back)


@given(st.integers(2, 12), st.integers(0, 30), st.data())
def test_draws_from_corpus_equal_reference(images: int, epochs: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, images - 1))
    u = uniforms(1, epochs)
    drawn = draw_from_corpus(images, torch.tensor([target]), u)
    other_images = set(range(images)) - {target}
    assert drawn.columns[0].tolist() == reference_negatives.draws(other_images, list(u[0].numpy()))
    assert drawn.sizes.tolist() == [images - 1]


def some_draws(
    queries: torch.Tensor,
    gallery: torch.Tensor,
    targets: torch.Tensor,
    rule: NegativeRule,
    u: torch.Tensor,
    chunk: int = 2,
    pooling: Pooling = "max",
) -> DrawnNegatives:
    return draw_negatives(queries, gallery, targets, rule, u, pooling, chunk=chunk, temperature=TAU)


@pytest.mark.parametrize("strategy", ["corpus", "top-k", "after-target", "cirqrs", "qure"])
def test_draws_depend_neither_on_chunks_nor_on_shares(strategy: str) -> None:
    generator = torch.Generator().manual_seed(1)
    # Whole numbers: their products are exact, so nothing hangs on the order of additions.
    queries = torch.randint(-4, 5, (23, 6), generator=generator).float()
    gallery = torch.randint(-4, 5, (31, 3, 6), generator=generator).float()
    targets = torch.randint(0, 31, (23,), generator=generator)
    rule = NegativeRule(strategy, k=None if strategy in ("corpus", "qure") else 5)  # type: ignore[arg-type]
    u = uniforms(23, 7)
    complete = some_draws(queries, gallery, targets, rule, u, 100)
    for chunk in (1, 4, 23):
        chunked = some_draws(queries, gallery, targets, rule, u, chunk)
        for name in ("columns", "sizes", "fell_back"):
            assert torch.equal(getattr(chunked, name), getattr(complete, name))
    for start in (0, 1):
        own = slice(start, None, 2)
        share = some_draws(queries[own], gallery, targets[own], rule, u[own], 4)
        assert torch.equal(share.columns, complete.columns[own])


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_shares_of_real_vectors_give_the_same_draws(pooling: Pooling) -> None:
    generator = torch.Generator().manual_seed(2)
    queries, gallery = (torch.randn(s, generator=generator) for s in ((150, 32), (90, 4, 32)))
    targets = torch.randint(0, 90, (150,), generator=generator)
    u = uniforms(150, 5)
    complete = some_draws(queries, gallery, targets, QURE, u, 32, pooling)
    for start, count in product(range(3), (3, 50)):
        own = slice(start, start + 3 * count, 3)
        share = some_draws(queries[own], gallery, targets[own], QURE, u[own], 32, pooling)
        assert torch.equal(share.columns, complete.columns[own])
        assert torch.equal(share.sizes, complete.sizes[own])


def test_a_share_without_queries_draws_nothing() -> None:
    no_queries, targets = torch.empty(0, 4), torch.empty(0, dtype=torch.int64)
    drawn = some_draws(no_queries, torch.ones(5, 2, 4), targets, QURE, uniforms(0, 3))
    assert drawn.columns.shape == (0, 3)
    assert drawn.sizes.shape == drawn.fell_back.shape == (0,)


def test_drawing_from_the_corpus_needs_no_scores() -> None:
    # Vectors that are no numbers would be refused if anything were scored.
    broken, u = torch.full((4, 2, 3), torch.nan), uniforms(4, 3)
    drawn = some_draws(broken[:, 0], broken, torch.arange(4), NegativeRule("corpus"), u)
    assert drawn.sizes.tolist() == [3, 3, 3, 3]
    with pytest.raises(UnreadableInput, match="not a number"):
        some_draws(broken[:, 0], broken, torch.arange(4), QURE, u)


def test_a_target_outside_the_pool_is_named_in_every_chunk() -> None:
    targets = torch.tensor([0, 1, 9])
    for rule in (NegativeRule("corpus"), QURE):
        with pytest.raises(UnreadableInput, match="query 2: its target is not in the pool"):
            some_draws(torch.ones(3, 2), torch.ones(4, 1, 2), targets, rule, uniforms(3, 1), 1)


def test_a_one_image_corpus_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="two images or more"):
        draw_from_corpus(1, torch.tensor([0]), uniforms(1, 1))


def test_numbers_just_below_1_draw_the_last() -> None:
    almost = torch.full((1, 1), 1 - 2**-24)
    for images in (*range(2, 300), 2**16, 2**16 + 1, 123_403, 2**24 - 1):
        drawn = draw_from_corpus(images, torch.tensor([images - 1]), almost)
        assert drawn.columns.tolist() == [[images - 2]]


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
        ("cirqrs-fashioniq", (6, 12, 18, 24), {6 * i: 100 >> i for i in range(1, 5)}),
        ("cirqrs-cirr", (8, 16, 24, 32, 40, 48), {8 * i: 200 >> i for i in range(1, 7)}),
        ("qure-fashioniq", (5, 10, 15, 20, 25), {5: None}),
        ("qure-cirr", (8, 16, 24, 32, 40, 48), {8: None}),
    ],
)
def test_papers_definitions(
    name: str, definitions: tuple[int, ...], rules: dict[int, int | None]
) -> None:
    """The rules by their first epoch: the k of CIRQRS, none for QuRe."""
    run_recipe = recipe(name)
    assert run_recipe.definitions == definitions
    expected = {epoch: DROPS if k is None else HALVED.format(k) for epoch, k in rules.items()}
    assert rules_of(run_recipe) == {0: CORPUS, **expected}
    starts = [0, *definitions]
    for epoch in range(run_recipe.epochs):
        assert defined_at(run_recipe, epoch) == max(start for start in starts if start <= epoch)


def test_the_corpus_is_never_redefined_but_redrawn() -> None:
    run_recipe = replace(recipe("cirqrs-fashioniq"), strategy="corpus")
    assert rules_of(run_recipe) == {0: CORPUS}
    assert {defined_at(run_recipe, epoch) for epoch in range(30)} == {0, 6, 12, 18, 24}


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
    job = TrainingJob(drawn.data, folder, ScorerPaths(), ONE_PROCESS, recorder)
    return Trainer(scorer, run_recipe, job, tokens, run_folder), scorer


@pytest.mark.parametrize("strategy", ["cirqrs", "qure", "qure-code", "top-k", "after-target"])
def test_negatives_are_defined_with_the_current_weights(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path, strategy: Strategy
) -> None:
    run_recipe = replace(SMALL, strategy=strategy, epochs=3, n_def=2, n_neg=6)
    trainer, _ = trainer_of(drawn, tokens, run_recipe, tmp_path)
    trainer.train()
    checker = trainer.callbacks[0]
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
    definitions = finished.recorder.definitions
    sizes = [(definition.epoch, definition.columns.shape[1]) for definition in definitions]
    assert sizes == [(0, 2), (2, 2), (4, 1)]


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
        batches: list[Batch] = list(trainer.drawn(epoch, 0, definition))
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
    remaining = list(trainer.drawn(1, 3, definition))
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
