"""Kendall's W against scipy and hand computations, and as a figure of rankings."""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hsfiq.analysis.kinds.ranking import concordance, kendall_w
from hsfiq.analysis.resampling.bootstrap import Bootstrap


def test_w_is_friedmans_statistic_by_its_largest_value() -> None:
    """chi2 = m (n - 1) W; scipy corrects chi2 for ties in the same way."""
    rng = np.random.default_rng(5)
    for highest in (3, 5, 9):  # fewer values give more ties
        for m, n in ((2, 3), (3, 4), (7, 5)):
            ranks = rng.integers(1, highest, size=(m, n)).astype(float)
            chi2 = stats.friedmanchisquare(*ranks.T).statistic
            assert kendall_w(ranks) == pytest.approx(chi2 / (m * (n - 1)), nan_ok=True)


def test_w_by_hand() -> None:
    assert kendall_w(np.array([[1.0, 2, 3], [1, 2, 3]])) == 1
    assert kendall_w(np.array([[1.0, 2, 3], [3, 2, 1]])) == 0
    # Rank sums 2, 5, 5 around 4: S = 6; 12 * 6 / (4 * 24) = 0.75.
    assert kendall_w(np.array([[1.0, 2, 3], [1, 3, 2]])) == 0.75
    # The first ties 2 and 3 (2.5 each): sums 2, 4.5, 5.5, S = 6.5, T = 6; 78 / (96 - 12).
    assert kendall_w(np.array([[1.0, 2, 2], [1, 2, 3]])) == pytest.approx(78 / 84)
    assert isnan(kendall_w(np.array([[1.0, 1, 1], [1, 1, 1]])))


def rankings(orders: dict[str, dict[str, list[int]]]) -> pd.DataFrame:
    """Rows of `sets`: {query: {person: ranks of sets a, b, c, shown in turned order}}."""
    rows = []
    for query, by_person in orders.items():
        for turn, (person, ranks) in enumerate(by_person.items()):
            for place in range(3):
                shown = (place + turn) % 3
                rows.append(
                    {
                        "question_id": f"{person}.{query}",
                        "set_id": f"{person}.{query}.{place}",
                        "participant_id": person,
                        "query_id": query,
                        "image_ids": [f"{query}-{'abc'[shown]}"],
                        "rank": ranks[shown],
                    }
                )
    return pd.DataFrame(rows)


def figures_of(orders: dict[str, dict[str, list[int]]]) -> dict[str, object]:
    sets = rankings(orders)
    triplets = pd.Series({query: query for query in orders})
    bootstrap = Bootstrap.of_rows(sets, triplets, unit="triplet", n_resamples=50, seed=1)
    figures = concordance(sets, triplets, bootstrap)
    return {name: row["Kendall's W"] for name, row in figures.rows.items()}


def test_w_is_averaged_over_the_groups_by_the_number_of_people() -> None:
    same = {"p1": [1, 2, 3], "p2": [1, 2, 3]}
    reversed_order = {"p1": [1, 2, 3], "p2": [3, 2, 1]}
    three = {"p1": [1, 2, 3], "p2": [1, 2, 3], "p3": [1, 2, 3]}
    alone = {"p1": [1, 2, 3]}
    orders = {f"same-{n}": same for n in range(5)} | {
        f"other-{n}": reversed_order for n in range(5)
    }
    orders |= {"three": three, "alone": alone}
    rows = figures_of(orders)
    assert list(rows) == ["all", "2 people", "3 people"]
    assert rows["2 people"].value == pytest.approx(0.5)  # type: ignore[attr-defined]
    assert rows["3 people"].value == 1  # type: ignore[attr-defined]
    everything = rows["all"]
    assert everything.value == pytest.approx(6 / 11)  # type: ignore[attr-defined]
    assert everything.n == 11  # type: ignore[attr-defined]
    assert everything.ci.low < everything.value < everything.ci.high  # type: ignore[attr-defined]
    assert everything.ci.unit == "triplet"  # type: ignore[attr-defined]


def test_too_few_groups_have_no_w() -> None:
    rows = figures_of({f"q{n}": {"p1": [1, 2, 3], "p2": [1, 2, 3]} for n in range(9)})
    assert list(rows) == ["all"]
    assert isnan(rows["all"].value)  # type: ignore[attr-defined]
    assert "only 9 things" in rows["all"].reason  # type: ignore[attr-defined]
