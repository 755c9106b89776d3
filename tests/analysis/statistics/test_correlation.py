"""Correlations over all answers and within queries, and their assumption of normality."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit
from hsfiq.analysis.resampling.permutation import Swaps, grouped_test
from hsfiq.analysis.statistics.correlation import (
    NO_CORRELATION,
    NO_GROUP,
    Correlation,
    WithinParticipant,
    WithinQuery,
    bonett_wright,
    normality,
    participant_rhos,
    spearman,
    within_participant,
    within_query,
)
from tests.analysis import reference
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    clustered_ends,
    expected_ends,
    few,
    make_release,
    participant_counts,
    studies,
    values_of,
)


def both(study: list[Question]) -> tuple[list[float], list[float]]:
    """The metric's values and the human scores of the sets that have both."""
    values, scores = [], []
    for question in study:
        for value, score in zip(question.values, question.scores, strict=True):
            if value is not None:
                values.append(value)
                scores.append(float(score))
    return values, scores


def correlate(study: list[Question]) -> Correlation:
    return spearman(make_release(study).sets, values_of(study))


@few
@given(studies)
def test_equals_the_definition_and_scipy(study: list[Question]) -> None:
    result = correlate(study)
    values, scores = both(study)
    assert result.n == len(values)
    if len(values) < 3 or len(set(values)) == 1 or len(set(scores)) == 1:
        assert math.isnan(result.rho)
        assert result.reason
        return
    assert result.reason is None
    assert result.rho == pytest.approx(reference.spearman(values, scores), abs=1e-12)
    expected = stats.spearmanr(values, scores)
    assert result.rho == pytest.approx(expected.statistic, abs=1e-14)
    assert result.p == pytest.approx(expected.pvalue, abs=1e-14)


def test_participants_without_a_value_are_not_clusters() -> None:
    study = [
        Question(1, scores=(1, 2), values=(1, 2), participant="p1"),
        Question(1, scores=(4, 3), values=(3, 4), participant="p2"),
        Question(1, scores=(5, 5), values=(None, None), participant="p3"),
    ]
    result = correlate(study)
    assert result.rho == pytest.approx(0.8)
    assert (result.n, result.n_clusters) == (4, 2)


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        ([], "n = 0: the correlation needs 3 sets"),
        ([Question(1, scores=(1, 2), values=(1, 2))], "n = 2: the correlation needs 3 sets"),
        ([Question(1, scores=(1, 2))] * 2, "the metric has the same value for every set"),
        ([Question(1, values=(1, 2))] * 2, "every set has the same human score"),
    ],
)
def test_undefined_has_a_reason(study: list[Question], reason: str) -> None:
    result = correlate(study).to_json()
    assert (result["rho"], result["p"], result["reason"]) == (None, None, reason)


def test_values_are_matched_by_set_id_not_by_order() -> None:
    study = [Question(1, scores=(1, 2), values=(1, 2)), Question(1, scores=(3, 4), values=(3, 4))]
    shuffled: pd.Series = values_of(study).iloc[::-1]
    assert spearman(make_release(study).sets, shuffled).rho == pytest.approx(1)


def drawn_study(seed: int, n_participants: int, n_questions: int) -> list[Question]:
    """Participants who differ in offset and slope; the metric has few or many distinct values."""
    rng = np.random.default_rng(seed)
    study = []
    for person in range(n_participants):
        offset, slope = rng.normal(3, 0.5), rng.normal(0.6, 0.4)
        for _ in range(n_questions):
            values = rng.normal(size=2)
            ratings = np.clip(np.round(offset + slope * values + rng.normal(size=2)), 1, 5)
            scores = [int(score) for score in ratings]
            question = Question(1, tuple(scores), values=tuple(map(float, values)))
            study.append(replace(question, participant=f"p{person}"))
    return study


