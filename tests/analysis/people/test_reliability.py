"""Reliability: overlap, each participant's agreement, ICC(1) and the upper bound of a metric."""

from __future__ import annotations

import math
from dataclasses import replace

import krippendorff
import numpy as np
import pandas as pd
import pingouin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.agreement import preference_ratings, score_ratings, two_way_variance
from hsfiq.analysis.people.participants import participants
from hsfiq.analysis.people.reliability import (
    attenuation_bound,
    icc1,
    log_mean_squares,
    one_other,
    others_mean,
    overlap,
    participant_reliability,
    reliability,
    shrunk,
    spearman_brown,
    unit_terms,
    variance_between,
)
from hsfiq.analysis.reports.document import Table
from hsfiq.analysis.reports.people import overlap_section
from tests.analysis import reference
from tests.analysis.studies import Question, bootstrap_of, few, make_release

judged = st.tuples(st.sampled_from("pqr"), st.sampled_from("xyz"), st.integers(1, 5))


@few
@given(st.lists(judged, max_size=15))
def test_the_mean_of_the_others_excludes_the_participant(rows: list[tuple[str, str, int]]) -> None:
    sets = pd.DataFrame(
        {
            "set_id": [str(place) for place in range(len(rows))],
            "participant_id": [person for person, _, _ in rows],
            "query_id": "q",
            "image_ids": [[images] for _, images, _ in rows],
            "score": np.array([score for _, _, score in rows], dtype=np.int64),
        }
    )
    result = others_mean(sets, set_units(sets, pd.Series({"q": "t"})))
    of_next_person = one_other(sets, set_units(sets, pd.Series({"q": "t"})))
    for place, (person, images, _) in enumerate(rows):
        first_scores: dict[str, int] = {}
        for other_participant, other_images, score in rows:
            if other_images == images:
                first_scores.setdefault(other_participant, score)
        names = sorted(first_scores)
        following = names[(names.index(person) + 1) % len(names)]
        expected_one = first_scores[following] if following != person else np.nan
        assert of_next_person[str(place)] == pytest.approx(expected_one, nan_ok=True)
        other_scores = [
            score for other, shown, score in rows if other != person and shown == images
        ]
        expected = np.mean(other_scores) if other_scores else np.nan
        assert result[str(place)] == pytest.approx(expected, nan_ok=True)


def test_people_beat_a_blind_metric_but_not_the_truth(
    overlapping: tuple[Release, pd.Series],
) -> None:
    release, utilities = overlapping
    noise = np.random.default_rng(0).normal(size=len(utilities))
    values = {"oracle": utilities, "noise": pd.Series(noise, index=utilities.index)}
    result = overlap(release, values, bootstrap_of(release, 200))
    assert result.n_sets == len(release.sets)
    people, oracle, blind = result.other_annotator, *result.metrics.values()
    # One other person is noisy; two of them are less so; what they judge by is not noisy at all.
    everybody = result.other_annotators
    assert people.spearman.rho < everybody.spearman.rho < oracle.spearman.rho
    assert oracle.spearman.rho <= result.reliability.rho_bound.value + 0.02
    assert blind.tie_half.rate < people.tie_half.rate < oracle.tie_half.rate
    assert blind.spearman.rho + 0.2 < people.spearman.rho < oracle.spearman.rho
    assert people.spearman.ci.low > 0
    assert 0.2 < result.scores.alpha < 0.9
    assert 0.1 < result.preferences.alpha < 0.9
    assert 0.2 < result.kappa["scores"].value < 0.9
    assert result.kappa["preferences"].value == pytest.approx(result.preferences.alpha, abs=0.05)


def test_alphas_are_krippendorffs(overlapping: tuple[Release, pd.Series]) -> None:
    release, _ = overlapping
    units, triplets = set_units(release.sets, release.triplets), release.triplets
    result = overlap(release, {}, bootstrap_of(release, 5))
    for ratings, level, alpha in (
        (score_ratings(release.sets, units, triplets), "ordinal", result.scores.alpha),
        (
            preference_ratings(release.preferences, units, triplets),
            "nominal",
            result.preferences.alpha,
        ),
    ):
        table = ratings.pivot_table(index="rater", columns="unit", values="value").to_numpy()
        theirs = krippendorff.alpha(table, level_of_measurement=level)
        assert alpha == pytest.approx(theirs)


