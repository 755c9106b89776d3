from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.resampling import bootstrap as bootstrap_module
from hsfiq.analysis.resampling.bootstrap import UNITS, Bootstrap, Unit
from tests.analysis.studies import Question, few, make_release, studies

ROWS = pd.DataFrame(
    {
        "participant_id": ["p2", "p1", "p1", "p3", "p2", "p3", "p3"],
        "query_id": ["a", "b", "a", "c", "d", "d", "b"],
    }
)
TRIPLETS = pd.Series({"a": "t1", "b": "t1", "c": "t2"})


def all_weights(bootstrap: Bootstrap, rows: pd.DataFrame = ROWS) -> np.ndarray:
    return np.concatenate(list(bootstrap.weights(rows)))


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


def test_weights_of_participants_and_triplets_multiply() -> None:
    crossed, people, triplets = (
        Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=50)
        for unit in ("participant-triplet", "participant", "triplet")
    )
    weights = all_weights(crossed)
    assert crossed.n_clusters == 3
    by_people = all_weights(people)
    assert (weights[by_people == 0] == 0).all()
    ratio = np.divide(weights, by_people, out=np.full_like(weights, np.nan), where=by_people > 0)
    same_triplet = ratio[:, [0, 1, 2, 6]]
    low, high = np.nanmin(ratio, axis=1), np.nanmax(ratio, axis=1)
    assert (low <= high).all()
    spread = pd.DataFrame(same_triplet).max(axis=1) - pd.DataFrame(same_triplet).min(axis=1)
    assert (spread.dropna() == 0).all()
    assert triplets.n_clusters == 3


def test_resampling_rows_draws_as_many_as_there_are() -> None:
    weights = all_weights(Bootstrap.of_rows(ROWS, unit="row", n_resamples=40))
    assert weights.shape == (40, 7)
    assert (weights.sum(axis=1) == 7).all()


@pytest.mark.parametrize("unit", UNITS)
def test_resamples_depend_neither_on_the_call_nor_on_the_block_size(
    unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=101, seed=3)
    whole = all_weights(bootstrap)
    assert (all_weights(bootstrap) == whole).all()
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
    assert (all_weights(other_seed) != whole).any()


@pytest.mark.parametrize("unit", UNITS)
def test_draws_that_are_kept_are_those_that_are_drawn_again(
    unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=70))
    monkeypatch.setattr(bootstrap_module, "MOST_KEPT", 0)
    assert (all_weights(Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=70)) == kept).all()


@pytest.mark.parametrize("unit", UNITS)
def test_totals_of_several_tables_are_those_of_each(unit: Unit) -> None:
    bootstrap = Bootstrap.of_rows(ROWS, TRIPLETS, unit=unit, n_resamples=30)
    tables = [(ROWS, np.arange(14.0).reshape(7, 2)), (ROWS.iloc[2:5], np.ones((3, 1)))]
    for totals, (rows, columns) in zip(bootstrap.totals_of(tables), tables, strict=True):
        assert totals == pytest.approx(bootstrap.totals(rows, columns))
    assert bootstrap.totals_of([]) == []


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
    bootstrap = Bootstrap.of_rows(ROWS, n_resamples=30)
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
    assert Bootstrap.of_release(plain, unit="triplet").n_clusters == 3
    bootstrap = Bootstrap.of_release(release, unit="triplet", n_resamples=50)
    weights = all_weights(bootstrap, release.preferences)
    assert bootstrap.n_clusters == 2
    assert (weights[:, 0] == weights[:, 2]).all()


def test_unknown_participants_and_invalid_options_are_errors() -> None:
    bootstrap = Bootstrap.of_rows(ROWS)
    with pytest.raises(AnalysisError, match="p9 is in none of the clusters"):
        all_weights(bootstrap, ROWS.replace("p3", "p9"))
    with pytest.raises(AnalysisError, match="no such unit: query"):
        Bootstrap.of_rows(ROWS, unit="query")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="unknown: bca"):
        Bootstrap.of_rows(ROWS, correction="bca")  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="0 is too few"):
        Bootstrap.of_rows(ROWS, n_resamples=0)
