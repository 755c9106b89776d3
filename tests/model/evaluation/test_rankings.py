"""Streamed ranking against a stable sort of the score matrix, and the index against both."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation import rankings
from hsfiq.model.evaluation.index import Index, best_images, centres_for, recall_at, searched
from hsfiq.model.evaluation.rankings import (
    Ranked,
    SelectedScores,
    TopK,
    keys_of,
    scored_blocks,
    scores_of,
)
from hsfiq.model.recipes import Pooling
from hsfiq.model.scorer.inference import target_ranks
from hsfiq.model.scorer.scorer import relevance

pytestmark = pytest.mark.usefixtures("one_thread")


def chunks(gallery: Tensor, sizes: list[int]) -> Iterator[Tensor]:
    """The gallery in chunks of these sizes; the last size is repeated."""
    start = 0
    for number in range(len(gallery)):
        size = sizes[min(number, len(sizes) - 1)]
        if start < len(gallery):
            yield gallery[start : start + size]
        start += size


def streamed(
    queries: Tensor,
    gallery: Tensor,
    pooling: Pooling,
    k: int,
    sizes: list[int],
    excluded: Tensor | None = None,
) -> Ranked:
    top = TopK(len(queries), k, excluded)
    for block in scored_blocks(queries, chunks(gallery, sizes), pooling):
        top.add(block)
    return top.ranked()


def literal(scores: list[list[float]], k: int, excluded: list[int] | None) -> list[list[int]]:
    lists = []
    for row, row_scores in enumerate(scores):
        order = sorted(range(len(row_scores)), key=lambda image: -row_scores[image])
        lists.append([image for image in order if excluded is None or image != excluded[row]][:k])
    return lists


@st.composite
def searches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Pooling, int, list[int], Tensor | None]:
    """Vectors of few integers: products are exact and often equal."""
    n_queries, images, vectors, width = (draw(st.integers(1, largest)) for largest in (7, 12, 3, 2))
    numbers = st.integers(-2, 2)

    def tensor(*shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        values = draw(st.lists(numbers, min_size=size, max_size=size))
        return torch.tensor(values, dtype=torch.float32).view(shape)

    columns = st.lists(st.integers(0, images - 1), min_size=n_queries, max_size=n_queries)
    excluded = draw(st.none() | columns)
    return (
        tensor(n_queries, width),
        tensor(images, vectors, width),
        draw(st.sampled_from(("max", "mean"))) if vectors != 3 else "max",
        draw(st.integers(1, 15)),
        draw(st.lists(st.integers(1, 13), min_size=1, max_size=4)),
        None if excluded is None else torch.tensor(excluded),
    )


@given(searches(), st.integers(1, 8))
def test_streamed_ranking_equals_a_stable_sort(
    search: tuple[Tensor, Tensor, Pooling, int, list[int], Tensor | None], together: int
) -> None:
    queries, gallery, pooling, k, sizes, excluded = search
    scores = relevance(queries, gallery, pooling, chunk=len(gallery))
    expected = literal(scores.tolist(), k, None if excluded is None else excluded.tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rankings, "QUERIES", together)
        ranked = streamed(queries, gallery, pooling, k, sizes, excluded)
    assert ranked.columns.tolist() == expected
    assert ranked.scores.equal(scores.gather(1, ranked.columns))
    for place in range(ranked.columns.shape[1]):
        ranks = target_ranks(scores, ranked.columns[:, place], excluded)
        assert ranks.tolist() == [place + 1] * len(queries)


def test_scores_of_every_size_and_sign_keep_their_order() -> None:
    values = torch.tensor([[0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 0.5, -0.5, 1.0, -1.0, 0.0]])
    keys = keys_of(values, torch.arange(values.shape[1]))
    order = keys[0].argsort(descending=True).tolist()
    assert order == sorted(range(len(order)), key=lambda i: -values[0, i].item())
    assert scores_of(keys).equal(values)  # -0.0 equals 0.0


def test_no_queries_give_no_lists() -> None:
    ranked = streamed(torch.empty(0, 3), torch.ones(4, 1, 3), "max", 2, [3])
    assert len(ranked.columns) == len(ranked.scores) == 0


def test_an_excluded_image_that_is_not_in_the_corpus_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="query 1: its excluded image is not in the pool"):
        streamed(torch.ones(2, 3), torch.ones(4, 1, 3), "max", 2, [3], torch.tensor([0, 4]))


def test_nan_scores_are_refused() -> None:
    gallery = torch.ones(4, 1, 3)
    gallery[2] = torch.nan
    with pytest.raises(UnreadableInput, match="not a number"):
        streamed(torch.ones(2, 3), gallery, "max", 2, [1])


@pytest.mark.parametrize("sizes", [[1], [3], [4, 2], [20]])
def test_picked_scores_equal_the_matrix(sizes: list[int]) -> None:
    generator = torch.Generator().manual_seed(3)
    queries, gallery = (torch.randn(*s, generator=generator) for s in ((6, 4), (9, 2, 4)))
    columns = torch.randint(-1, 9, (6, 5), generator=generator)
    picked = SelectedScores(columns)
    for block in scored_blocks(queries, chunks(gallery, sizes), "max"):
        picked.add(block)
    scores = relevance(queries, gallery, "max", chunk=9)
    for row, chosen in enumerate(columns.tolist()):
        for score, column in zip(picked.scores[row], chosen, strict=True):
            expected = torch.tensor(torch.nan) if column < 0 else scores[row, column]
            torch.testing.assert_close(score, expected, equal_nan=True)


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