def test_metrics_are_measured_on_the_same_sets_only() -> None:
    repeated = Question(1, (5, 1), ("abc", "def"))
    other = Question(2, (1, 5), ("fed", "cba"))
    release = of_triplets([repeated, replace(repeated, participant="p2"), other], n_triplets=10)
    values = pd.Series([1.0, 0.0] * 30, index=release.sets["set_id"].to_numpy())
    result = overlap(release, {"m": values}, bootstrap_of(release, 5))
    assert result.n_sets == 40
    assert result.other_annotator.tie_half.rate == result.metrics["m"].tie_half.rate == 1
    assert (result.other_annotator.tie_half.n, result.metrics["m"].tie_half.n) == (20, 20)


def test_the_captions_in_the_other_order_ask_about_the_same_set() -> None:
    """As in the published answers: two queries of one triplet, and the same images."""
    question = Question(1, (5, 1), ("abc", "def"))
    release = of_triplets([question, replace(question, participant="p2")], n_triplets=10)
    joined_otherwise = release.queries.assign(query_id=release.queries["query_id"] + "~")
    queries = pd.concat([release.queries, joined_otherwise])
    tables = {
        name: table.assign(
            query_id=table["query_id"] + np.where(table["participant_id"] == "p2", "~", "")
        )
        for name, table in (("sets", release.sets), ("preferences", release.preferences))
    }
    result = overlap(replace(release, queries=queries, **tables), {}, bootstrap_of(release, 5))
    assert (result.scores.n_units, result.scores.n_ratings) == (20, 40)
    assert result.other_annotator.tie_half.rate == 1


def test_fewer_than_ten_shared_sets_give_no_figure() -> None:
    question = Question(1, (5, 1), ("abc", "def"))
    release = of_triplets([question, replace(question, participant="p2")], n_triplets=4)
    values = pd.Series([1.0, 0.0] * 8, index=release.sets["set_id"].to_numpy())
    result = overlap(release, {"m": values}, bootstrap_of(release, 5))
    assert result.reliability.rho_bound.reason == result.scores.reason
    reason = "only 8 things have been judged by two people; at least 10 are needed"
    for prediction in (result.other_annotator, result.metrics["m"]):
        assert (prediction.spearman.reason, prediction.spearman.ci) == (reason, None)
        assert str(prediction.tie_half.reason).startswith("only 4 pairs of sets")
        assert prediction.tie_half.ci is None
    assert result.scores.reason == reason
    assert np.isnan(result.scores.alpha)


def of_triplets(study: list[Question], n_triplets: int) -> Release:
    """The same questions about each of several triplets, with one query each."""
    release = make_release(study * n_triplets)
    triplets = [f"t{n}" for n in range(n_triplets)]
    queries = pd.DataFrame({"query_id": triplets, "triplet_id": triplets, "target_id": None})
    by_question = np.repeat(triplets, len(study))
    return replace(
        release,
        preferences=release.preferences.assign(query_id=by_question),
        sets=release.sets.assign(query_id=np.repeat(by_question, 2)),
        queries=queries,
    )


def test_swapped_sides_are_the_same_pair() -> None:
    study = [
        Question(1, (5, 1), ("abc", "def")),
        Question(2, (1, 5), ("def", "abc"), participant="p2"),
        Question(0, (3, 3), ("def", "abc"), participant="p3"),
    ]
    release = make_release(study)
    release.sets["query_id"] = "q"
    triplets = pd.Series({"q": "t"})
    units = set_units(release.sets, triplets)
    ratings = preference_ratings(release.preferences, units, triplets)
    assert ratings["unit"].nunique() == 1
    assert ratings["value"].tolist() == [1, 1, 0]


