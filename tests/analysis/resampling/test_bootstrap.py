from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling import bootstrap as bootstrap_module
from hsfiq.analysis.resampling.bootstrap import UNITS, Bootstrap, Unit, errors_of_mean
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, few, make_release, studies

ROWS = pd.DataFrame(
    {
        "participant_id": ["p2", "p1", "p1", "p3", "p2", "p3", "p3"],
        "query_id": ["a", "b", "a", "c", "d", "d", "b"],
    }
)
TRIPLETS = pd.Series({"a": "t1", "b": "t1", "c": "t2"})


def all_weights(bootstrap: Bootstrap, rows: pd.DataFrame = ROWS) -> np.ndarray:
    """The weights of all resamples, after those of the rows as they are."""
    weights = np.concatenate(list(bootstrap.weights(rows)))
    assert (weights[0] == 1).all()
    assert len(weights) == bootstrap.length
    return weights[1:]


@pytest.mark.parametrize("unit", ["participant", "triplet"])
def test_rows_of_a_cluster_are_drawn_together(unit: Unit) -> None:
    weights = all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=300))
    names = ROWS["participant_id"] if unit == "participant" else ROWS["query_id"]
    clusters = names.map(TRIPLETS).fillna(names) if unit == "triplet" else names
    first = [int(np.flatnonzero(clusters == name)[0]) for name in sorted(set(clusters))]
    assert (weights == weights[:, [list(clusters).index(name) for name in clusters]]).all()
    assert (weights[:, first].sum(axis=1) == len(first)).all()
    assert weights[:, first].mean(axis=0) == pytest.approx(1, abs=0.15)
    assert weights[:, first].var(axis=0) == pytest.approx(1 - 1 / len(first), abs=0.2)


def test_the_two_way_bootstrap_resamples_participants_triplets_and_their_pairs() -> None:
    both = Bootstrap.of_rows(ROWS, TRIPLETS, unit="participant-triplet", n_resamples=200)
    people = all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit="participant", n_resamples=200))
    by_people, by_triplet, by_pair = np.split(all_weights(both), 3)
    assert (by_people == people).all()
    assert both.n_clusters_of(None) == 3
    for weights, clusters in (
        (by_triplet, ["t1", "t1", "t1", "t2", "d", "d", "t1"]),
        (by_pair, ["p2t1", "p1t1", "p1t1", "p3t2", "p2d", "p3d", "p3t1"]),
    ):
        distinct = sorted(set(clusters))
        first = [clusters.index(name) for name in distinct]
        assert (weights == weights[:, [clusters.index(name) for name in clusters]]).all()
        assert (weights[:, first].sum(axis=1) == len(first)).all()
        correlations = np.corrcoef(weights[:, first].T) - np.eye(len(first))
        assert correlations.max() < 0.3  # no two clusters are drawn together


def test_the_default_resamples_triplets_too_if_participants_share_them() -> None:
    assert Bootstrap.of_rows(ROWS).unit == "participant-triplet"
    assert Bootstrap.of_rows(ROWS.assign(query_id=list("abcdefg"))).unit == "participant"
    of_one_triplet = pd.Series({"a": "t", "b": "t", "c": "t", "d": "u"})
    apart = pd.DataFrame({"participant_id": ["p", "p", "q"], "query_id": ["a", "b", "d"]})
    assert Bootstrap.of_rows(apart, of_one_triplet).unit == "participant"
    shared = apart.assign(query_id=["a", "d", "c"])
    assert Bootstrap.of_rows(shared, of_one_triplet).unit == "participant-triplet"


