from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.systems.systems import Systems, systems
from tests.analysis.drawn_releases import BEST_FIRST
from tests.analysis.studies import Question, bootstrap_of, make_release

Drawn = tuple[Release, pd.Series]


@pytest.fixture(scope="module")
def measured(drawn: Drawn) -> Systems:
    release, utilities = drawn
    values = {"oracle": utilities, "reverse": -utilities, "recall@5": Recall(5).values(release)}
    return systems(release, values, bootstrap_of(release, 200))


def order(figures: dict[str, float]) -> list[str]:
    return sorted(figures, key=lambda name: -figures[name])


def test_the_known_order_is_recovered(measured: Systems) -> None:
    figures = measured.figures
    assert order({name: figure.win_rate.value for name, figure in figures.items()}) == BEST_FIRST
    assert order({name: figure.strength.value for name, figure in figures.items()}) == BEST_FIRST
    assert order({name: figure.mean_score.value for name, figure in figures.items()}) == BEST_FIRST
    oracle = measured.metrics["oracle"]
    assert order({name: score.value for name, score in oracle.set_score.items()}) == BEST_FIRST
    assert oracle.order.tau == 1
    assert oracle.order.swapped == ()
    assert measured.k == 5


def test_intervals_contain_their_estimates(measured: Systems) -> None:
    for each in measured.figures.values():
        for estimate in (each.win_rate, each.strength, each.mean_score):
            assert estimate.ci.low < estimate.value < estimate.ci.high
            assert estimate.ci.unit == "participant"
    score = measured.metrics["oracle"].set_score["sharp"]
    assert score.ci.unit == "triplet"


def test_a_metric_that_is_always_wrong_reverses_the_order(measured: Systems) -> None:
    upside_down = measured.metrics["reverse"].order
    assert upside_down.tau == -1
    assert upside_down.swapped[0] == (BEST_FIRST[0], BEST_FIRST[1])
    assert len(upside_down.swapped) == 6


def test_figures_equal_the_plain_means(drawn: Drawn, measured: Systems) -> None:
    release, utilities = drawn
    for name in BEST_FIRST:
        own_sets = release.sets[release.sets["system"] == name]
        assert measured.figures[name].mean_score.value == pytest.approx(own_sets["score"].mean())
        assert measured.figures[name].mean_score.n == len(own_sets)
        won = missing = 0
        for row in release.preferences.itertuples():
            if name in (row.system_1, row.system_2):
                winner = row.system_1 if row.preferred == 1 else row.system_2
                won, missing = won + (winner == name), missing + (winner != name)
        assert measured.figures[name].win_rate.value == pytest.approx(won / (won + missing))
        scores = measured.metrics["oracle"].set_score[name]
        assert scores.value == pytest.approx(utilities[own_sets["set_id"]].mean())
    assert set(measured.metrics["oracle"].by_category) == {"dress", "shirt", "toptee"}


def test_a_set_that_several_people_judged_counts_once(overlapping: Drawn) -> None:
    release, utilities = overlapping
    measured = systems(release, {"oracle": utilities}, bootstrap_of(release, 20))
    n = sum(score.n for score in measured.metrics["oracle"].set_score.values())
    assert n == len(release.sets) / 3


def test_own_similarity_comes_from_the_file_of_the_systems_name(
    drawn: Drawn, tmp_path: Path
) -> None:
    release, utilities = drawn
    path = tmp_path / "sharp.csv"
    rows = pd.DataFrame({"set_id": utilities.index, "score": utilities.to_numpy()})
    rows.to_csv(path, index=False)
    with_own_scores = replace(release, scores={"sharp": path})
    figures = systems(with_own_scores, {}, bootstrap_of(release, 50)).figures
    assert figures["sharp"].own_similarity.rate > 0.6
    assert figures["sharp"].own_similarity.ci is not None
    assert math.isnan(figures["blurred"].own_similarity.rate)
    assert "no scores file blurred" in str(figures["blurred"].own_similarity.reason)


def test_unnamed_systems_have_a_reason(drawn: Drawn) -> None:
    study = make_release([Question(1), Question(2)])
    measured = systems(study, {}, bootstrap_of(study, 5))
    missing = dict.fromkeys(("k", "systems", "metrics"))
    assert measured.to_json() == missing | {"reason": "the release names no systems"}


def named(preferred: list[int], pairs: list[tuple[str, str]]) -> Release:
    release = make_release([Question(preference) for preference in preferred])
    first, second = zip(*pairs, strict=True)
    return replace(
        release,
        preferences=release.preferences.assign(system_1=first, system_2=second),
        sets=release.sets.assign(system=[name for pair in pairs for name in pair]),
    )


def test_a_system_that_never_lost_has_no_strength() -> None:
    release = named([1, 1, 2], [("a", "b"), ("a", "b"), ("b", "a")])
    measured = systems(release, {"flat": constant(release)}, bootstrap_of(release, 20))
    strength = measured.figures["a"].strength
    assert math.isnan(strength.value)
    assert strength.reason == "a never lost to the other systems, so its strength is unbounded"
    assert measured.figures["a"].win_rate.value == 1
    agreement = measured.metrics["flat"].order
    assert math.isnan(agreement.tau)
    assert str(agreement.reason).startswith("people's order: a never lost")


def test_a_metric_that_always_ties_gives_no_order() -> None:
    release = named([1, 2, 0], [("a", "b"), ("a", "b"), ("b", "a")])
    measured = systems(release, {"flat": constant(release)}, bootstrap_of(release, 20))
    assert measured.figures["a"].win_rate.value == 0.5
    agreement = measured.metrics["flat"].order
    assert str(agreement.reason).endswith("all systems are equally strong")


def test_one_system_against_itself() -> None:
    release = named([1, 2], [("a", "a"), ("a", "a")])
    measured = systems(release, {"flat": constant(release)}, bootstrap_of(release, 20))
    figures = measured.figures["a"]
    assert math.isnan(figures.win_rate.value)
    assert figures.strength.reason == "strengths need 2 systems; there is 1"
    assert figures.mean_score.value == 3


def constant(release: Release) -> pd.Series:
    return pd.Series(np.ones(len(release.sets)), index=release.sets["set_id"].to_numpy())


@pytest.mark.parametrize("points", [5, 7, None])
def test_intervals_of_means_end_where_the_scale_ends(points: int | None) -> None:
    pairs = ((7, 6), (6, 7), (7, 7), (6, 6)) if points != 5 else ((4, 2), (5, 1), (5, 1), (5, 1))
    images = ("abcde", "abcde", "fghbc", "abcde")
    study = [
        Question(1, pair, images=(shown, "fghab"), participant=f"p{number}")
        for number, (pair, shown) in enumerate(zip(pairs, images, strict=True))
    ]
    release = make_release(study)
    release = replace(
        release,
        points=points,
        preferences=release.preferences.assign(system_1="a", system_2="b"),
        sets=release.sets.assign(system=["a", "b"] * len(study)),
    )
    values = {"recall@1": Recall(1).values(release)}
    measured = systems(release, values, bootstrap_of(release, 200))
    for system in ("a", "b"):
        recall = measured.metrics["recall@1"].set_score[system]
        assert recall.ci.reason or 0 <= recall.ci.low <= recall.value <= recall.ci.high <= 1
        score = measured.figures[system].mean_score
        assert 1 <= score.ci.low < score.value < score.ci.high <= (points or 7)