def test_identical_sets_are_left_out_of_the_preferences_and_counted() -> None:
    study = [
        Question(1, (5, 1), ("abc", "def"), participant="p1"),
        Question(2, (5, 1), ("abc", "def"), participant="p2"),
        Question(1, (3, 3), ("abc", "abc"), participant="p1"),
        Question(2, (3, 3), ("abc", "abc"), participant="p2"),
    ]
    release = make_release(study)
    release.sets["query_id"] = release.preferences["query_id"] = "q"
    result = overlap(release, {}, bootstrap_of(release, 5))
    assert result.n_identical == 2
    assert (result.preferences.n_units, result.preferences.n_ratings) == (1, 2)
    tables = [block for block in overlap_section(result).blocks if isinstance(block, Table)]
    notes = {table.name: table.note for table in tables}
    assert notes["alpha"] == "Preferences: without 2 questions with two identical sets."


@pytest.mark.parametrize("study", [[], [Question(1)], [Question(1), Question(2)]])
def test_nothing_judged_twice_gives_reasons(study: list[Question]) -> None:
    release = make_release(study)
    result = overlap(release, {}, bootstrap_of(release, 5))
    assert result.n_sets == 0
    assert result.other_annotator.spearman.reason is not None
    assert result.other_annotator.tie_half.reason is not None
    assert result.scores.reason == "no unit has been judged by two people"
    assert result.kappa["scores"].reason == "no unit has been judged by two people"


def test_equals_the_definition(overlapping: tuple[Release, pd.Series]) -> None:
    release, _ = overlapping
    units = set_units(release.sets, release.triplets)
    table = participant_reliability(release.sets, units)
    for person in table.index[:4]:
        own, others = [], []
        for row in release.sets[release.sets["participant_id"] == person].itertuples():
            same = units[units == units[row.set_id]].index.difference([row.set_id])
            scores = release.sets.set_index("set_id").loc[same, "score"]
            own.append(float(row.score))
            others.append(float(scores.mean()))
        assert table.loc[person, "n_shared"] == len(own)
        assert table.loc[person, "with_others"] == pytest.approx(reference.spearman(own, others))
    assert table["reliability"].std() < table["with_others"].std()
    assert (table["reliability_low"] < table["reliability"]).all()
    assert (table["reliability"] < table["reliability_high"]).all()


def test_shrinking_equals_morris_formula() -> None:
    rhos, n = [0.2, 0.5, 0.6, 0.1, 0.7, 0.4], [20.0, 40.0, 60.0, 30.0, 25.0, 50.0]
    result = shrunk(np.array(rhos), np.array(n))
    m = len(rhos)
    z = [math.atanh(rho) for rho in rhos]
    v = [(1 + (sum(rhos) / m) ** 2 / 2) / (size - 3) for size in n]
    w = [1 / each for each in v]
    fixed = sum(a * b for a, b in zip(w, z, strict=True)) / sum(w)
    q = sum(a * (b - fixed) ** 2 for a, b in zip(w, z, strict=True))
    between = max(0.0, (q - (m - 1)) / (sum(w) - sum(a * a for a in w) / sum(w)))
    assert variance_between(np.array(z), np.array(v)) == pytest.approx(between)
    w = [1 / (each + between) for each in v]
    mean = sum(a * b for a, b in zip(w, z, strict=True)) / sum(w)
    for place in range(m):
        share = (m - 3) / (m - 1) * v[place] / (v[place] + between)
        centre = z[place] + share * (mean - z[place])
        variance = v[place] * (1 - (m - 1) / m * share)
        variance += 2 / (m - 3) * share**2 * (z[place] - mean) ** 2
        half = 1.959963984540054 * math.sqrt(variance)
        expected = [math.tanh(each) for each in (centre, centre - half, centre + half)]
        assert result[place] == pytest.approx(expected)


def test_the_variance_between_people_is_never_negative() -> None:
    assert variance_between(np.array([0.3, 0.3, 0.3]), np.array([0.1, 0.2, 0.1])) == 0.0


def test_few_shared_sets_or_few_people_give_no_figure(
    drawn: tuple[Release, pd.Series], overlapping: tuple[Release, pd.Series]
) -> None:
    alone = participants(drawn[0], {})
    assert alone.table["with_others"].isna().all()
    assert alone.n_with_others == 0
    (first, *_) = alone.to_json()["participants"].values()
    assert first["with_others"] is first["reliability"] is None
    assert "others judged fewer than 10 of the participant's sets" in first["reason"]
    group = overlapping[0].preferences["participant_id"].isin(["simulated-01", "simulated-02"])
    two = participants(overlapping[0].subset(group), {}).table
    assert two["with_others"].notna().all()
    assert two["reliability"].isna().all()


