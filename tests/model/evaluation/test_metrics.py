"""Metrics of ranked lists, compared with all possible continuations of a short list."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsfiq.model.evaluation.metrics import average_precision, recall

CORPUS = "abcdef"


def slow_recall(ranked: list[str], target: str, k: int) -> float:
    """Count the target among the first k."""
    return float(sum(image == target for image in ranked[:k]))


def slow_precision(ranked: list[str], truths: set[str], k: int) -> float:
    """The printed formula: precision at i times relevance at i, divided by min(|G|, k)."""
    total = 0.0
    for i in range(1, min(k, len(ranked)) + 1):
        precision = sum(ranked[j] in truths for j in range(i)) / i
        total += precision * (ranked[i - 1] in truths)
    return total / min(len(truths), k)


def continuations(begun: list[str]) -> list[list[str]]:
    """Every ranking of the corpus that starts with `begun`."""
    remaining = [image for image in CORPUS if image not in begun]
    return [[*begun, *order] for order in permutations(remaining)]


LISTS = st.lists(st.sampled_from(CORPUS), unique=True, min_size=2)


@settings(max_examples=60)
@given(LISTS, st.sampled_from(CORPUS), st.integers(1, 5))
def test_recall_is_defined_if_continuations_agree(ranked: list[str], target: str, k: int) -> None:
    value = recall(ranked, target, k, len(CORPUS))
    possible = {slow_recall(continuation, target, k) for continuation in continuations(ranked)}
    if value is not None:
        assert possible == {value}
    else:
        assert possible == {0.0, 1.0}


@settings(max_examples=60)
@given(LISTS, st.sets(st.sampled_from(CORPUS), min_size=1), st.integers(1, 6))
def test_precision_if_continuations_agree(ranked: list[str], truths: set[str], k: int) -> None:
    value = average_precision(ranked, truths, k, len(CORPUS))
    possible = {
        round(slow_precision(continuation, truths, k), 12) for continuation in continuations(ranked)
    }
    if value is not None:
        assert possible == {round(value, 12)}
    else:
        assert len(ranked) < k
        assert truths - set(ranked)


@pytest.mark.parametrize(
    ("ranked", "truths", "k", "value"),
    [
        ("abcdef", "a", 5, 1.0),
        ("abcdef", "b", 5, 1 / 2),
        ("abcdef", "f", 5, 0.0),
        ("abcdef", "ac", 5, (1 + 2 / 3) / 2),
        ("abcdef", "abcdef", 3, 1.0),  # more truths than places
        ("abcdef", "cdefgh", 3, (1 / 3) / 3),
        ("ab", "ab", 5, 1.0),  # short, but all truths are in it
        ("ab", "ac", 5, None),
        ("ab", "ac", 2, 1 / 2),
    ],
)
def test_hand_computed_precisions(ranked: str, truths: str, k: int, value: float | None) -> None:
    result = average_precision(list(ranked), set(truths), k, None)
    assert result == (value if value is None else pytest.approx(value, abs=1e-15))


def test_a_list_of_the_complete_corpus_defines_every_figure() -> None:
    assert recall(["a", "b"], "c", 5, 2) == 0.0
    assert recall(["a", "b"], "c", 5, 3) is None
    assert recall(["a", "b"], "c", 5, None) is None
    assert average_precision(["a", "b"], {"c"}, 5, 2) == 0.0
