"""Confidence sequences, against a literal twin, and watched preferences, worked out by hand."""

from __future__ import annotations

import math
import tracemalloc
from itertools import product
from math import cos, log, pi, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsfiq.analysis.json_results import FloatArray
from hsfiq.analysis.sequential import (
    DRIFT,
    GRID,
    NOBODY,
    NODES,
    confidence_sequence,
    log_capital,
    looks_until_excluded,
    watch_preferences,
)
from hsfiq.errors import UnreadableInput

SHARES = [(1 + cos((2 * k - 1) * pi / (2 * NODES))) / 2 for k in range(1, NODES + 1)]


def capital(values: list[float], mean: float) -> float:
    """The capital after these values: the mean over the shares of products of pay-outs."""
    return sum(
        prod(b * x / mean + (1 - b) * (1 - x) / (1 - mean) for x in values) for b in SHARES
    ) / len(SHARES)


def whole_twin(values: FloatArray, level: float) -> list[tuple[float, float]]:
    """The intervals of many values, from every capital after each of them."""
    grid = np.arange(1, GRID) / GRID
    best = np.full(GRID - 1, -np.inf)
    gained = np.zeros((NODES, GRID - 1))
    shares, intervals = np.array(SHARES)[:, None], [(0.0, 1.0)]
    for x in values:
        gained += np.log(shares * x / grid + (1 - shares) * (1 - x) / (1 - grid))
        best = np.maximum(best, np.logaddexp.reduce(gained, axis=0) - log(NODES))
        left = grid[best < -log(1 - level)]
        ends = (left[0] - 1 / GRID, left[-1] + 1 / GRID) if len(left) else (np.nan, np.nan)
        intervals.append(ends)
    return intervals


@pytest.mark.parametrize("changes", [False, True])
def test_the_sequence_of_many_values_equals_its_twin(changes: bool) -> None:
    """Values of several blocks; where they change, no mean is left."""
    rng = np.random.default_rng(3)
    values = rng.binomial(4, 0.55, 1500) / 4
    if changes:
        values[700:] = rng.binomial(4, 0.2, 800) / 4
    sequence = confidence_sequence(values)
    ends = np.column_stack([sequence.low, sequence.high])
    assert ends == pytest.approx(np.array(whole_twin(values, sequence.level)), nan_ok=True)
    assert np.isnan(ends[-1]).all() == changes
    looks = looks_until_excluded(values, 0.5)
    assert looks is not None
    alone = log_capital(values, np.array([0.5]))[0] >= log(20)
    assert looks == int(alone.argmax()) + 1


def test_memory_does_not_grow_with_the_number_of_values() -> None:
    values = np.random.default_rng(1).binomial(4, 0.5, 20_000) / 4
    tracemalloc.start()
    confidence_sequence(values)
    looks_until_excluded(values, 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.01, 0.99))
@settings(max_examples=30)
def test_the_capital_equals_its_twin(values: list[float], mean: float) -> None:
    ours = log_capital(np.array(values), np.array([mean]))[0, -1]
    assert ours == pytest.approx(log(capital(values, mean)), abs=1e-9)


@pytest.mark.parametrize("mean", [0.2, 0.5, 0.9])
def test_the_capital_is_a_martingale_under_the_true_mean(mean: float) -> None:
    """Over all outcomes of eight independent yes-or-no values, its expectation is exactly 1."""
    expectation = 0.0
    for outcome in product([0.0, 1.0], repeat=8):
        probability = prod(mean if x else 1 - mean for x in outcome)
        log_final = log_capital(np.array(outcome), np.array([mean]))[0, -1]
        expectation += probability * float(np.exp(log_final))
    assert expectation == pytest.approx(1.0, abs=1e-12)


def test_clear_preferences_are_decided_at_an_exact_look() -> None:
    values = np.ones(20)
    looks = looks_until_excluded(values, 0.5)
    assert looks is not None
    assert capital([1.0] * looks, 0.5) >= 20 > capital([1.0] * (looks - 1), 0.5)
    assert looks_until_excluded(values[: looks - 1], 0.5) is None
    assert looks_until_excluded(1 - values, 0.5) == looks


def test_no_value_gives_the_whole_range() -> None:
    sequence = confidence_sequence(np.array([]))
    assert (sequence.low.tolist(), sequence.high.tolist()) == ([0.0], [1.0])
    assert looks_until_excluded(np.array([]), 0.5) is None


def test_values_outside_0_to_1_are_refused() -> None:
    with pytest.raises(UnreadableInput, match="between 0 and 1"):
        confidence_sequence(np.array([0.2, np.nan]))


def test_a_clear_preference_is_decided() -> None:
    (watched,) = watch_preferences({("a", "b"): [(0.0, 3)] * 10 + [(1.0, 2)]})
    assert (watched.rate, watched.n_participants, watched.n_answers) == (1 / 11, 11, 32)
    assert watched.preferred == "b"
    assert watched.decided_after is not None
    assert capital([0.0] * watched.decided_after, 0.5) >= 25
    assert (len(watched.low), watched.level) == (11, pytest.approx(0.96))
    assert watched.high[-1] < 0.5
    fields = watched.to_json()
    assert (fields["preferred"], "reason" in fields) == ("b", False)


def test_the_error_is_shared_by_the_pairs() -> None:
    shares = [(0.9, 5)] * 9
    single_pair = watch_preferences({("a", "b"): shares})[0]
    three = watch_preferences({("a", "b"): shares, ("a", "c"): [], ("b", "c"): []})
    assert [each.level for each in three] == pytest.approx([1 - 0.04 / 3] * 3)
    assert three[0].low[-1] < single_pair.low[-1]
    assert (three[1].reason, three[1].low, three[1].preferred) == (NOBODY, (), None)
    assert math.isnan(three[1].rate)
    assert three[1].to_json()["rate"] is None


def test_the_error_is_shared_by_the_studies_of_the_same_systems() -> None:
    levels = [watch_preferences({("a", "b"): []}, n)[0].level for n in range(3)]
    assert levels == pytest.approx([1 - 0.04, 1 - 0.008, 1 - 0.0016])
    assert sum(
        1 - watch_preferences({("a", "b"): []}, n)[0].level for n in range(99)
    ) == pytest.approx(0.05)


def test_starting_again_until_decided_is_wrong_in_few_studies() -> None:
    """Three studies of 40 people one after the other, with equal systems, until one decides."""
    rng, wrong = np.random.default_rng(4), 0
    for _ in range(300):
        for n_earlier in range(3):
            shares = [(share, 1) for share in rng.integers(0, 2, 40).astype(float).tolist()]
            (watched,) = watch_preferences({("a", "b"): shares}, n_earlier)
            wrong += watched.preferred is not None
            if watched.preferred is not None:
                break
    assert wrong / 300 <= 0.05


def test_changing_preferences_are_reported() -> None:
    (watched,) = watch_preferences({("a", "b"): [(1.0, 5)] * 40 + [(0.0, 5)] * 40})
    assert watched.reason == DRIFT
    assert watched.to_json()["high"][-1] is None  # type: ignore[index]
    assert watched.preferred == "a"  # decided before
