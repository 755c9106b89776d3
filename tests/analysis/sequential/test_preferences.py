"""Watched preferences, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hsfiq.analysis.sequential import (
    DRIFT,
    NOBODY,
    confidence_sequence,
    looks_until_excluded,
    watch_preferences,
)
from tests.analysis.sequential.test_confidence_sequence import capital


def test_a_clear_preference_is_decided() -> None:
    (watched,) = watch_preferences({("a", "b"): [(0.0, 3)] * 10 + [(1.0, 2)]})
    assert (watched.rate, watched.n_participants, watched.n_answers) == (1 / 11, 11, 32)
    assert watched.preferred == "b"
    assert watched.decided_after is not None
    assert capital([0.0] * watched.decided_after, 0.5) >= 20
    assert (len(watched.low), watched.level) == (11, pytest.approx(0.95))
    assert watched.high[-1] < 0.5
    fields = watched.to_json()
    assert (fields["preferred"], "reason" in fields) == ("b", False)


def test_the_error_is_shared_by_the_pairs() -> None:
    shares = [(0.9, 5)] * 9
    single_pair = watch_preferences({("a", "b"): shares})[0]
    three = watch_preferences({("a", "b"): shares, ("a", "c"): [], ("b", "c"): []})
    assert [each.level for each in three] == pytest.approx([1 - 0.05 / 3] * 3)
    assert three[0].low[-1] < single_pair.low[-1]
    assert (three[1].reason, three[1].low, three[1].preferred) == (NOBODY, (), None)
    assert math.isnan(three[1].rate)
    assert three[1].to_json()["rate"] is None


def test_changing_preferences_are_reported() -> None:
    (watched,) = watch_preferences({("a", "b"): [(1.0, 5)] * 40 + [(0.0, 5)] * 40})
    assert watched.reason == DRIFT
    assert watched.to_json()["high"][-1] is None  # type: ignore[index]
    assert watched.preferred == "a"  # decided before


def test_no_pair_gives_nothing() -> None:
    assert watch_preferences({}) == []


def test_the_grid_and_the_exact_decision_agree() -> None:
    values = np.random.default_rng(3).uniform(0.4, 1.0, 60)
    looks = looks_until_excluded(values, 0.5)
    assert looks is not None
    sequence = confidence_sequence(values)
    # Rounding outwards delays the grid by a look at most.
    assert sequence.low[looks - 1] < 0.5
    assert sequence.low[looks + 1] >= 0.5
