"""The figures of people's searches, against values computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import spearmanr

from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric, parse_metric
from hsfiq.analysis.kinds import STATISTICS
from hsfiq.analysis.kinds.kind import Figures, analyze_judged
from hsfiq.analysis.kinds.search import figures
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from tests.analysis.kinds.searches import Search, Turn, release_of

SEARCHES = (
    Search("p1", "q1", "x", (Turn(2, 9, 2), Turn(3, 4, 1), Turn(5, 1, 3)), "found", success=5),
    Search("p1", "q2", "y", (Turn(4, 2, 1), Turn(3, 2, None)), "gave-up", success=2, missed=True),
    Search("p2", "q1", "x", (Turn(1, 9, 1), Turn(1, 12, 4, words=6)), success=1),
    Search("p2", "q2", "y", (Turn(3, 2, 1), Turn(None, None, images=())), "technical", success=2),
)
"""Two participants who search with two systems."""


def bootstrap_of(release: JudgedRelease) -> Bootstrap:
    return Bootstrap.of_rows(release.answers, release.triplets, n_resamples=20)


def tables_of(searches: Sequence[Search], metrics: Sequence[Metric] = ()) -> dict[str, Figures]:
    release = release_of(searches)
    return {table.name: table for table in figures(release, metrics, bootstrap_of(release))}


def figure(table: Figures, row: str, column: str, value: float, n: int) -> Estimate:
    estimate = table.rows[row][column]
    assert estimate.value == pytest.approx(value, nan_ok=True), (row, column)
    assert estimate.n == n, (row, column)
    assert math.isnan(value) == (estimate.reason is not None)
    return estimate


def test_outcomes_and_effort() -> None:
    tables = tables_of(SEARCHES)
    outcomes, effort = tables["outcomes"], tables["effort"]
    assert list(outcomes.rows) == ["x", "y", "all"]
    figure(outcomes, "x", "target found", 1 / 2, 2)
    figure(outcomes, "y", "target missed", 1 / 2, 2)
    figure(outcomes, "all", "target found", 1 / 4, 4)
    figure(tables["ratings"], "x", "success", 3, 2)
    figure(tables["ratings"], "all", "ease", 2.5, 4)
    figure(tables["stops"], "technical", "y", 1 / 2, 2)
    figure(tables["stops"], "technical", "x", 0, 2)
    figure(effort, "x", "turns per search", 2.5, 2)
    figure(effort, "x", "words per text", (2 + 2 + 6) / 3, 3)
    figure(tables["texts"], "x", "pasted", 1 / 3, 3)


def test_satisfaction_by_turn_and_with_the_rank() -> None:
    tables = tables_of(SEARCHES, [parse_metric("recall@2")])
    satisfaction = tables["satisfaction"]
    assert list(satisfaction.rows) == ["1", "2", "3"]
    figure(satisfaction, "1", "all", (2 + 4 + 1 + 3) / 4, 4)
    figure(satisfaction, "2", "y", 3, 1)
    assert "y" not in satisfaction.rows["3"]
    correlation = tables["correlation"]
    judged = release_of(SEARCHES).sets.dropna(subset=["score"])
    rho = spearmanr(judged["rank"], judged["score"]).statistic
    figure(correlation, "rank of the target", "all lists", rho, 8)
    # Of the first search -1, of the second and the third none: a side is constant.
    figure(correlation, "rank of the target", "within searches", -1, 1)
    figure(correlation, "turn", "within searches", (1 - 1) / 2, 2)
    figure(correlation, "recall@2", "all lists", math.nan, 8)
    assert list(correlation.rows) == ["rank of the target", "turn", "recall@2"]


def test_changes_of_satisfaction_by_what_the_rank_does() -> None:
    changes = tables_of(SEARCHES)["changes"]
    figure(changes, "better", "x", (1 + 2) / 2, 2)
    figure(changes, "the same", "all", -1, 1)
    figure(changes, "worse", "x", 0, 1)
    figure(changes, "better", "y", math.nan, 0)


def test_which_image_is_marked() -> None:
    nearest = tables_of(SEARCHES)["nearest"]
    figure(nearest, "x", "any image", 1, 5)
    figure(nearest, "y", "any image", 2 / 3, 3)
    figure(nearest, "x", "the system's first", 2 / 5, 5)
    figure(nearest, "all", "a random one", 1 / 4, 7)
    figure(nearest, "x", "the target, if listed", 1 / 5, 5)


def test_a_scorer_is_compared_by_image(tmp_path: Path) -> None:
    """The scorer prefers `b` everywhere, which is the second image, and lacks one image."""
    release = release_of(SEARCHES)
    rows = [
        (set_id, image, float(image == "b"))
        for set_id, images in zip(release.sets["set_id"], release.sets["image_ids"], strict=True)
        for image in images
        if (set_id, image) != ("0.2", "c")
    ]
    path = tmp_path / "mine.csv"
    pd.DataFrame(rows, columns=["set_id", "image_id", "score"]).to_csv(path, index=False)
    release = release_of(SEARCHES, {"mine": path})
    bootstrap = bootstrap_of(release)
    tables = {table.name: table for table in figures(release, [parse_metric("mine")], bootstrap)}
    figure(tables["nearest"], "x", "mine's first", 1 / 4, 4)
    figure(tables["correlation"], "mine", "all lists", math.nan, 7)


def test_a_wish_has_no_rank() -> None:
    wishes = [
        each._replace(
            task="own-wish", missed=None, turns=[turn._replace(rank=None) for turn in each.turns]
        )
        for each in SEARCHES
    ]
    tables = tables_of(wishes)
    assert "changes" not in tables
    assert tables["outcomes"].rows["x"]["target found"].reason == "no search has a target"
    figure(tables["correlation"], "rank of the target", "all lists", math.nan, 0)
    figure(tables["nearest"], "x", "the target, if listed", math.nan, 0)
    release = release_of(wishes)
    result = analyze_judged(release, STATISTICS["search"], [], bootstrap_of(release))
    hits = result.measures.systems["x"].by_round["hits@1"]
    assert {each.reason for each in hits} == {"no session has a target"}


def test_measures_are_those_of_sessions() -> None:
    release = release_of(SEARCHES)
    result = analyze_judged(release, STATISTICS["search"], [], bootstrap_of(release))
    assert result.measures.rules.ks == (1, 4)
    x = result.measures.systems["x"]
    assert [each.value for each in x.by_round["hits@4"]] == [0, 1 / 2, 1 / 2]
    assert x.success["rounds_to_success@1"].n_events == 1
    assert set(result.to_json()) >= {"release", "measures", "satisfaction", "nearest"}


def test_searches_without_any_turn() -> None:
    searches = [Search(f"p{n}", "q1", "x", (), "technical", success=1) for n in range(2)]
    release = release_of(searches)
    tables = figures(release, [], bootstrap_of(release))
    assert [table.name for table in tables] == ["outcomes", "ratings", "stops"]
    assert STATISTICS["search"].measures is not None
    assert STATISTICS["search"].measures(release, bootstrap_of(release)) is None
