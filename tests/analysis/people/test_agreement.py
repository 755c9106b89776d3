"""Agreement of people with each other and with themselves."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import cache, partial
from itertools import permutations

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.agreement import (
    Agreement,
    Level,
    _side_by_side,
    agreement,
    intra_rater,
    kappa,
    kappas,
    repeated_answers,
    shared_ratings,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.preference import exact_proportion
from tests.analysis.studies import Question, bootstrap_of, expected_ends, few, make_release

COLUMNS = ["rater", "unit", "cluster", "value"]
LEVELS: tuple[Level, Level] = ("nominal", "ordinal")

judgements = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 7)), st.integers(1, 5), max_size=40
)
"""{(rater, unit): value}; two units make a cluster."""


@few
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("abc"), max_size=3))))
def test_units_are_the_different_lists_of_a_triplet(shown: list[tuple[str, list[str]]]) -> None:
    sets = pd.DataFrame(
        {
            "set_id": [f"set {place}" for place in range(len(shown))],
            "query_id": [query for query, _ in shown],
            "image_ids": [images for _, images in shown],
        }
    )
    triplets = pd.Series({"x": "t1", "y": "t1", "z": "t2"})
    keys = [(triplets[query], tuple(images)) for query, images in shown]
    expected = [list(dict.fromkeys(keys)).index(key) for key in keys]
    units = set_units(sets, triplets)
    assert units.tolist() == expected
    assert units.index.tolist() == sets["set_id"].tolist()


def frame(rows: dict[tuple[int, int], int]) -> pd.DataFrame:
    flat = [(f"p{rater}", unit, unit // 2, value) for (rater, unit), value in rows.items()]
    return pd.DataFrame(flat, columns=COLUMNS)


def distance(values: tuple[float, ...], first: float, second: float, level: Level) -> float:
    """Krippendorff's squared distance, counted value by value."""
    if first == second:
        return 0.0
    if level == "nominal":
        return 1.0
    low, high = min(first, second), max(first, second)
    between = sum(1 for value in values if low < value < high)
    ends = sum(0.5 for value in values if value in (low, high))
    return float((between + ends) ** 2)


def slow_alpha(units: list[list[float]], level: Level) -> float:
    """1 - observed / expected disagreement, over every pair of judgements."""
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    n = len(values)
    if len(set(values)) < 2:
        return math.nan
    apart = cache(partial(distance, tuple(values), level=level))
    observed = 0.0
    for unit in pairable:
        for first, second in permutations(unit, 2):
            observed += apart(first, second) / (len(unit) - 1)
    expected = 0.0
    for first, second in permutations(values, 2):
        expected += apart(first, second)
    return 1 - (observed / n) / (expected / (n * (n - 1)))