def test_people_are_judged_by_people_not_by_metric(overlapping: tuple[Release, pd.Series]) -> None:
    """One person scores the other way round than people, another than a metric."""
    release, utilities = overlapping
    rng = np.random.default_rng(1)
    worth = release.sets["set_id"].map(utilities).rank(pct=True).to_numpy()
    careful = np.clip(np.rint(5 * worth + rng.normal(0.5, 0.7, len(worth))), 1, 5).astype(int)
    is_reversed = release.sets["participant_id"] == "simulated-05"
    scores = np.where(is_reversed, 6 - careful, careful)
    disturbed = replace(release, sets=release.sets.assign(score=scores))
    own = release.sets.set_index("set_id")["participant_id"].reindex(utilities.index)
    metric = utilities.where(own != "simulated-11", -utilities)
    result = participants(disturbed, {"metric": metric})
    named = {(outlier.participant, outlier.figure) for outlier in result.outliers}
    assert ("simulated-05", "with_others") in named
    assert "simulated-11" not in {person for person, _ in named}
    lowest = result.by_metric["metric"]["rho"].nsmallest(2)
    assert set(lowest.index) == {"simulated-05", "simulated-11"}
    assert not any("metric" in figure for _, figure in named)


def simulated(
    rng: np.random.Generator, n_groups: int, n_triplets: int, n_raters: int
) -> pd.DataFrame:
    """Groups of raters, each of which scores two sets of each of its own triplets.

    A score is what the set deserves, the rater's offset and noise, of variances 0.64, 0.16, 0.8.
    """
    size = (n_groups, n_triplets, 2, n_raters)
    group, triplet, place, rater = (axis.ravel() for axis in np.indices(size))
    worth = rng.normal(0, 0.8, size[:3])[group, triplet, place]
    offset = rng.normal(0, 0.4, (n_groups, n_raters))[group, rater]
    return pd.DataFrame(
        {
            "rater": group * n_raters + rater,
            "unit": (group * n_triplets + triplet) * 2 + place,
            "cluster": group * n_triplets + triplet,
            "value": worth + offset + rng.normal(0, math.sqrt(0.8), len(worth)),
        }
    )


TRUE_ICC = 0.64 / (0.64 + 0.16 + 0.8)


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("n_raters", [2, 3, 5])
def test_equals_pingouin_for_balanced_ratings(n_raters: int) -> None:
    table = simulated(np.random.default_rng(n_raters), 2, 10, n_raters).round()
    renumbered = table.assign(rater=table["rater"] % n_raters)
    theirs = pingouin.intraclass_corr(renumbered, "unit", "rater", "value").set_index("Type")["ICC"]
    result = reliability(table)
    assert result.single.value == pytest.approx(theirs["ICC(1,1)"])
    assert result.means[n_raters - 1].reliability.value == pytest.approx(theirs["ICC(1,k)"])
    ranked = renumbered.assign(value=renumbered["value"].rank())
    of_ranks = pingouin.intraclass_corr(ranked, "unit", "rater", "value").set_index("Type")["ICC"]
    assert result.rho_bound.value == pytest.approx(math.sqrt(of_ranks["ICC(1,1)"]))


def slow_icc1(units: list[list[float]]) -> float:
    """By the sums of squared deviations."""
    values = [value for unit in units for value in unit]
    n, mean = len(values), np.mean(values)
    between = sum(len(unit) * (np.mean(unit) - mean) ** 2 for unit in units) / (len(units) - 1)
    within = sum((value - np.mean(unit)) ** 2 for unit in units for value in unit)
    within /= n - len(units)
    size = (n - sum(len(unit) ** 2 for unit in units) / n) / (len(units) - 1)
    return float((between - within) / (between + (size - 1) * within))