def test_many_triplets_are_resampled_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number % 5}" for number in range(30)],
            "query_id": [f"q{number // 2}" for number in range(30)],
        }
    )
    errors = errors_of_mean(np.arange(30.0) ** 2, np.ones(30))
    exact = Bootstrap.of_rows(rows, n_resamples=1).mean_spread(rows, errors)
    monkeypatch.setattr(bootstrap_module, "MOST_GROUPS", 4)
    bootstrap = Bootstrap.of_rows(rows, n_resamples=50)
    _, by_triplet, by_pair = np.split(all_weights(bootstrap, rows), 3)
    assert len(np.unique(by_triplet, axis=1).T) <= 4
    assert len(np.unique(by_pair, axis=1).T) <= 4
    assert (by_triplet[:, ::2] == by_triplet[:, 1::2]).all()
    assert bootstrap.n_clusters_of(rows) == 5
    assert bootstrap.mean_spread(rows, errors) == exact
    assert [len(part.sizes_of(rows)) for part in bootstrap.parts] == [5, 15, 30]


@pytest.mark.parametrize("n_people", [6, 25])
def test_the_two_way_variance_of_a_mean_is_that_of_statsmodels(n_people: int) -> None:
    """Within the error of the resamples, and of the small-sample factors G / (G - 1)."""
    rng = np.random.default_rng(0)
    people, queries = (np.arange(n_people * 20) // 20, np.arange(n_people * 20) % 20)
    values = rng.normal(size=n_people)[people] + rng.normal(size=20)[queries]
    values += rng.normal(size=len(values))
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number:02}" for number in people],
            "query_id": [f"q{number:02}" for number in queries],
        }
    )
    bootstrap = Bootstrap.of_rows(rows, n_resamples=4000)
    means = bootstrap.ratios(rows, values[:, None], np.ones((len(rows), 1)))[:, 0]
    assert means[0] == pytest.approx(values.mean())
    spread = bootstrap.spread(means, rows)
    variances = [
        float(
            OLS(values, np.ones(len(values)))
            .fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
            .cov_params()[0, 0]
        )
        for groups in (people, queries, people * 20 + queries)
    ]
    exact = bootstrap.mean_spread(rows, errors_of_mean(values, np.ones(len(values))))
    by_people, by_query = variances[0] * n_people / (n_people - 1), variances[1] * 20 / 19
    assert spread.variance == pytest.approx(by_people + by_query - variances[2], rel=0.06)
    by_pair = variances[2] * len(rows) / (len(rows) - 1)
    assert exact.variance == pytest.approx(by_people + by_query - by_pair, rel=1e-9)
    assert n_people - 1 <= spread.df <= n_people + 20 - 2
    interval = bootstrap.interval(means, rows)
    assert interval.n_resamples == 4000
    half = stats.t.ppf(0.975, spread.df) * spread.variance**0.5
    assert (interval.low, interval.high) == pytest.approx((means[0] - half, means[0] + half))
    assert bootstrap.p(means, rows, interval.low) == pytest.approx(0.05)


def test_very_few_clusters_have_students_interval() -> None:
    """For a mean over clusters of one size it is Student's interval of the clusters' means."""
    rows = ROWS.iloc[[0, 1, 3]]
    values = np.array([1.0, 2.0, 4.0])
    bootstrap = Bootstrap.of_rows(rows, unit="participant", n_resamples=20_000)
    means = bootstrap.ratios(rows, values[:, None], np.ones((3, 1)))[:, 0]
    interval = bootstrap.interval(means, rows)
    low, high = stats.t.interval(0.95, 2, values.mean(), values.std(ddof=1) / 3**0.5)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=0.03)
    assert interval.df == 2
    assert "only 3 clusters" in str(interval.note)


@pytest.mark.parametrize("unit", UNITS)
def test_resamples_depend_neither_on_the_call_nor_on_the_block_size(
    unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=101, seed=3)
    whole = np.concatenate(list(bootstrap.weights(ROWS)))
    assert (all_weights(bootstrap) == whole[1:]).all()
    columns = np.arange(14.0).reshape(7, 2)
    sums = bootstrap.totals(ROWS, columns)
    assert sums == pytest.approx(whole @ columns)
    for size in (1, 40, 200):
        monkeypatch.setattr(bootstrap_module, "BLOCK_SIZE", size)
        blocks = list(bootstrap.weights(ROWS))
        assert len(blocks) > 2
        assert (np.concatenate(blocks) == whole).all()
        assert bootstrap.totals(ROWS, columns) == pytest.approx(sums)
    other_seed = Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=101, seed=4)
    assert (all_weights(other_seed) != whole[1:]).any()