def tenfold(rows: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """The same judgements of ten times as many units: agreement is defined from 10 units on."""
    return {
        (rater, unit + 100 * copy): value
        for copy in range(10)
        for (rater, unit), value in rows.items()
    }


def units_of(table: pd.DataFrame) -> dict[int, list[list[float]]]:
    """The judgements of each unit, by cluster."""
    actual: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.itertuples():
        actual[row.cluster][row.unit].append(float(row.value))
    return {cluster: list(units.values()) for cluster, units in actual.items()}


@pytest.mark.parametrize("level", LEVELS)
@few
@given(rows=judgements)
def test_equals_definition_and_package(level: Level, rows: dict[tuple[int, int], int]) -> None:
    table = frame(tenfold(rows))
    result = agreement(table, level)
    units = [unit for cluster in units_of(table).values() for unit in cluster]
    pairable = [unit for unit in units if len(unit) > 1]
    assert (result.n_units, result.n_ratings) == (len(pairable), sum(map(len, pairable)))
    expected = slow_alpha(units, level)
    if math.isnan(expected):
        assert math.isnan(result.alpha)
        assert result.reason
        assert result.to_json()["alpha"] is None
        return
    assert result.alpha == pytest.approx(expected, abs=1e-12)
    matrix = table.pivot_table(index="rater", columns="unit", values="value").to_numpy(float)
    theirs = krippendorff.alpha(reliability_data=matrix, level_of_measurement=level)
    assert result.alpha == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_the_interval_is_two_way_on_a_log_scale(level: Level) -> None:
    rng = np.random.default_rng(3)
    rows = {
        (rater, unit): int(np.clip(unit % 4 + rng.integers(1, 4), 1, 5))
        for unit in range(24)
        for rater in rng.choice(9, size=int(rng.integers(2, 5)), replace=False)
    }
    table = frame(rows)
    units = {
        int(name): [float(value) for value in own["value"]] for name, own in table.groupby("unit")
    }
    whole = -math.log(1 - slow_alpha(list(units.values()), level))
    influence = {
        name: whole
        + math.log(1 - slow_alpha([own for other, own in units.items() if other != name], level))
        for name in units
    }
    raters = {name: {rater for rater, unit in rows if unit == name} for name in units}
    variance = sum(
        influence[unit_a] * influence[unit_b]
        for unit_a in units
        for unit_b in units
        if unit_a // 2 == unit_b // 2 or raters[unit_a] & raters[unit_b]
    )
    variance = max(variance, sum(each**2 for each in influence.values()))
    margin = stats.t.ppf(0.975, 8) * math.sqrt(variance * 9 / 8)
    ci = agreement(table, level).ci
    assert ci.low == pytest.approx(1 - math.exp(margin - whole))
    assert ci.high == pytest.approx(1 - math.exp(-margin - whole))
    assert (ci.n_clusters, ci.unit) == (9, "participant x triplet")


def squared(first: float, second: float, level: Level) -> float:
    return float(first != second) if level == "nominal" else (first - second) ** 2


def slow_congers_kappa(rows: dict[tuple[int, int], float], level: Level) -> float:
    """Conger's kappa as Gwet has it for missing ratings: over every pair of people."""
    units = {unit for _, unit in rows}
    shared = {unit: [v for (_, own), v in rows.items() if own == unit] for unit in units}
    shared = {unit: values for unit, values in shared.items() if len(values) > 1}
    by_rater: dict[int, list[float]] = defaultdict(list)
    for (rater, unit), value in rows.items():
        if unit in shared:
            by_rater[rater].append(value)
    observed = [
        np.mean([squared(*pair, level) for pair in permutations(values, 2)])
        for values in shared.values()
    ]
    expected = [
        np.mean([squared(x, y, level) for x in by_rater[g] for y in by_rater[h]])
        for g, h in permutations(by_rater, 2)
    ]
    return float(1 - np.mean(observed) / np.mean(expected))


@pytest.mark.parametrize("level", LEVELS)
@settings(few, max_examples=15)
@given(rows=judgements)
def test_kappa_equals_its_definition(level: Level, rows: dict[tuple[int, int], int]) -> None:
    rows = tenfold(rows)
    table = frame(rows)
    shared = shared_ratings(table)
    result = kappa(table, level)
    assert result.n == shared["unit"].nunique()
    if shared["value"].nunique() < 2:
        assert math.isnan(result.value)
        assert result.reason == agreement(table, level).reason.replace("alpha", "kappa")
        return
    assert result.value == pytest.approx(slow_congers_kappa(rows, level), abs=1e-12)
    without_last = {key: value for key, value in rows.items() if key[1] != shared["unit"].iloc[-1]}
    last = kappas(shared, level)[1 + pd.factorize(shared["unit"])[0][-1]]
    assert last == pytest.approx(slow_congers_kappa(without_last, level), abs=1e-12)


def cohens_kappa(counts: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Of a table of two people's categories, with the weights of disagreement (Cohen 1968)."""
    shares = counts / counts.sum()
    independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(1 - (weights * shares).sum() / (weights * independent).sum())


def test_kappa_of_two_people_is_cohens() -> None:
    # Of 50 questions, 20 yes by both and 15 no by both; 5 only by A, 10 only by B: 0.4.
    counts = np.array([[20, 5], [10, 15]])
    both = [(a, b) for a, b in np.ndindex(2, 2) for _ in range(counts[a, b])]
    rows = {(rater, 2 * place): pair[rater] for place, pair in enumerate(both) for rater in (0, 1)}
    assert kappa(frame(rows), "nominal").value == pytest.approx(0.4)
    rng = np.random.default_rng(4)
    first = rng.integers(1, 6, 60)
    second = np.clip(first + rng.integers(-1, 3, 60), 1, 5)
    rows = {(0, unit): int(score) for unit, score in enumerate(first)}
    rows |= {(1, unit): int(score) for unit, score in enumerate(second)}
    rows |= {(rater, 100 + rater): 5 for rater in (0, 1)}  # of one person, so not counted
    counts = np.histogram2d(first, second, bins=5)[0]
    quadratic = np.subtract.outer(np.arange(5), np.arange(5)) ** 2
    assert kappa(frame(rows), "ordinal").value == pytest.approx(cohens_kappa(counts, quadratic))
    different = 1.0 - np.eye(5)
    assert kappa(frame(rows), "nominal").value == pytest.approx(cohens_kappa(counts, different))


def test_kappa_does_not_count_different_use_of_the_scale_as_chance() -> None:
    rows = {(0, unit): 1 + unit % 3 for unit in range(30)}
    rows |= {(1, unit): 3 + unit % 3 for unit in range(30)}
    assert agreement(frame(rows), "ordinal").alpha < kappa(frame(rows), "ordinal").value


def test_full_agreement_is_one_and_chance_is_near_zero() -> None:
    unanimous = {(rater, unit): unit % 5 for rater in range(3) for unit in range(20)}
    agreed = agreement(frame(unanimous), "ordinal")
    assert agreed.alpha == kappa(frame(unanimous), "ordinal").value == 1
    assert "agree completely" in agreed.ci.reason
    assert "agree completely" in kappa(frame(unanimous), "ordinal").ci.reason
    rng = np.random.default_rng(0)
    chance = {(rater, unit): int(rng.integers(1, 6)) for rater in range(3) for unit in range(400)}
    for result in (agreement(frame(chance), "ordinal"), kappa(frame(chance), "ordinal")):
        assert result.ci.low < 0 < result.ci.high


@pytest.mark.parametrize(("rows", "reason"), [
    ({}, "no unit has been judged by two people"),
    ({(0, 0): 3, (0, 1): 4, (1, 2): 4}, "no unit has been judged by two people"),
    (tenfold({(0, 0): 3, (1, 0): 3, (0, 3): 3, (1, 3): 3}), "all judgements are the same"),
    ({(0, 0): 3, (1, 0): 3, (0, 3): 3, (1, 3): 4}, "only 2 things have been judged by two people"),
])  # fmt: skip
def test_undefined_is_nan_with_its_reason(rows: dict[tuple[int, int], int], reason: str) -> None:
    result = agreement(frame(rows), "nominal")
    assert result.ci is None
    assert result.reason.startswith(reason)
    assert math.isnan(result.alpha)
    assert result.to_json()["alpha"] is None


def test_one_triplet_alone_gives_no_interval() -> None:
    rows = tenfold({(0, 0): 3, (1, 0): 4, (0, 1): 4, (1, 1): 4})
    result = agreement(frame(rows).assign(cluster=0), "nominal")
    assert result.alpha < 1
    assert math.isnan(result.ci.low)
    assert result.ci.reason == "an interval needs 3 triplets and participants"


def test_a_second_judgement_by_the_same_participant_does_not_count() -> None:
    rows = frame(tenfold({(0, 0): 1, (1, 0): 1, (0, 2): 2, (1, 2): 3}))
    repeated = pd.concat([rows, pd.DataFrame([("p0", 0, 0, 5)], columns=COLUMNS)])
    assert agreement(repeated, "nominal") == agreement(rows, "nominal")
    single_rater = pd.DataFrame([("p0", 0, 0, 5), ("p0", 0, 0, 4)], columns=COLUMNS)
    result = agreement(single_rater, "nominal")
    assert isinstance(result, Agreement)
    assert result.n_units == 0


def binomial_tail(least_hits: int, n: int, p: float) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least_hits, n + 1))