def test_the_interval_equals_that_of_repeated_participants() -> None:
    study = drawn_study(1, 12, 6)
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, n_resamples=150, seed=5)
    result = spearman(release.sets, values_of(study), bootstrap)
    people = [
        [question for question in study if question.participant == f"p{number}"]
        for number in range(12)
    ]
    order = sorted(range(12), key=lambda number: f"p{number}")
    rhos = []
    for counts in participant_counts(bootstrap):
        chosen = [
            question
            for place, number in enumerate(order)
            for _ in range(int(counts[place]))
            for question in people[number]
        ]
        rhos.append(stats.spearmanr(*both(chosen)).statistic)
    assert (result.ci.low, result.ci.high) == pytest.approx(
        expected_ends(result.rho, rhos, [2 * len(own) for own in people], (-1, 1)), abs=1e-12
    )
    assert (result.ci.n_clusters, result.ci.unit, result.ci.seed) == (12, "participant", 5)
    written = result.to_json()
    assert written["ci"] == [result.ci.low, result.ci.high]


def test_duplicated_answers_do_not_change_the_interval() -> None:
    study = drawn_study(2, 8, 5)
    original, doubled = (
        spearman(release.sets, values_of(answers), bootstrap_of(release, 100))
        for answers in (study, study + study)
        for release in [make_release(answers)]
    )
    assert (doubled.ci.low, doubled.ci.high) == pytest.approx(
        (original.ci.low, original.ci.high), abs=1e-12
    )
    assert doubled.independent_ci[1] - doubled.independent_ci[0] < 0.8 * (
        original.independent_ci[1] - original.independent_ci[0]
    )


def test_a_single_participant_has_no_interval() -> None:
    study = drawn_study(3, 1, 5)
    release = make_release(study)
    result = spearman(release.sets, values_of(study), Bootstrap.of_release(release)).to_json()
    assert result["ci"] == [None, None]
    assert result["rho"] is not None
    assert "2 clusters" in str(result["reason"])


def test_independent_rows_have_the_analytic_interval() -> None:
    """By hand: z = atanh 0.65, its error sqrt(1.21125 / 6097)."""
    assert bonett_wright(0.65, 6100) == pytest.approx((0.6338, 0.6657), abs=5e-5)
    assert bonett_wright(0.2, 3) == (-1, 1)
    assert bonett_wright(-1, 9) == (-1, -1)


numbers = st.floats(-100, 100).map(lambda number: round(number, 6))


def test_equals_scipy() -> None:
    values = np.random.default_rng(5).normal(3, 1, 400)
    result = normality(pd.Series(values))
    expected = stats.shapiro(values)
    assert (result.w, result.p, result.n) == (expected.statistic, expected.pvalue, 400)
    assert not result.approximate
    assert set(result.to_json()) == {"W", "p", "n"}


@few
@given(st.lists(numbers, max_size=30))
def test_is_defined_or_says_why(numbers: list[float]) -> None:
    result = normality(pd.Series(numbers, dtype="float64"))
    assert result.n == len(numbers)
    undefined = len(numbers) < 3 or len(set(numbers)) == 1
    assert math.isnan(result.w) == math.isnan(result.p) == undefined
    assert (result.reason is not None) == undefined


def test_missing_values_are_excluded() -> None:
    values = [1.0, 2.0, 4.0, 8.0]
    assert normality(pd.Series([*values, math.nan])) == normality(pd.Series(values))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "n = 0: Shapiro-Wilk needs 3 values"),
        ([1.0, 2.0], "n = 2: Shapiro-Wilk needs 3 values"),
        ([2.0] * 9, "all values are equal"),
        ([0.1 + 0.2, 0.3, 0.3, 0.3], "all values are equal"),
        ([0.0, 1e-20, 2e-20], "all values are equal"),
    ],
)
def test_undefined_normality_has_a_reason(values: list[float], reason: str) -> None:
    result = normality(pd.Series(values, dtype="float64")).to_json()
    assert (result["W"], result["p"], result["reason"]) == (None, None, reason)


def test_large_n_gets_a_second_test_and_no_warning() -> None:
    values = np.random.default_rng(6).integers(1, 6, 6_100)
    result = normality(pd.Series(values))
    assert result.approximate
    expected = stats.normaltest(values.astype(float))
    assert result.second.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.second.p == pytest.approx(expected.pvalue)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert result.w == stats.shapiro(values.astype(float)).statistic
    written = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert written["approximate"] is True
    assert "5,000" in written["note"]
    assert set(written["second"]) == {"test", "statistic", "p"}


@pytest.mark.parametrize(("n", "second"), [(5_000, False), (5_001, True)])
def test_the_second_test_starts_beyond_5000(n: int, *, second: bool) -> None:
    values = pd.Series(np.random.default_rng(7).normal(size=n))
    assert (normality(values).second is not None) == second


