from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference, Swaps
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison, compare_all
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from tests.analysis.studies import (
    Question,
    bootstrap_of,
    clustered_ends,
    few,
    make_release,
    question_ids,
    studies,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


RESAMPLES = 12
SWAPS = Swaps(30, seed=3)

some_values = st.one_of(st.none(), st.integers(-2, 2).map(float))
measured = studies.flatmap(
    lambda study: st.tuples(
        st.just(study),
        *[st.lists(some_values, min_size=2 * len(study), max_size=2 * len(study))] * 2,
    )
)


def set_ids(study: Sequence[Question]) -> list[str]:
    return [f"{name}.{side}" for name in question_ids(study) for side in (1, 2)]


def as_metrics(
    study: Sequence[Question], *columns: Sequence[float | None]
) -> dict[str, pd.Series[float]]:
    names = ("one", "two", "three")
    return {
        name: pd.Series(column, index=set_ids(study), dtype="float64")
        for name, column in zip(names, columns, strict=False)
    }


def compare(
    study: Sequence[Question], values: Mapping[str, pd.Series[float]], swaps: Swaps = SWAPS
) -> Comparison:
    release = make_release(study)
    (result,) = compare_all(release, values, bootstrap_of(release, RESAMPLES), swaps)
    return result


def literal(
    sets: pd.DataFrame, pairs: pd.DataFrame, name: str, values: Mapping[str, pd.Series[float]]
) -> float:
    """The difference of one statistic between the metrics, on rows that may repeat."""
    result = []
    for metric in values.values():
        if name == "spearman":
            x, y = sets["set_id"].map(metric), sets["score"]
            defined = min(x.nunique(), y.nunique()) > 1
            result.append(stats.spearmanr(x, y).statistic if defined else math.nan)
            continue
        hits = n = 0.0
        for row in pairs.itertuples():
            gap = metric[row.set_1] - metric[row.set_2]
            if gap == 0 and name == "symmetric":
                continue
            n += 1
            hits += 0.5 if gap == 0 else row.preferred == (1 if gap > 0 else 2)
        result.append(hits / n if n else math.nan)
    return result[0] - result[1]


def usable(
    release: Release, values: Mapping[str, pd.Series[float]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The sets with a value of both metrics, and such pairs with a preference."""
    missing = {name for metric in values.values() for name in metric.index[metric.isna()]}
    pairs = release.preferences[release.preferences["preferred"] != 0]
    complete = ~(pairs["set_1"].isin(missing) | pairs["set_2"].isin(missing))
    return release.sets[~release.sets["set_id"].isin(missing)], pairs[complete]


def rows_of(name: str, release: Release, values: Mapping[str, pd.Series[float]]) -> pd.DataFrame:
    """The sets or pairs that a statistic compares."""
    sets, pairs = usable(release, values)
    if name == "spearman":
        return sets
    gaps = [
        pairs["set_1"].map(metric).astype(float) - pairs["set_2"].map(metric).astype(float)
        for metric in values.values()
    ]
    return pairs if name == "tie_half" else pairs[(gaps[0] != 0) & (gaps[1] != 0)]


@few
@given(measured)
def test_differences_are_those_of_the_single_statistics(
    drawn: tuple[list[Question], list[float | None], list[float | None]],
) -> None:
    study, *columns = drawn
    values = as_metrics(study, *columns)
    release = make_release(study)
    result = compare(study, values)
    for name in STATISTICS:
        rows = rows_of(name, release, values)
        metric_a, metric_b = (
            spearman(rows, metric).rho
            if name == "spearman"
            else getattr(preference_rates(rows, metric), name).rate
            for metric in values.values()
        )
        difference: Difference = getattr(result, name)
        assert difference.difference == pytest.approx(metric_a - metric_b, nan_ok=True, abs=1e-12)
        assert difference.n == len(rows)
        assert difference.n_clusters == rows["participant_id"].nunique()
        undefined = math.isnan(difference.difference) or math.isnan(difference.p)
        assert (difference.reason is not None) == undefined


@few
@given(measured)
def test_intervals_equal_those_of_repeated_rows(
    drawn: tuple[list[Question], list[float | None], list[float | None]],
) -> None:
    study, *columns = drawn
    values = as_metrics(study, *columns)
    release = make_release(study)
    bootstrap = bootstrap_of(release, RESAMPLES)
    result = compare(study, values)
    for name in STATISTICS:
        if math.isnan(getattr(result, name).difference):
            continue
        table = rows_of(name, release, values)
        ci = getattr(result, name).ci
        if name != "spearman":
            assert_is_clustered(ci, table, name, values)
            continue
        repeated = [
            table.loc[np.repeat(table.index, weights.astype(int))]
            for weights in np.concatenate(list(bootstrap.weights(table)))
        ]
        statistics = [literal(rows, rows, name, values) for rows in repeated]
        expected = bootstrap.interval(np.array(statistics), table)
        assert (ci.low, ci.high, ci.n_undefined) == (
            pytest.approx(expected.low, nan_ok=True, abs=1e-12),
            pytest.approx(expected.high, nan_ok=True, abs=1e-12),
            expected.n_undefined,
        )


def assert_is_clustered(
    ci: ConfidenceInterval, table: pd.DataFrame, name: str, values: Mapping[str, pd.Series[float]]
) -> None:
    """The interval of a difference of rates is that of the mean of each pair's difference."""
    pairs = [table.iloc[[place]] for place in range(len(table))]
    each = [literal(pair, pair, name, values) for pair in pairs]
    people = table["participant_id"].tolist()
    sums = {p: sum(e for e, q in zip(each, people, strict=True) if p == q) for p in people}
    is_even = all(
        sums[person] == pytest.approx(np.mean(each) * people.count(person)) for person in sums
    )
    if len(sums) < 2 or is_even:
        assert math.isnan(ci.low)
        assert ci.reason
    else:
        assert (ci.low, ci.high) == pytest.approx(clustered_ends(each, people, None), abs=1e-12)


def standardized(values: pd.Series[float]) -> pd.Series[float]:
    ranks = values.rank()
    return (ranks - ranks.mean()) / ranks.std(ddof=0)


@few
@given(measured)
def test_p_exchanges_complete_participants(
    drawn: tuple[list[Question], list[float | None], list[float | None]],
) -> None:
    study, *columns = drawn
    values = as_metrics(study, *columns)
    release = make_release(study)
    result = compare(study, values)
    for name in STATISTICS:
        difference: Difference = getattr(result, name)
        if math.isnan(difference.p):
            continue
        table = rows_of(name, release, values)
        people = sorted(table["participant_id"].unique())
        shape = (1, len(people)) if name == "spearman" else (len(people),)
        extreme = 0
        for mask in np.concatenate(list(SWAPS.masks(*shape))).reshape(-1, len(people)):
            exchanged = {person for person, swap in zip(people, mask, strict=True) if swap}
            swapped = literal_swap(table, name, values, exchanged)
            extreme += not abs(swapped) < abs(difference.difference) - 1e-12
        assert difference.p == (extreme + 1) / (SWAPS.n + 1)


def literal_swap(
    table: pd.DataFrame, name: str, values: Mapping[str, pd.Series[float]], exchanged: set[str]
) -> float:
    """The difference when the two metrics are exchanged for these participants."""
    is_exchanged = table["participant_id"].isin(exchanged).to_numpy()
    metric_a, metric_b = values.values()
    if name == "spearman":
        x, y = (standardized(table["set_id"].map(metric)) for metric in (metric_a, metric_b))
        first, second = x.where(~is_exchanged, y), y.where(~is_exchanged, x)
        if min(first.std(), second.std()) < 1e-9:
            return math.nan
        scores = table["score"].rank()
        return float(np.corrcoef(first, scores)[0, 1] - np.corrcoef(second, scores)[0, 1])
    theirs = set(table.loc[is_exchanged, ["set_1", "set_2"]].to_numpy().ravel())
    first = pd.Series(
        {key: (metric_b if key in theirs else metric_a)[key] for key in metric_a.index}
    )
    second = pd.Series(
        {key: (metric_a if key in theirs else metric_b)[key] for key in metric_a.index}
    )
    return literal(table, table, name, {"first": first, "second": second})


def simulate(
    rng: np.random.Generator,
    noises: Sequence[float],
    n_participants: int = 20,
    n_questions: int = 25,
) -> tuple[list[Question], dict[str, pd.Series[float]]]:
    """Answers that follow a quality, and metrics that add noise of these sizes to it."""
    study, columns = [], [[] for _ in noises]
    for participant in range(n_participants):
        offset = rng.normal() / 2
        for _ in range(n_questions):
            quality = rng.normal(size=2)
            perceived = quality + rng.normal(size=2)
            scores = tuple(int(s) for s in np.clip(np.rint(perceived + offset + 3), 1, 5))
            study.append(
                Question(
                    1 if perceived[0] > perceived[1] else 2, scores, participant=f"p{participant}"
                )
            )
            for column, noise in zip(columns, noises, strict=True):
                column.extend(quality + noise * rng.normal(size=2))
    return study, as_metrics(study, *columns)


def test_a_better_metric_is_detected_and_equal_ones_are_not() -> None:
    study, values = simulate(np.random.default_rng(8), (0.2, 2.0, 2.0))
    release = make_release(study)
    result = compare_all(release, values, bootstrap_of(release, 300))
    better, best, equal = result
    assert [(each.metric, each.other) for each in result] == list(combinations(values, 2))
    for name in STATISTICS:
        for comparison in (better, best):
            difference: Difference = getattr(comparison, name)
            assert difference.ci.low > 0
            assert difference.p < difference.p_holm < 0.01
        equal_difference: Difference = getattr(equal, name)
        assert equal_difference.ci.low < 0 < equal_difference.ci.high
        assert 0.05 < equal_difference.p <= equal_difference.p_holm


def test_all_p_values_are_one_family() -> None:
    """Nine values: three statistics of three comparisons."""
    study, values = simulate(np.random.default_rng(12), (0.6, 1.0, 1.0), n_participants=8)
    release = make_release(study)
    result = compare_all(release, values, bootstrap_of(release, RESAMPLES), Swaps(200))
    tests = sorted(
        (getattr(comparison, name) for comparison in result for name in STATISTICS),
        key=lambda difference: difference.p,
    )
    highest = 0.0
    for place, difference in enumerate(tests):
        highest = max(highest, min(1.0, difference.p * (9 - place)))
        assert difference.p_holm == pytest.approx(highest)


def test_shared_triplets_and_other_units_have_a_test_of_their_own() -> None:
    study, values = simulate(np.random.default_rng(13), (0.4, 1.0), 6, 10)
    apart = make_release(study)
    queries = [f"query {number % 15}" for number in range(len(study))]
    shared = Release(
        **{
            **vars(apart),
            "preferences": apart.preferences.assign(query_id=queries),
            "sets": apart.sets.assign(query_id=np.repeat(queries, 2)),
            "queries": pd.DataFrame({"query_id": sorted(set(queries)), "target_id": None}),
        }
    )
    bootstrap = Bootstrap.of_release(shared, n_resamples=300)
    (comparison,) = compare_all(shared, values, bootstrap, SWAPS)
    for name in STATISTICS:
        difference: Difference = getattr(comparison, name)
        assert "two-way" in difference.p_method
        assert difference.swaps is None
        assert (difference.p < 0.05) == (difference.ci.low > 0 or difference.ci.high < 0)
    for unit, units in (("triplet", 15), ("row", 120)):
        by_unit = Bootstrap.of_release(shared, unit=unit, n_resamples=20)
        (other,) = compare_all(shared, values, by_unit, SWAPS)
        assert unit in other.spearman.p_method
        assert other.spearman.n_clusters == units
        assert other.spearman.p != comparison.spearman.p


def test_a_third_metric_changes_only_p_holm() -> None:
    study, values = simulate(np.random.default_rng(10), (0.5, 1.0, 1.0), n_participants=8)
    values["three"].iloc[:100] = np.nan
    release, swaps = make_release(study), Swaps(200)
    bootstrap = bootstrap_of(release, RESAMPLES)
    pair = {name: values[name] for name in ("one", "two")}
    (pair_alone,) = compare_all(release, pair, bootstrap, swaps)
    first_pair, second_pair, _ = compare_all(release, values, bootstrap, swaps)
    for name in STATISTICS:
        alone: Difference = getattr(pair_alone, name)
        among_three: Difference = getattr(first_pair, name)
        assert replace(among_three, p_holm=alone.p_holm) == alone
        assert among_three.p_holm >= alone.p_holm
    assert (second_pair.spearman.n, second_pair.tie_half.n) == (len(release.sets) - 100, 150)


def test_what_is_undefined_has_a_reason() -> None:
    one_person = [Question(1, (4, 2)), Question(2, (1, 5)), Question(2, (3, 4))]
    two_people = [*one_person, Question(1, (5, 3), participant="p2")]
    rising, flat = [float(n) for n in range(8)], [1.0] * 8
    equal_scores = [replace(q, scores=(3, 3)) for q in two_people]
    ties = [replace(q, preferred=0) for q in two_people]
    single_reason = "a test needs more than one"
    empty_reason = ("one: n = 0", "no pair has", "in every pair, one of the metrics")
    for study, columns, reasons in (
        ([], ([], []), empty_reason),
        (two_people, (rising, [None] * 8), empty_reason),
        (one_person, (rising[:6], rising[5::-1]), (single_reason,) * 3),
        (two_people, (rising, flat), ("two: the metric has the same", None, empty_reason[2])),
        (equal_scores, (rising, rising[::-1]), ("one: every set has the same", None, None)),
        (ties, (rising, rising[::-1]), (None, *empty_reason[1:])),
    ):
        written = json.loads(
            json.dumps(compare(study, as_metrics(study, *columns)).to_json(), allow_nan=False)
        )
        for name, reason in zip(STATISTICS, reasons, strict=True):
            if reason is None:
                assert "reason" not in written[name]
                continue
            assert written[name]["p"] is written[name]["p_holm"] is None
            assert written[name]["reason"].startswith(reason)
            assert (written[name]["difference"] is None) == (reason != single_reason)
            assert written[name]["ci"] == [None, None]
            assert written[name]["ci_method"]["reason"]


def test_fewer_than_two_metrics_are_not_compared() -> None:
    study = [Question(1, values=(1, 2))]
    release = make_release(study)
    bootstrap = bootstrap_of(release, RESAMPLES)
    assert compare_all(release, {}, bootstrap) == []
    assert compare_all(release, as_metrics(study, [1.0, 2.0]), bootstrap) == []


def test_an_analysis_contains_the_comparisons() -> None:
    study, _ = simulate(np.random.default_rng(11), (), n_participants=3, n_questions=4)
    release = make_release(study)
    analysis = analyze(release, [Recall(5), Recall(1)], bootstrap_of(release, RESAMPLES))
    written = json.loads(json.dumps(analysis.to_json(), allow_nan=False))
    (comparison,) = written["comparisons"]
    assert (comparison["metric"], comparison["other"]) == ("recall@5", "recall@1")
    assert set(comparison) == {"metric", "other", *STATISTICS}
    assert "recall@5  recall@1  Spearman's rho" in analysis_text(analysis, tables=True)
    for metric in written["metrics"].values():
        assert set(metric["pairwise_accuracy"]) == {"preference", "score"}
        assert set(metric["margin"]) == {"by_metric", "by_score"}
