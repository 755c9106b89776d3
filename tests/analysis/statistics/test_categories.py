from __future__ import annotations

import pandas as pd
import pytest

from hsfiq.analysis.analyze import BETWEEN, WITHIN, categories
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import position_bias, preference_rates
from tests.analysis.studies import Question, bootstrap_of, make_release, values_of

STUDY = [
    Question(1, (4, 2), participant="p1", values=(2, 1)),
    Question(2, (4, 5), participant="p1", values=(2, 1)),
    Question(1, (5, 1), participant="p2", values=(3, 0)),
    Question(2, (1, 2), participant="p2", values=(0, 1)),
]


def with_categories(named: list[str | None]) -> Release:
    release = make_release(STUDY)
    release.queries["category"] = named
    return release


def test_each_category_is_a_release_of_its_own(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    result = categories(release, {"oracle": utilities}, bootstrap_of(release, 50))
    assert list(result.figures) == ["dress", "shirt", "toptee"]
    assert result.note == BETWEEN
    of_query = release.queries.set_index("query_id")["category"]
    for name, figures in result.figures.items():
        preferences = release.preferences[release.preferences["query_id"].map(of_query) == name]
        sets = release.sets[release.sets["query_id"].map(of_query) == name]
        assert (figures.n_questions, figures.n_participants) == (400, 10)
        assert figures.spearman["oracle"].rho == spearman(sets, utilities).rho
        plain = preference_rates(preferences, utilities)
        for rate in ("ge", "symmetric", "tie_half"):
            assert getattr(figures.preference["oracle"], rate).rate == getattr(plain, rate).rate
        assert figures.position_bias.rate == position_bias(preferences).rate
        ci = figures.spearman["oracle"].ci
        assert ci is not None
        assert ci.n_clusters == 10
        assert ci.low < figures.spearman["oracle"].rho < ci.high


@pytest.mark.parametrize(
    ("named", "note"),
    [
        (["shirt", "shirt", "dress", "dress"], BETWEEN),
        (["shirt", "dress", "shirt", "dress"], WITHIN),
        (["shirt", "shirt", None, ""], None),
    ],
)
def test_the_note_says_whether_participants_differ_too(
    named: list[str | None], note: str | None
) -> None:
    release = with_categories(named)
    result = categories(release, {"m": values_of(STUDY)}, bootstrap_of(release, 5))
    assert result.note == note
    assert set(result.figures) == {name for name in named if name}


def test_without_categories_there_is_a_reason() -> None:
    release = make_release(STUDY)
    bootstrap = bootstrap_of(release, 5)
    result = categories(release, {}, bootstrap).to_json()
    assert result == {"categories": None, "reason": "the release names no categories"}
    empty = categories(with_categories([None] * 4), {}, bootstrap)
    assert empty.reason == "no question has a category"