def test_other_warnings_are_not_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("something else", UserWarning, stacklevel=1)

    monkeypatch.setattr("pingouin.normality", warn)
    with pytest.raises(UserWarning, match="something else"):
        normality(pd.Series([1.0, 2.0, 4.0]))


Values = dict[str, pd.Series]


def ranking_study(seed: int, *, overlap: int = 1, widths: tuple[int, ...] = (3,)) -> Release:
    """Twelve people about 30 queries with so many pairs each, which share sets."""
    rng = np.random.default_rng(seed)
    study, queries = [], []
    for query in range(30):
        width = widths[query % len(widths)]
        sets = ["".join(rng.permutation(list("abcdefgh"))[:5]) for _ in range(width)]
        for judge in range(overlap):
            for place in range(width):
                pair = (sets[place], sets[(place + 1) % width])
                scores = tuple(int(score) for score in rng.integers(1, 6, 2))
                person = f"p{(query + judge) % 12}"
                study.append(Question(1, scores=scores, images=pair, participant=person))  # type: ignore[arg-type]
                queries.append(f"q{query:02}")
    release = make_release(study)
    release.preferences["query_id"] = queries
    release.sets["query_id"] = np.repeat(queries, 2)
    names = list(dict.fromkeys(queries))
    table = pd.DataFrame({"query_id": names, "target_id": None, "text": "is red"})
    return Release(**{**vars(release), "queries": table})


def metrics_of(release: Release, seed: int) -> Values:
    """Two metrics with ties, the same for the same images."""
    rng = np.random.default_rng(seed)
    images = release.sets["query_id"] + release.sets["image_ids"].map("".join)
    values = {}
    for name in ("first", "second"):
        of_images = {each: float(rng.integers(0, 4)) for each in dict.fromkeys(images)}
        values[name] = pd.Series(
            images.map(of_images).to_numpy(), index=release.sets["set_id"].to_numpy()
        )
    return values


def by_hand(release: Release, values: pd.Series) -> dict[str, tuple[float, float]]:
    """Each query's rho and tau by scipy; queries without them are left out."""
    result = {}
    for query, own in release.sets.groupby("query_id"):
        scores: dict[tuple[str, ...], list[float]] = {}
        metric = {}
        for row in own.itertuples():
            key = tuple(row.image_ids)  # type: ignore[arg-type]
            scores.setdefault(key, []).append(float(row.score))  # type: ignore[arg-type]
            metric[key] = values[row.set_id]  # type: ignore[index]
        keys = [key for key in scores if not math.isnan(metric[key])]
        x, y = [float(np.mean(scores[key])) for key in keys], [metric[key] for key in keys]
        if len(set(x)) > 1 and len(set(y)) > 1:
            result[str(query)] = (stats.spearmanr(x, y).statistic, stats.kendalltau(x, y).statistic)
    return result


def measure(release: Release, values: Values, n: int = 999) -> WithinQuery:
    bootstrap = Bootstrap.of_release(release, n_resamples=50)
    return within_query(release, values, bootstrap, Swaps(n=n))


@pytest.mark.parametrize("overlap", [1, 3])
@pytest.mark.parametrize("widths", [(3,), (2, 5)])
def test_means_equal_those_of_single_queries(overlap: int, widths: tuple[int, ...]) -> None:
    release = ranking_study(1, overlap=overlap, widths=widths)
    values = metrics_of(release, 2)
    values["first"].iloc[:7] = np.nan
    within = measure(release, values, n=9)
    for name, own in values.items():
        expected = list(by_hand(release, own).values())
        each = within.metrics[name]
        assert each.spearman.value == pytest.approx(np.mean([rho for rho, _ in expected]))
        assert each.kendall.value == pytest.approx(np.mean([tau for _, tau in expected]))
        assert each.spearman.n == len(expected) <= each.n_groups <= 30
        assert each.spearman.ci.low < each.spearman.value < each.spearman.ci.high
    assert within.unit == ("participant" if overlap == 1 else "participant-triplet")
    assert within.metrics["second"].mean_sets == pytest.approx(np.mean(widths))


