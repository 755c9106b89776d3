"""`hsfiq demo --systems`: trained systems rank the demo's queries, in both orders of captions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hsfiq.cli.demo import benchmark_of, lists_of
from hsfiq.demo.study import DrawnQuery
from hsfiq.drawn import Garment
from hsfiq.model.data import draw_dataset, drawn_size, shown_of
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.scorer.loading import ScorerPaths
from tests.model.retrieval.test_retrieve import DEPTH, slow_lists
from tests.model.scorer.helpers import CPU, Drawn

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return shown_of(draw_dataset(7, *drawn_size(60))[0])


@pytest.fixture(scope="module")
def queries() -> list[DrawnQuery]:
    """Two triplets of each category, the second with its captions reversed."""
    triplets = [each for each in draw_dataset(7, *drawn_size(60))[1] if each.split == "val"]
    categories = dict.fromkeys(triplet.category for triplet in triplets)
    chosen = [
        [triplet for triplet in triplets if triplet.category == category][:2]
        for category in categories
    ]
    return [DrawnQuery(pair[i], i == 1) for pair in chosen for i in range(2)]


def test_the_benchmark_has_the_texts_that_are_shown(
    garments: tuple[Garment, ...], queries: list[DrawnQuery]
) -> None:
    parts = benchmark_of(garments, queries).parts
    texts = {query.query_id: query.text for part in parts for query in part.queries}
    assert set(texts) == {query.query_id for query in queries}
    for query in queries:
        first, second = query.triplet.captions[:: -1 if query.is_reversed else 1]
        text = texts[query.query_id].lower()
        assert text.index(first.lower().rstrip(".")) < text.index(second.lower().rstrip("."))


def test_the_lists_are_those_of_a_slow_ranking(
    drawn: Drawn, clip4cir: Path, garments: tuple[Garment, ...], queries: list[DrawnQuery]
) -> None:
    paths = [ScorerPaths(clip4cir, drawn.pictures, cache=drawn.cache)]
    lists = lists_of(paths, garments, queries)
    with torch.no_grad():
        retriever = load_retriever(clip4cir, None, CPU).retriever
        retriever.train(mode=False)
        benchmark = benchmark_of(garments, queries)
        expected = slow_lists(retriever, drawn, benchmark, "both", keep=False)
    assert {each.query_id: list(each.images[:DEPTH]) for each in lists} == expected
    assert {each.system for each in lists} == {"clip4cir"}
