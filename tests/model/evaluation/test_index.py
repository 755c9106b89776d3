"""The index: exact if it searches every group, and what it misses otherwise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hsfiq.model.evaluation.index import Index, best_images, centres_for, recall_at, searched
from hsfiq.model.evaluation.rankings import Ranked, TopK, scored_blocks

N, L, D, Q, K = 400, 3, 8, 20, 10


@pytest.fixture(scope="module")
def gallery() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.nn.functional.normalize(torch.randn(N, L, D, generator=generator), dim=2)


@pytest.fixture(scope="module")
def queries() -> Tensor:
    return torch.randn(Q, D, generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def index(gallery: Tensor) -> Index:
    index = Index(gallery.flatten(0, 1), 16, seed=0)
    for start in range(0, N, 150):
        index.add(gallery[start : start + 150])
    return index


def exact(queries: Tensor, gallery: Tensor, k: int) -> Ranked:
    top = TopK(len(queries), k)
    for block in scored_blocks(queries, [gallery], "max"):
        top.add(block)
    return top.ranked()


def sets_of(ranked: Ranked) -> list[set[int]]:
    return [{column for column in row if column >= 0} for row in ranked.columns.tolist()]


def test_searching_every_group_is_exact(index: Index, queries: Tensor, gallery: Tensor) -> None:
    approximate, expected = index.search(queries, K, probes=16), exact(queries, gallery, K)
    assert approximate.columns.equal(expected.columns)
    torch.testing.assert_close(approximate.scores, expected.scores)
    assert recall_at(sets_of(expected), sets_of(approximate)) == 1.0


def test_recall_grows_with_groups_searched(index: Index, queries: Tensor, gallery: Tensor) -> None:
    expected = sets_of(exact(queries, gallery, K))
    recalls = [
        recall_at(expected, sets_of(index.search(queries, K, probes))) for probes in (1, 4, 16)
    ]
    assert 0 < recalls[0] < recalls[1] < recalls[2] == 1.0


def test_an_image_counts_once_by_its_best_vector() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.8, 0.7, -9.0]])
    rows = torch.tensor([[4, 5, 1, 6, -1]])  # of images 2, 2, 0, 3, none
    ranked = best_images(scores, rows, n_vectors=2, k=4)
    assert ranked.columns.tolist() == [[2, 0, 3, -1]]
    torch.testing.assert_close(ranked.scores, torch.tensor([[0.9, 0.8, 0.7, -torch.inf]]))


def test_averaged_vectors_are_searched_by_their_mean(queries: Tensor, gallery: Tensor) -> None:
    means = searched(gallery, "mean")  # [N, 1, D]
    index = Index(means.flatten(0, 1), 16, seed=0)
    index.add(means)
    top = TopK(Q, K)
    for block in scored_blocks(queries, [gallery], "mean"):
        top.add(block)
    assert index.search(queries, K, probes=16).columns.equal(top.ranked().columns)
    assert searched(gallery, "max") is gallery


def test_recall_by_hand() -> None:
    assert recall_at([{1, 2}, {3, 4}], [{1, 9}, {3, 4}]) == 0.75
    assert math.isnan(recall_at([], []))
    assert centres_for(1_000_000) == 4000