@pytest.mark.parametrize("unit", ["participant", "participant-triplet", "triplet"])
def test_shared_queries_are_resampled_as_a_loop_does(unit: Unit) -> None:
    release = ranking_study(5, overlap=2)
    values = metrics_of(release, 6)
    bootstrap = Bootstrap.of_release(release, unit=unit, n_resamples=8)
    within = within_query(release, values, bootstrap, Swaps(n=9))
    weights = np.concatenate(list(bootstrap.weights(release.sets)))
    expected = np.array([literal_mean(release, values["first"], each) for each in weights])
    queries = list(by_hand(release, values["first"]))
    rows = release.sets[release.sets["query_id"].isin(queries)]
    if unit == "triplet":
        rows = rows.drop_duplicates("query_id")
    interval = bootstrap.interval(expected, rows, bounds=(-1.0, 1.0))
    actual = within.metrics["first"].spearman.ci
    assert (actual.low, actual.high) == pytest.approx((interval.low, interval.high))
    (difference,) = within.differences
    assert ("permutation" in difference.spearman.p_method) == (unit == "triplet")
    assert difference.spearman.n <= 30


def literal_mean(release: Release, values: pd.Series, weights: np.ndarray) -> float:
    """The mean of the queries' own rhos, whose answers count as often as the weights say."""
    sets = release.sets.assign(weight=weights, value=values.to_numpy())
    sets["images"] = sets["image_ids"].map("".join)
    rhos, shares = [], []
    for _, own in sets.groupby("query_id"):
        drawn = own[own["weight"] > 0]
        products = (drawn["score"] * drawn["weight"]).groupby(drawn["images"]).sum()
        scores = products / drawn.groupby("images")["weight"].sum()
        metric = drawn.groupby("images")["value"].first()
        if scores.nunique() > 1 and metric.nunique() > 1:
            rhos.append(stats.spearmanr(scores, metric).statistic)
            shares.append(own["weight"].mean())
    return float(np.average(rhos, weights=shares))


def test_one_shared_query_does_not_hide_how_people_differ() -> None:
    """The metric is right for half of the people and wrong for the others."""
    study = [
        Question(1, scores=scores, participant=f"p{person}", values=(1.0, 0.0))
        for person in range(8)
        for scores in [(4, 2), (2, 4)][person % 2 : person % 2 + 1] * 20
    ]
    release = make_release(study)
    queries = [f"q{place:03}" for place in range(len(study))]
    queries[20] = queries[0]
    release.preferences["query_id"], release.sets["query_id"] = queries, np.repeat(queries, 2)
    table = pd.DataFrame({"query_id": sorted(set(queries)), "target_id": None, "text": "is red"})
    named = replace(release, queries=table)
    interval = measure(named, {"m": values_of(study)}).metrics["m"].spearman.ci
    assert interval.high - interval.low > 1.0
    assert interval.n_clusters == 8


def test_the_test_of_clusters_equals_a_loop() -> None:
    release = ranking_study(3)
    values = metrics_of(release, 4)
    (difference,) = measure(release, values).differences
    rhos = [by_hand(release, own) for own in values.values()]
    both = sorted(set(rhos[0]) & set(rhos[1]))
    gaps = {query: rhos[0][query][0] - rhos[1][query][0] for query in both}
    judge = dict(zip(release.sets["query_id"], release.sets["participant_id"], strict=True))
    people = sorted({judge[query] for query in both})
    observed = np.mean(list(gaps.values()))
    extreme = 0
    for mask in np.concatenate(list(Swaps(n=999).masks(len(people)))):
        sign = dict(zip(people, np.where(mask, -1, 1), strict=True))
        permuted = np.mean([sign[judge[query]] * gap for query, gap in gaps.items()])
        extreme += abs(permuted) >= abs(observed) - 1e-12
    assert difference.spearman.difference == pytest.approx(observed)
    assert difference.spearman.n == len(both)
    assert (
        difference.spearman.p == difference.spearman.p_holm == pytest.approx((extreme + 1) / 1000)
    )