@pytest.mark.parametrize(("hits", "n"), [(3, 10), (1, 2), (40, 90)])
def test_the_exact_interval_has_tails_of_2_5_percent(hits: int, n: int) -> None:
    share = exact_proportion(hits, n)
    assert (share.rate, share.n) == (hits / n, n)
    assert binomial_tail(hits, n, share.ci[0]) == pytest.approx(0.025)
    assert 1 - binomial_tail(hits + 1, n, share.ci[1]) == pytest.approx(0.025)


def test_the_exact_interval_at_0_and_1() -> None:
    assert exact_proportion(0, 5).ci[0] == 0
    assert exact_proportion(5, 5).ci[1] == 1
    empty = exact_proportion(0, 0)
    assert math.isnan(empty.rate)
    assert empty.reason == "there are no observations"


Answer = tuple[int, int, int]


def release_of(answers: list[tuple[str, Answer, Answer]]) -> Release:
    """Each person's first answer to a question of its own, and the second in table `repeats`."""
    study = [
        Question(preferred, (score_1, score_2), participant=person)
        for person, (score_1, score_2, preferred), _ in answers
    ]
    release = make_release(study)
    first, columns = release.preferences, ["score_1", "score_2", "preferred"]
    repeats = pd.DataFrame([again for _, _, again in answers], columns=columns)
    repeats["repeated_id"] = first["question_id"]
    repeats["question_id"] = first["question_id"] + ".again"
    return replace(release, repeats=repeats, is_checked=True)


