"""The benchmarks `bootstrap`, `coverage`, `system-strengths` and `systems`, small."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import bootstrap, coverage, system_strengths, systems
from benchmarks.system_strengths import Design, Study
from benchmarks.systems import KS, QUESTIONS, SET_SIZE
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_split, generator, utility


def test_both_methods_give_the_same_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "PARTICIPANTS", 8)
    result = bootstrap.measure(seed=1, resamples=30, part=20)
    assert result["equal"]
    assert result["n"] == 800
    assert result["theirs_vectorised_measured_on"] == 20
    assert result["ratio"] == result["cases"][0]["ratio"]
    cases = [case["case"] for case in result["cases"]]
    assert cases == ["participant", "participant-triplet", "row"]
    assert [case["compared"] for case in result["cases"]] == [31, 61, 21]


def test_coverage_counts_intervals_that_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TRUTH_QUESTIONS": 20_000,
        "QUESTIONS": 10,
        "CROSSED_QUESTIONS": 10,
        "RESAMPLES": 40,
        "PERMUTATIONS": 19,
    }.items():
        monkeypatch.setattr(coverage, name, value)
    designs = (coverage.Design(6, 1), coverage.Design(8, None))
    result = coverage.measure(seed=2, studies=10, designs=designs)
    assert 0.2 < result["truth"]["rho"] < 0.4
    assert 0.5 < result["truth"]["tie_half"] < 0.7
    cases = {(case["overlap"], case["way"], case["statistic"]): case for case in result["cases"]}
    assert len(cases) == 8
    for statistic in ("rho", "tie_half"):
        crossed = [cases["crossed", way, statistic] for way in ("participants", "default")]
        assert crossed[0]["mean_length"] < crossed[1]["mean_length"]
        assert crossed[0]["coverage"] <= crossed[1]["coverage"]
        # Without overlap the default differs only in that the interval is widened.
        apart = [cases["1", way, statistic] for way in ("participants", "default")]
        assert apart[0]["size"] == apart[1]["size"]
    lines = coverage.markdown(result).splitlines()
    assert len({line.count("|") for line in lines[:4]}) == 1


def test_harder_studies_have_ties_systems_and_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TRUTH_QUESTIONS": 50_000, "RESAMPLES": 40, "PERMUTATIONS": 19}.items():
        monkeypatch.setattr(coverage, name, value)
    every = np.arange(20_000)
    answers = coverage.harder_answer(np.random.default_rng(3), every, every)
    assert answers.is_tie is not None
    assert 0.02 < answers.is_tie.mean() < 0.2
    assert set(np.unique(answers.metrics[2])) == {0.0, 1.0}
    assert set(np.unique(answers.scores)) == {1, 2, 3, 4, 5}
    designs = (coverage.Design(6, 1, questions=12, harder=True), coverage.HARDER[-1])
    result = coverage.measure(seed=2, studies=6, designs=designs)
    assert result["truth"]["rho, difference"] == 0.0
    assert 0.55 < result["truth"]["win rate"] < 0.7
    assert {case["statistic"] for case in result["cases"]} == set(result["truth"])
    lines = coverage.harder_markdown(result).splitlines()
    assert len({line.count("|") for line in lines[:4]}) == 1


@pytest.mark.parametrize("overlap", [1, 2, 3, None])
def test_participants_answer_as_many_questions_and_no_query_twice(overlap: int | None) -> None:
    design = coverage.Design(10, overlap)
    people, queries = coverage.assigned(np.random.default_rng(0), design)
    answers = pd.DataFrame({"person": people, "query": queries})
    assert not answers.duplicated().any()
    n = coverage.CROSSED_QUESTIONS if overlap is None else coverage.QUESTIONS
    assert set(answers.groupby("person").size()) == {n}
    assert answers.groupby("query").size().max() == (overlap or 10)


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


NAMES = ("best", "middle", "worst")


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(generator(0, "catalogue"), 40)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_split(generator(0, "triplets"), garments, "dress", "val", QUESTIONS)


@pytest.fixture(scope="module")
def rows(garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]) -> pd.DataFrame:
    """Answers about systems that return the best, middling and the worst images."""
    lists: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in NAMES}
    for triplet in triplets:
        ordered = sorted(corpus(garments, "dress"), key=lambda each: -utility(triplet, each))
        images = [garment.image_id for garment in ordered]
        for name, start in zip(NAMES, (0, 12, 30), strict=True):
            chosen = images[start : start + 10]
            lists[name][triplet.external_id] = (triplet.reference.image_id, *chosen)
    return systems.answered(0, "val", triplets, lists, 20)


def test_annotators_compare_two_systems_and_prefer_the_better(rows: pd.DataFrame) -> None:
    assert len(rows) == 20 * QUESTIONS
    assert (rows["first"] != rows["second"]).all()
    wins = rows[rows["system_1"] == "best"]["preferred"].eq(1).mean()
    losses = rows[rows["system_1"] == "worst"]["preferred"].eq(1).mean()
    assert wins > 0.7
    assert losses < 0.45


def test_the_reference_is_not_in_a_shown_set(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    triplet = triplets[0]
    others = [each for each in corpus(garments, "dress") if each != triplet.reference][:SET_SIZE]
    images = [garment.image_id for garment in others]
    ranked = [images[0], triplet.reference.image_id, *images[1:], "never shown"]
    expected = sum(utility(triplet, garment) for garment in others) / SET_SIZE
    assert systems.worth_of(triplet, ranked) == pytest.approx(expected)


def test_orders_are_compared(rows: pd.DataFrame) -> None:
    recall = {"best": 0.9, "middle": 0.5, "worst": 0.2}
    same = systems.compared(rows, {name: dict.fromkeys(KS, recall[name]) for name in NAMES}, 0)
    assert same["tau"] == {f"recall@{k}": 1.0 for k in KS}
    swapped = {"best": 0.5, "middle": 0.9, "worst": 0.2}
    other = systems.compared(rows, {name: dict.fromkeys(KS, swapped[name]) for name in NAMES}, 0)
    assert other["tau"]["recall@10"] == pytest.approx(1 / 3)
    assert other["swapped"]["recall@10"] == (("best", "middle"),)
    figures = same["systems"]
    assert figures["best"]["win_rate"] > figures["middle"]["win_rate"]
    assert (
        figures["best"]["davidson"] > figures["middle"]["davidson"] > figures["worst"]["davidson"]
    )
