"""The benchmark `system-strengths`: its studies have the truth that it names."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import system_strengths
from benchmarks.system_strengths import Design, Study


@pytest.fixture(scope="module")
def study() -> Study:
    return system_strengths.simulate(np.random.default_rng(0), Design(900, 3))


def test_each_triplet_is_judged_by_as_many_participants_as_the_overlap(study: Study) -> None:
    judges = study.rows.groupby("query_id")["participant_id"].nunique()
    assert judges.eq(3).all()
    assert (study.rows["first"] != study.rows["second"]).all()


def test_set_1_and_the_better_system_are_preferred(study: Study) -> None:
    rows = study.rows
    assert (rows["preferred"] == 1).mean() > (rows["preferred"] == 2).mean() > 0.3
    best_wins = rows[rows["first"] == 0]["preferred"].eq(1).mean()
    worst_wins = rows[rows["first"] == 3]["preferred"].eq(1).mean()
    assert best_wins > 0.55
    assert worst_wins < 0.4
    assert 0.08 < (rows["preferred"] == 0).mean() < 0.2


def test_a_shared_set_has_one_value_of_a_metric(study: Study) -> None:
    rows, values = study.rows, study.metrics["one"]
    by_set: dict[tuple[str, int], set[float]] = {}
    for row in rows.itertuples():
        by_set.setdefault((row.query_id, row.first), set()).add(values[row.set_1])
        by_set.setdefault((row.query_id, row.second), set()).add(values[row.set_2])
    assert max(map(len, by_set.values())) == 1


def test_one_study_is_checked() -> None:
    design = Design(12, 1)
    small = system_strengths.simulate(np.random.default_rng(1), design)
    checked = system_strengths.checked(small, design, 0, {"best": 0.5, "side": 0.34})
    assert set(checked) == {
        *("best", "best_wald", "side", "side_wald", "all_rank_ranges", "spa_differs")
    }