def slow_kappa(pairs: list[tuple[int, int]]) -> float:
    """Cohen's weighted kappa, score by score, from the table of counts."""
    levels = range(1, 6)
    observed = expected = 0.0
    n = len(pairs)
    for i in levels:
        for j in levels:
            share = sum(pair == (i, j) for pair in pairs) / n
            by_chance = sum(x == i for x, _ in pairs) * sum(y == j for _, y in pairs) / n**2
            observed += (i - j) ** 2 / 16 * share
            expected += (i - j) ** 2 / 16 * by_chance
    return 1 - observed / expected


def drawn_answers(
    rng: np.random.Generator, n_people: int, n_each: int, same: float
) -> list[tuple[str, Answer, Answer]]:
    answers = []
    for person in range(n_people):
        for _ in range(n_each):
            score_1, score_2, new_1, new_2 = (int(each) for each in rng.integers(1, 6, 4))
            preferred = int(rng.integers(1, 3))
            first = (score_1, score_2, preferred)
            other = (new_1, new_2, 3 - preferred)
            answers.append((f"p{person}", first, first if rng.random() < same else other))
    return answers


def test_equals_the_definition() -> None:
    answers = drawn_answers(np.random.default_rng(1), 5, 8, same=0.6)
    release = release_of(answers)
    result = intra_rater(release, bootstrap_of(release, 50))
    assert (result.n, result.n_participants) == (40, 5)
    same = np.mean([first[2] == again[2] for _, first, again in answers])
    assert result.same_preference.value == pytest.approx(same)
    scores = [(a[side], b[side]) for _, a, b in answers for side in (0, 1)]
    assert result.kappa.value == pytest.approx(slow_kappa(scores))
    assert result.kappa.n == 80
    bootstrap = bootstrap_of(release, 50)
    weights = np.concatenate(list(bootstrap.weights(release.preferences)))[1:].astype(int)
    places = [np.repeat(range(80), np.repeat(row, 2)) for row in weights]
    drawn = [slow_kappa([scores[place] for place in each]) for each in places]
    assert (result.kappa.ci.low, result.kappa.ci.high) == pytest.approx(
        expected_ends(result.kappa.value, drawn, [8] * 5, (-1, 1))
    )


def test_sets_shown_twice_are_repeated_answers_on_whichever_sides() -> None:
    question = Question(1, (5, 2), ("abcde", "fghab"))
    turned = Question(2, (1, 4), ("fghab", "abcde"))
    release = make_release([question, turned, replace(turned, participant="p2")])
    release = replace(
        release,
        sets=release.sets.assign(query_id="q"),
        preferences=release.preferences.assign(query_id="q"),
        queries=pd.DataFrame({"query_id": ["q"], "target_id": [None]}),
    )
    pairs = repeated_answers(release)
    assert len(pairs) == 1
    row = pairs.iloc[0]
    assert [row[name] for name in ("score_1", "score_2", "preferred")] == [5, 2, 1]
    assert [row[f"{name}_again"] for name in ("score_1", "score_2", "preferred")] == [4, 1, 1]


def test_without_repeats_the_columns_are_those_of_repeats() -> None:
    small = make_release([Question(1), Question(2, participant="p2")])
    for release in (small, small.with_categories()):
        none = release.preferences.head(0)
        joined = _side_by_side(release.preferences, none.assign(repeated_id=none["question_id"]))
        pd.testing.assert_frame_equal(repeated_answers(release), joined)


def test_few_repeats_have_a_reason() -> None:
    release = release_of([("p1", (5, 1, 1), (5, 1, 1))])
    result = intra_rater(release, bootstrap_of(release, 5))
    reason = "1 question answered twice by the same person; at least 10 are needed"
    assert (result.same_preference.reason, result.kappa.reason) == (reason, reason)
    empty = make_release([])
    assert intra_rater(empty, bootstrap_of(empty, 5)).n == 0


def test_equal_scores_have_no_kappa() -> None:
    release = release_of([(f"p{n % 3}", (3, 3, 1), (3, 3, 1)) for n in range(12)])
    result = intra_rater(release, bootstrap_of(release, 5))
    assert result.same_preference.value == 1
    assert result.kappa.reason == "all scores are the same"


@pytest.mark.slow
def test_intervals_contain_the_truth() -> None:
    """Of 40 people with four repeated questions each, 70% of the answers are the same again."""
    covered = {"same": 0, "kappa": 0}
    for seed in range(200):
        release = release_of(drawn_answers(np.random.default_rng(seed), 40, 4, same=0.7))
        result = intra_rater(release, Bootstrap.of_release(release, n_resamples=400, seed=seed))
        for name, estimate in (("same", result.same_preference), ("kappa", result.kappa)):
            covered[name] += estimate.ci.low <= 0.7 <= estimate.ci.high
    assert all(0.90 <= count / 200 <= 0.99 for count in covered.values()), covered
