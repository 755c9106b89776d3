"""Correlations within queries against scipy, query by query, and their tests against loops."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.permutation import Swaps, grouped_test
from hsfiq.analysis.statistics.correlation import (
    NO_CORRELATION,
    NO_GROUP,
    WithinQuery,
    within_query,
)
from tests.analysis.studies import Question, make_release, values_of

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
        assert each.spearman.ci is not None
        assert each.spearman.ci.low < each.spearman.value < each.spearman.ci.high
    assert within.unit == ("participant" if overlap == 1 else "triplet")
    assert within.metrics["second"].mean_sets == pytest.approx(np.mean(widths))


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