@pytest.mark.parametrize("unit", UNITS)
def test_draws_that_are_kept_equal_new_draws(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=70))
    monkeypatch.setattr(bootstrap_module, "MOST_KEPT", 0)
    assert (all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=70)) == kept).all()


@pytest.mark.parametrize("unit", ["participant", "triplet"])
def test_many_clusters_are_resampled_in_groups(monkeypatch: pytest.MonkeyPatch, unit: Unit) -> None:
    monkeypatch.setattr(bootstrap_module, "MOST_ALONE", 4)
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number // 2}" for number in range(24)],
            "query_id": [f"q{number // 2}" for number in range(24)],
        }
    )
    bootstrap = Bootstrap.of_rows(rows, unit=unit, n_resamples=200)
    weights = all_weights(bootstrap, rows)
    groups = np.unique(weights, axis=1, return_inverse=True)[1]
    assert np.bincount(groups).tolist() == [6, 6, 6, 6]  # three clusters of two rows each
    assert (groups[::2] == groups[1::2]).all()
    assert (weights[1:].sum(axis=1) == 24).all()
    assert bootstrap.n_clusters_of(rows) == 12


@pytest.mark.parametrize("unit", ["participant", "triplet", "participant-triplet"])
def test_the_order_of_the_rows_does_not_matter(unit: Unit) -> None:
    order = [4, 2, 6, 0, 1, 5, 3]
    weights = all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=60))
    permuted = ROWS.iloc[order]
    permuted_weights = all_weights(
        Bootstrap.of_rows(permuted, TRIPLETS, unit=unit, n_resamples=60), permuted
    )
    assert (permuted_weights == weights[:, order]).all()


def test_a_subset_of_rows_has_the_same_weights() -> None:
    bootstrap = Bootstrap.of_rows(ROWS, unit="participant", n_resamples=30)
    subset = ROWS.iloc[[1, 5]]
    assert (all_weights(bootstrap, subset) == all_weights(bootstrap)[:, [1, 5]]).all()
    assert bootstrap.n_clusters_of(subset) == 2
    assert bootstrap.n_clusters_of(subset.iloc[:0]) == 0


@few
@given(studies, st.sampled_from(UNITS))
def test_a_release_and_its_sets_have_the_same_resamples(study: list[Question], unit: Unit) -> None:
    release = make_release(study)
    bootstrap = Bootstrap.of_release(release, unit=unit, n_resamples=20)
    answers, sets = (all_weights(bootstrap, rows) for rows in (release.preferences, release.sets))
    if unit != "row":
        assert (np.repeat(answers, 2, axis=1) == sets).all()
    else:
        assert (answers.sum(axis=1) == len(study)).all()


def test_queries_of_one_triplet_are_one_cluster() -> None:
    plain = make_release([Question(1), Question(2), Question(1)])
    queries = plain.queries.assign(triplet_id=["t1", "t2", "t1"])
    release = Release(**{**vars(plain), "queries": queries})
    assert Bootstrap.of_release(plain, unit="triplet").n_clusters_of(None) == 3
    bootstrap = Bootstrap.of_release(release, unit="triplet", n_resamples=50)
    weights = all_weights(bootstrap, release.preferences)
    assert bootstrap.n_clusters_of(None) == 2
    assert (weights[:, 0] == weights[:, 2]).all()


def test_unknown_participants_and_invalid_options_are_errors() -> None:
    bootstrap = Bootstrap.of_rows(ROWS)
    with pytest.raises(UnreadableInput, match="p9 belongs to no cluster"):
        all_weights(bootstrap, ROWS.replace("p3", "p9"))
    with pytest.raises(UnreadableInput, match="no such unit: query"):
        Bootstrap.of_rows(ROWS, unit="query")  # type: ignore[arg-type]
    with pytest.raises(UnreadableInput, match="0 is too few"):
        Bootstrap.of_rows(ROWS, n_resamples=0)
