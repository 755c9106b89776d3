"""Agreement of each participant with the others, raw and shrunk."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people.participants import participants
from hsfiq.analysis.people.reliability import participant_reliability, shrunk, variance_between
from tests.analysis import reference


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


@pytest.mark.parametrize("spread", [0.0, 0.15, 0.4])
def test_shrunk_intervals_contain_the_truth(spread: float) -> None:
    """Over 200 groups of 24 people whose true correlations of 60 rows vary by so much."""
    rng = np.random.default_rng(3)
    covered = closer = 0.0
    for _ in range(200):
        truth = np.tanh(rng.normal(0.5, spread, 24))
        x = rng.normal(size=(24, 60))
        y = truth[:, None] * x + np.sqrt(1 - truth[:, None] ** 2) * rng.normal(size=x.shape)
        ranks = [each.argsort(axis=1).argsort(axis=1) for each in (x, y)]
        raw = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(*ranks, strict=True)])
        # Spearman's rho of normal variables with correlation r
        truth = 6 / np.pi * np.arcsin(truth / 2)
        value, low, high = shrunk(raw, np.full(24, 60.0)).T
        covered += float(((low <= truth) & (truth <= high)).mean())
        closer += float(((value - truth) ** 2).mean() < ((raw - truth) ** 2).mean())
    assert 0.92 <= covered / 200 <= (0.99 if spread else 1)  # too long if people are all the same
    assert closer / 200 > 0.6


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


def test_people_are_judged_by_people_not_by_a_metric(
    overlapping: tuple[Release, pd.Series],
) -> None:
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