def test_the_test_of_cells_is_the_grouped_test() -> None:
    release = ranking_study(3)
    values = metrics_of(release, 4)
    (difference,) = measure(release, values).differences
    tables = []
    for name in ("score", "first", "second"):
        column = release.sets.assign(
            **{key: release.sets["set_id"].map(own) for key, own in values.items()}
        )
        column["images"] = column["image_ids"].map("".join)
        means = column.groupby(["query_id", "images"], sort=False)[name].mean()
        tables.append(means.to_numpy(float).reshape(-1, 3))
    assert difference.cells == grouped_test(*tables, Swaps(n=999))
    uneven = ranking_study(3, widths=(2, 4))
    (difference,) = measure(uneven, metrics_of(uneven, 4)).differences
    assert difference.cells.reason == "the queries have different numbers of sets"
    assert not math.isnan(difference.spearman.p)


def test_undefined_correlations_have_a_reason() -> None:
    same = [Question(1, images=("abcde", "abcde"), participant="p1")]
    within = measure(make_release(same), {"m": values_of(same)})
    assert within.metrics["m"].spearman.reason == NO_GROUP
    assert within.metrics["m"].n_groups == 0
    flat = [Question(1, scores=(3, 3), values=(0.0, 1.0)), Question(2, scores=(1, 5))]
    values = {"m": values_of(flat), "n": values_of(flat)}
    within = measure(make_release(flat), values)
    assert within.metrics["m"].kendall.reason == NO_CORRELATION
    (difference,) = within.differences
    assert math.isnan(difference.spearman.p)
    assert difference.spearman.reason == NO_CORRELATION
    assert within.to_json()["metrics"]["m"]["mean_sets"] == 2.0  # type: ignore[index]


def within(study: list[Question]) -> WithinParticipant:
    release = make_release(study)
    return within_participant(release.sets, values_of(study), bootstrap_of(release, 50))


def literal(study: list[Question]) -> dict[str, float]:
    """Each participant's rho."""
    actual = {}
    for person in {question.participant for question in study}:
        rows = [
            (value, score)
            for question in study
            if question.participant == person
            for value, score in zip(question.values, question.scores, strict=True)
            if value is not None
        ]
        if len(rows) >= 3 and all(len(set(side)) > 1 for side in zip(*rows, strict=True)):
            actual[person] = float(stats.spearmanr(rows).statistic)
    return actual


@few
@given(studies)
def test_equals_the_definition(study: list[Question]) -> None:
    result, rhos = within(study), literal(study)
    assert result.n_participants == len(rhos)
    if rhos:
        assert result.mean == pytest.approx(np.mean(list(rhos.values())), abs=1e-12)
    else:
        assert math.isnan(result.mean)
        assert result.mean_reason
    means = {
        person: np.mean(
            [
                score
                for question in study
                for value, score in zip(question.values, question.scores, strict=True)
                if question.participant == person and value is not None
            ]
            or [0]
        )
        for person in ("p1", "p2", "p3")
    }
    rows = [
        (value, score - means[question.participant])
        for question in study
        for value, score in zip(question.values, question.scores, strict=True)
        if value is not None
    ]
    if result.centred_reason is None:
        assert result.centred == pytest.approx(stats.spearmanr(rows).statistic, abs=1e-12)


def test_the_interval_is_that_of_the_mean_of_the_participants_rhos() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "set_id": [f"s{number}" for number in range(120)],
            "participant_id": np.repeat([f"p{number}" for number in range(12)], 10),
            "query_id": [f"q{number}" for number in range(120)],
            "score": rng.integers(1, 6, size=120),
        }
    )
    values = pd.Series(rng.normal(size=120), index=table["set_id"])
    rhos = participant_rhos(table.assign(value=values.to_numpy())).to_numpy()
    bootstrap = Bootstrap.of_rows(table, unit="participant", n_resamples=200)
    result = within_participant(table, values, bootstrap)
    ends = clustered_ends(rhos.tolist(), [f"p{number}" for number in range(12)], (-1, 1))
    assert (result.mean_ci.low, result.mean_ci.high) == pytest.approx(ends)
    by_row = Bootstrap.of_rows(table, unit="row", n_resamples=200)
    by_rows = within_participant(table, values, by_row)
    assert by_rows.mean_ci == result.mean_ci
    assert by_rows.centred_ci.unit == "row"


def test_an_empty_release_has_reasons() -> None:
    result = within([]).to_json()
    for part in ("mean", "centred"):
        actual = result[part]
        assert isinstance(actual, dict)
        assert (actual["rho"], actual["ci"]) == (None, [None, None])
        assert actual["reason"]
