"""Negative sets and draws, compared with the reference implementations, including ties."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import Pooling
from hsfiq.model.scorer.negatives import (
    Drawn,
    NegativeRule,
    draw_from_corpus,
    draw_from_scores,
    draw_negatives,
    negative_mask,
)
from tests.model.negatives import reference_negatives

Batch = tuple[torch.Tensor, torch.Tensor]
TAU = 0.07

FEW = st.integers(0, 4).map(float)
SOME = st.integers(0, 40).map(lambda i: i / 8)
ANY = st.floats(-4, 4, width=32)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
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
def test_sets_equal_the_reference(batch: Batch, rule: NegativeRule) -> None:
    check(*batch, rule)


@pytest.mark.parametrize("rule", [NegativeRule("qure"), NegativeRule("qure-code", threshold=1)])
def test_sets_of_realistic_scores_equal_the_reference(rule: NegativeRule) -> None:
    generator = torch.Generator().manual_seed(3)
    queries, images = (torch.randn(n, 16, generator=generator) for n in (40, 300))
    check(queries @ images.T, torch.arange(40), rule)


@given(batches(), rules())
def test_a_batch_equals_its_queries_one_by_one(batch: Batch, rule: NegativeRule) -> None:
    scores, targets = batch
    mask, fell_back = negative_mask(scores, targets, rule)
    for row in range(len(scores)):
        single, alone_fell_back = negative_mask(scores[row : row + 1], targets[row : row + 1], rule)
        assert torch.equal(single[0], mask[row])
        assert bool(alone_fell_back[0]) == bool(fell_back[row])


@given(batches(), rules(), st.randoms(use_true_random=False))
def test_the_order_of_the_pool_matters_only_to_ties_at_the_kth_place(
    batch: Batch, rule: NegativeRule, random: Random
) -> None:
    scores, targets = batch
    order = list(range(scores.shape[1]))
    random.shuffle(order)
    moved = torch.tensor([order.index(target) for target in targets.tolist()])
    mask, _ = negative_mask(scores, targets, rule)
    shuffled, _ = negative_mask(scores[:, order], moved, rule)
    if rule.k is None:
        assert torch.equal(mask[:, order], shuffled)
    for row in range(len(scores)):
        # Even then the scores of the set are the same.
        assert sorted(scores[row][mask[row]]) == sorted(scores[row, order][shuffled[row]])


def test_the_two_steepest_drops_bound_the_set_and_the_targets_own_drop_does_not() -> None:
    # Ranked: target 10, then 5 4.9 | 3 2.9 2.8 | 1 0.9: steepest 1.9 and 1.8.
    scores = torch.tensor([[2.9, 5, 10, 1, 4.9, 3, 2.8, 0.9, 12]])
    mask, fell_back = negative_mask(scores, torch.tensor([2]), NegativeRule("qure"))
    assert mask[0].nonzero().flatten().tolist() == [0, 5, 6]
    assert not fell_back[0]


def test_neighbouring_steepest_drops_satisfy_the_paper_but_not_its_code() -> None:
    # Drops below the target, in ranking order: 4 5 1 2. From the steepest on their places are
    # 1 0 3 2: the code passes the neighbours 1 and 0 by and takes 0 and 3.
    scores = torch.tensor([[20.0, 13, 9, 4, 3, 1]])
    target = torch.tensor([0])
    paper, _ = negative_mask(scores, target, NegativeRule("qure"))
    code, _ = negative_mask(scores, target, NegativeRule("qure-code", threshold=1))
    assert paper[0].nonzero().flatten().tolist() == [2]
    assert code[0].nonzero().flatten().tolist() == [2, 3, 4]


def test_bounded_drops_are_near_the_target() -> None:
    """The steepest drops lie at the end; among the four images below the target they do not."""
    scores, target = torch.tensor([[9.0, 8, 7, 5, 4.5, 4, 3.9, 1, -5]]), torch.tensor([0])
    for rule, expected in (
        (NegativeRule("qure"), {7}),
        (NegativeRule("qure-bounded", k=4), {2}),
        (NegativeRule("qure-bounded", k=99), {7}),
    ):
        mask, fell_back = negative_mask(scores, target, rule)
        assert set(mask[0].nonzero().flatten().tolist()) == expected
        assert not fell_back.any()


def test_all_decreasing_drops_are_examined() -> None:
    curve = -torch.arange(200, dtype=torch.float64).sqrt()
    smooth = curve.float()
    late_drop = smooth.clone()
    late_drop[160:] -= 0.035  # between two of the first drops that the walk then compares late
    rule = NegativeRule("qure-code", threshold=1)
    check(torch.stack([smooth, late_drop]), torch.tensor([0, 0]), rule)
    _, fell_back = negative_mask(torch.stack([smooth, late_drop]), torch.tensor([0, 0]), rule)
    assert fell_back.tolist() == [True, False]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([5.0, 4, 3, 6], {1, 2}),  # two below the target: no second drop
        ([5.0, 4, 4, 4, 4], {1, 2, 3, 4}),  # no drop at all
        ([1.0, 4, 1, 2], {1, 2, 3}),  # nothing below
    ],
)
def test_without_two_drops_the_query_falls_back(scores: list[float], expected: set[int]) -> None:
    mask, fell_back = negative_mask(torch.tensor([scores]), torch.tensor([0]), NegativeRule("qure"))
    assert set(mask[0].nonzero().flatten().tolist()) == expected
    assert fell_back[0]


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
def test_invalid_rules_are_refused(
    strategy: str, k: int | None, threshold: int | None, message: str
) -> None:
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
    batch: Batch, rule: NegativeRule, epochs: int, seed: int
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
def test_draws_from_the_corpus_equal_the_reference(
    images: int, epochs: int, data: st.DataObject
) -> None:
    target = data.draw(st.integers(0, images - 1))
    u = uniforms(1, epochs)
    drawn = draw_from_corpus(images, torch.tensor([target]), u)
    other_images = set(range(images)) - {target}
    assert drawn.columns[0].tolist() == reference_negatives.draws(other_images, list(u[0].numpy()))
    assert drawn.sizes.tolist() == [images - 1]


def equal_draws(first: Drawn, second: Drawn) -> bool:
    return (
        torch.equal(first.columns, second.columns)
        and torch.equal(first.sizes, second.sizes)
        and torch.equal(first.fell_back, second.fell_back)
    )


@pytest.mark.parametrize("strategy", ["corpus", "top-k", "after-target", "cirqrs", "qure"])
def test_draws_depend_neither_on_chunks_nor_on_shares(strategy: str) -> None:
    generator = torch.Generator().manual_seed(1)
    # Whole numbers: their products are exact, so nothing hangs on the order of additions.
    queries = torch.randint(-4, 5, (23, 6), generator=generator).float()
    gallery = torch.randint(-4, 5, (31, 3, 6), generator=generator).float()
    targets = torch.randint(0, 31, (23,), generator=generator)
    rule = NegativeRule(strategy, k=None if strategy in ("corpus", "qure") else 5)  # type: ignore[arg-type]
    u = uniforms(23, 7)
    complete = draw_negatives(queries, gallery, targets, rule, u, "max", chunk=100, temperature=TAU)
    for chunk in (1, 4, 23):
        chunked = draw_negatives(
            queries, gallery, targets, rule, u, "max", chunk=chunk, temperature=TAU
        )
        assert equal_draws(chunked, complete)
    shares = [
        draw_negatives(queries[s], gallery, targets[s], rule, u[s], "max", chunk=4, temperature=TAU)
        for s in (slice(None, None, 2), slice(1, None, 2))
    ]
    for start, share in enumerate(shares):
        assert torch.equal(share.columns, complete.columns[start::2])


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_shares_of_real_vectors_give_the_same_draws(pooling: Pooling) -> None:
    generator = torch.Generator().manual_seed(2)
    queries, gallery = (
        torch.randn(shape, generator=generator) for shape in ((150, 32), (90, 4, 32))
    )
    targets = torch.randint(0, 90, (150,), generator=generator)
    u = uniforms(150, 5)

    def drawn(share: slice) -> Drawn:
        return draw_negatives(
            queries[share],
            gallery,
            targets[share],
            NegativeRule("qure"),
            u[share],
            pooling,
            chunk=32,
            temperature=TAU,
        )

    complete = drawn(slice(None))
    for start, count in product(range(3), (3, 50)):
        share = drawn(slice(start, start + 3 * count, 3))
        assert torch.equal(share.columns, complete.columns[start : start + 3 * count : 3])
        assert torch.equal(share.sizes, complete.sizes[start : start + 3 * count : 3])


def test_a_share_without_queries_draws_nothing() -> None:
    no_queries, targets = torch.empty(0, 4), torch.empty(0, dtype=torch.int64)
    drawn = draw_negatives(
        no_queries,
        torch.ones(5, 2, 4),
        targets,
        NegativeRule("qure"),
        uniforms(0, 3),
        "max",
        chunk=2,
        temperature=TAU,
    )
    assert drawn.columns.shape == (0, 3)
    assert drawn.sizes.shape == drawn.fell_back.shape == (0,)


def test_drawing_from_the_corpus_needs_no_scores() -> None:
    # Vectors that are no numbers would be refused if anything were scored.
    broken = torch.full((4, 2, 3), torch.nan)
    arguments = (broken[:, 0], broken, torch.arange(4))
    drawn = draw_negatives(
        *arguments, NegativeRule("corpus"), uniforms(4, 3), "max", chunk=2, temperature=TAU
    )
    assert drawn.sizes.tolist() == [3, 3, 3, 3]
    with pytest.raises(UnreadableInput, match="not a number"):
        draw_negatives(
            *arguments, NegativeRule("qure"), uniforms(4, 3), "max", chunk=2, temperature=TAU
        )


def test_a_target_outside_the_pool_is_named_in_every_chunk() -> None:
    vectors, targets = torch.ones(3, 2), torch.tensor([0, 1, 9])
    for rule in (NegativeRule("corpus"), NegativeRule("qure")):
        with pytest.raises(UnreadableInput, match="query 2: its target is not in the pool"):
            draw_negatives(
                vectors,
                torch.ones(4, 1, 2),
                targets,
                rule,
                uniforms(3, 1),
                "max",
                chunk=1,
                temperature=TAU,
            )


def test_a_one_image_corpus_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="two images or more"):
        draw_from_corpus(1, torch.tensor([0]), uniforms(1, 1))


def test_draws_and_pairs_of_draws_are_uniform() -> None:
    queries, images = 30_000, 6
    drawn = draw_from_corpus(images, torch.full((queries,), 2), uniforms(queries, 2, seed=11))
    pairs = [(a, b) for a, b in product([0, 1, 3, 4, 5], repeat=2) if a != b]
    counts = np.array([(drawn.columns == torch.tensor(pair)).all(dim=1).sum() for pair in pairs])
    expected = queries / len(pairs)
    assert counts.sum() == queries
    # 19 degrees of freedom: above 43.8 once in a thousand seeds.
    assert ((counts - expected) ** 2 / expected).sum() < 43.8


def test_numbers_just_below_1_draw_the_last() -> None:
    almost = torch.full((1, 1), 1 - 2**-24)
    for images in (*range(2, 300), 2**16, 2**16 + 1, 123_403, 2**24 - 1):
        drawn = draw_from_corpus(images, torch.tensor([images - 1]), almost)
        assert drawn.columns.tolist() == [[images - 2]]
