"""The benchmark of active choice, small: complete, and the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from benchmarks import active_choice
from hsfiq.demo import study

pytestmark = pytest.mark.slow


def test_a_small_run_has_every_figure() -> None:
    tiny = replace(active_choice.SMALL, triplets=60, first=12, pool=16, held_out=12, chosen=6)
    with (
        patch.object(active_choice, "SMALL", tiny),
        patch.object(study, "GARMENTS_PER_CATEGORY", 40),
    ):
        result = active_choice.run(seed=3, full=False)
    assert (result["simulated"], result["seeds"]) == (True, 2)
    assert [case["strategy"] for case in result["cases"]] == list(active_choice.STRATEGIES)
    random, *others = result["cases"]
    assert -1 <= random["rho"] <= 1
    for case in others:
        low, high = case["ci"]
        assert low <= case["above_random"] <= high
        assert case["above_random"] == pytest.approx(case["rho"] - random["rho"])
