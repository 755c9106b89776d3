"""Relevance and ranks, compared with plain loops."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import Pooling
from hsfiq.model.scorer.inference import target_ranks
from hsfiq.model.scorer.scorer import paired_relevance, relevance

POOLINGS = get_args(Pooling)


def literal_relevance(query: torch.Tensor, image: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """One query [D], one image [L, D]."""
    products = [sum((q * g for q, g in zip(query, vector, strict=True))) for vector in image]
    if pooling == "mean":
        return torch.as_tensor(sum(products)) / len(products)
    return max(products)


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_relevance_equals_the_reference(pooling: Pooling, chunk: int) -> None:
    queries, gallery = vectors(4, 5), vectors(7, 3, 5, seed=1)
    expected = [[literal_relevance(q, image, pooling) for image in gallery] for q in queries]
    scores = relevance(queries, gallery, pooling, chunk=chunk)
    torch.testing.assert_close(scores, torch.tensor(expected))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_half_precision_gallery_is_converted_in_parts(pooling: Pooling) -> None:
    queries, gallery = vectors(4, 5), vectors(7, 3, 5, seed=1).half()
    scores = relevance(queries, gallery, pooling, chunk=2)
    torch.testing.assert_close(scores, relevance(queries, gallery.float(), pooling, chunk=2))


def test_relevance_of_nothing_is_empty() -> None:
    assert relevance(vectors(0, 5), vectors(7, 3, 5), "max", chunk=2).shape == (0, 7)
    assert relevance(vectors(4, 5), vectors(0, 3, 5), "mean", chunk=2).shape == (4, 0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pairs_and_their_gradients_equal_the_reference(pooling: Pooling) -> None:
    queries, gallery = vectors(4, 5).requires_grad_(), vectors(4, 3, 5, seed=1).requires_grad_()
    ours = paired_relevance(queries, gallery, pooling)
    theirs = torch.stack(
        [literal_relevance(q, image, pooling) for q, image in zip(queries, gallery, strict=True)]
    )
    torch.testing.assert_close(ours, theirs)
    weights = torch.arange(1.0, 5)
    our_gradients = torch.autograd.grad((ours * weights).sum(), (queries, gallery))
    their_gradients = torch.autograd.grad((theirs * weights).sum(), (queries, gallery))
    torch.testing.assert_close(our_gradients, their_gradients)


@given(
    st.integers(1, 9).flatmap(
        lambda images: st.tuples(
            st.lists(st.integers(0, 3), min_size=images, max_size=images),
            st.integers(0, images - 1),
            st.none() | st.integers(0, images - 1),
        )
    )
)
def test_the_rank_is_the_position_in_a_stable_sort(case: tuple[list[int], int, int | None]) -> None:
    scores, target, excluded = case
    if excluded == target:
        excluded = None
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    expected = [i for i in order if i != excluded].index(target) + 1
    ranks = target_ranks(
        torch.tensor([scores, scores]).float(),
        torch.tensor([target, target]),
        None if excluded is None else torch.tensor([excluded, excluded]),
    )
    assert ranks.tolist() == [expected, expected]


def test_ranks_refuse_unusable_scores() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(UnreadableInput, match="query 1: its target is not in the pool"):
        target_ranks(scores, torch.tensor([0, 2]))
    with pytest.raises(UnreadableInput, match="query 0: its excluded image is not in the pool"):
        target_ranks(scores, torch.tensor([0, 0]), torch.tensor([-1, 1]))
    with pytest.raises(UnreadableInput, match="query 1: its target is excluded"):
        target_ranks(scores, torch.tensor([0, 1]), torch.tensor([1, 1]))
    with pytest.raises(UnreadableInput, match="not a number"):
        target_ranks(scores / 0 * 0, torch.tensor([0, 1]))


def test_scores_whose_sum_overflows_are_accepted() -> None:
    assert target_ranks(torch.full((1, 3), 3e38), torch.tensor([1])).tolist() == [2]