@few
@given(st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=4), min_size=10, max_size=14))
def test_equals_the_definition_for_unequal_numbers_of_raters(units: list[list[int]]) -> None:
    rows = [
        (rater, unit, unit // 2, value)
        for unit, values in enumerate(units)
        for rater, value in enumerate(values)
    ]
    table = pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"])
    result = icc1(table)
    if len({value for unit in units for value in unit}) == 1:
        assert result.reason == "all scores are the same"
    else:
        assert result.value == pytest.approx(slow_icc1([[float(v) for v in u] for u in units]))


def test_no_interval_if_all_disagreement_is_about_one_unit() -> None:
    units = [[1, 1, 1], [1, 1, 4], *[[1, 1]] * 8]
    rows = [
        (rater, unit, unit // 2, value)
        for unit, values in enumerate(units)
        for rater, value in enumerate(values)
    ]
    result = icc1(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"]))
    assert result.value == pytest.approx(slow_icc1([[float(v) for v in u] for u in units]))
    assert math.isnan(result.ci.low)
    assert result.ci.reason is not None


def test_the_variance_counts_units_that_share_a_triplet_or_a_rater() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        [
            (rater, unit, unit // 3, (unit // 3) ** 2 + float(rng.normal()))
            for unit in range(30)
            for rater in rng.choice(60, int(rng.integers(2, 5)), replace=False)
        ],
        columns=["rater", "unit", "cluster", "value"],
    )
    terms = unit_terms(table)
    total = terms.sum(axis=0)
    influences = log_mean_squares(total[None]) - log_mean_squares(total - terms)
    raters = [set(rows["rater"]) for _, rows in table.groupby("unit")]
    expected = 0.0
    for first in range(30):
        for second in range(30):
            if first // 3 == second // 3 or raters[first] & raters[second]:
                expected += influences[first] * influences[second]
    assert expected > (influences**2).sum()
    assert two_way_variance(table, influences) == pytest.approx(expected)


def test_spearman_brown_and_the_bound() -> None:
    assert spearman_brown(0.5, 3) == pytest.approx(0.75)
    assert spearman_brown(-0.1, 3) == -0.1
    assert attenuation_bound(0.25) == 0.5
    assert attenuation_bound(-0.1) == 0.0
    result = reliability(simulated(np.random.default_rng(0), 1, 300, 5))
    assert [mean.n_raters for mean in result.means] == [1, 2, 3, 4, 5]
    for mean in result.means:
        expected = spearman_brown(result.single.value, mean.n_raters)
        assert mean.reliability.value == pytest.approx(expected)
        assert mean.bound.value == pytest.approx(math.sqrt(expected))
        assert mean.bound.ci.low == pytest.approx(math.sqrt(mean.reliability.ci.low))


@pytest.mark.parametrize(("rows", "reason"), [
    ([], "no unit has been judged by two people"),
    ([(r, u, u, r + u) for r in (0, 1) for u in range(9)], "only 9 things have been judged"),
    ([(r, u, u, 3) for r in (0, 1) for u in range(10)], "all scores are the same"),
])  # fmt: skip
def test_undefined_is_nan_with_its_reason(rows: list[tuple[int, ...]], reason: str) -> None:
    result = reliability(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"]))
    for estimate in (result.rho_bound, *(each.bound for each in result.means), result.single):
        assert math.isnan(estimate.value)
        assert estimate.reason.startswith(reason)
        assert estimate.ci is None


@pytest.mark.parametrize(("rows", "reason"), [
    ([(r, u, u, u) for r in range(4) for u in range(10)], "agree completely"),
    ([(r, u, u, r + u) for r in (0, 1) for u in range(10)], "needs 3 triplets and participants"),
])  # fmt: skip
def test_an_undefined_interval_has_a_reason(rows: list[tuple[int, ...]], reason: str) -> None:
    single = reliability(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"])).single
    assert not math.isnan(single.value)
    assert math.isnan(single.ci.low)
    assert reason in str(single.ci.reason)


@pytest.mark.slow
@pytest.mark.parametrize("design", [(8, 30, 3), (8, 30, 2), (1, 30, 10), (20, 5, 2)])
def test_intervals_contain_the_truth(design: tuple[int, int, int]) -> None:
    """Over 100 studies each; the interval assumes neither that sets nor that people are fixed."""
    covered = 0
    for seed in range(100):
        single = reliability(simulated(np.random.default_rng((seed, *design)), *design)).single
        covered += single.ci.low <= TRUE_ICC <= single.ci.high
    assert 0.90 <= covered / 100 <= 0.995
