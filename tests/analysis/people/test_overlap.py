from __future__ import annotations

from dataclasses import replace

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.agreement import preference_ratings, score_ratings
from hsfiq.analysis.people.reliability import one_other, others_mean, overlap
from hsfiq.analysis.reports.document import Table
from hsfiq.analysis.reports.people import overlap_section
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
            score
            for other_participant, other_images, score in rows
            if other_participant != person and other_images == images
        ]
        expected = np.mean(other_scores) if other_scores else np.nan
        assert result[str(place)] == pytest.approx(expected, nan_ok=True)


def test_people_beat_an_uninformative_metric_but_not_the_truth(
    overlapping: tuple[Release, pd.Series],
) -> None:
    release, utilities = overlapping
    noise = np.random.default_rng(0).normal(size=len(utilities))
    values = {"oracle": utilities, "noise": pd.Series(noise, index=utilities.index)}
    result = overlap(release, values, bootstrap_of(release, 200))
    assert result.n_sets == len(release.sets)
    people, oracle, blind = (
        result.other_annotator,
        result.metrics["oracle"],
        result.metrics["noise"],
    )
    # One other person is noisy; two of them are less so; what they judge by is not noisy at all.
    everybody = result.other_annotators
    assert everybody is not None
    assert people.spearman.rho < everybody.spearman.rho < oracle.spearman.rho
    assert oracle.spearman.rho <= result.reliability.rho_bound.value + 0.02
    assert blind.tie_half.rate < people.tie_half.rate < oracle.tie_half.rate
    assert blind.spearman.rho + 0.2 < people.spearman.rho < oracle.spearman.rho
    assert people.spearman.ci is not None
    assert people.spearman.ci.low > 0
    assert 0.2 < result.scores.alpha < 0.9
    assert 0.1 < result.preferences.alpha < 0.9


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
        assert prediction.tie_half.reason == (
            "only 4 pairs of sets have been judged by two people; at least 10 are needed"
        )
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
    assert result.scores.reason == "nothing has been judged by two people"
