"""Whether a judge agrees with people as well as people agree with each other.

Only pairs of sets that several people judged count (see `preference_ratings`). Each answer is
compared with the answers of the others: once the person's own, once the judge's. Two preferences
agree fully, 1, not at all, 0, or by one half if one of them alone is a tie. The mean difference
over all answers has one interval, that of `agreement.two_way_interval`, for which answers about one
triplet or by one person are dependent. It is not the alternative annotator test (Calderon, Reichart
and Dror 2025), which tests every annotator alone and whose epsilon is not this margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Literal

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import looked_up, metric_difference
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.people import agreement
from hsfiq.analysis.resampling.bootstrap import ratio
from hsfiq.analysis.resampling.intervals import ConfidenceInterval

MARGIN = 0.1
"""The amount by which a judge may agree less, on average, and still count as good as people."""
Verdict = Literal["better than people", "as well as people", "less well than people", "undecided"]

VALUES = (1, 0, 2)
"""The first set is preferred, a tie, the second set is preferred."""
AGREEMENT = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
"""Of two values, in the order of `VALUES`."""


@dataclass(frozen=True)
class AgreementWithPeople(JsonRecord):
    """The agreement of a judge, and of people, with the answers of others.

    Attributes:
        judge, people: the mean agreement of the judge, and of each person, with the others.
        difference: judge minus people; `ci` is its interval.
        n: the answers that are compared with others; `n_pairs` different pairs of sets.
    """

    judge: float
    people: float
    difference: float
    n: int
    n_pairs: int
    n_participants: int
    ci: ConfidenceInterval | None = None
    reason: str | None = None

    @property
    def verdict(self) -> Verdict:
        if self.ci is None or isnan(self.ci.low):
            return "undecided"
        if self.ci.low > 0:
            return "better than people"
        if self.ci.low > -MARGIN:
            return "as well as people"
        return "less well than people" if self.ci.high < 0 else "undecided"

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "verdict": self.verdict, "margin": MARGIN}


@dataclass(frozen=True)
class JudgeAgreement(JsonRecord):
    """The agreement over all questions, and by category if there are several."""

    overall: AgreementWithPeople
    by_category: Mapping[str, AgreementWithPeople] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {**self.overall.to_json(), "by_category": json_value(self.by_category)}

    @property
    def parts(self) -> dict[str, AgreementWithPeople]:
        return {"all": self.overall, **self.by_category}


def judge_agreement(release: Release, values: pd.Series[float]) -> JudgeAgreement:
    """Compare a judge, whose values are indexed by set_id, with people.

    Questions where the judge lacks a value or the two sets are identical are left out. Figures are
    NaN, with a reason, with fewer than `MIN_UNITS` pairs of sets that two people judged.
    """
    preferences = release.preferences
    overall = _compare(release, preferences, values)
    if "category" not in release.queries:
        return JudgeAgreement(overall)
    category_of = release.queries.set_index("query_id")["category"]
    category = looked_up(preferences["query_id"], category_of)
    names = sorted(category.dropna().unique())
    if len(names) < 2:
        return JudgeAgreement(overall)
    return JudgeAgreement(
        overall,
        {
            str(name): _compare(release, preferences[(category == name).to_numpy()], values)
            for name in names
        },
    )


def _compare(
    release: Release, preferences: pd.DataFrame, values: pd.Series[float]
) -> AgreementWithPeople:
    difference = metric_difference(preferences, values).to_numpy(dtype=np.float64)
    known = ~np.isnan(difference)
    rows, difference = preferences[known], difference[known]
    preferred = np.select([difference > 0, difference < 0], [1, 2], 0)
    people = agreement.preference_ratings(rows, release.units, release.triplets)
    judge = agreement.preference_ratings(
        rows.assign(preferred=preferred), release.units, release.triplets
    )["value"]
    table = agreement.shared_ratings(people)
    sizes = (len(table), int(table["unit"].nunique()), int(table["rater"].nunique()))
    if sizes[1] < agreement.MIN_UNITS:
        reason = agreement.few_units(sizes[1], "pair of sets", "pairs of sets")
        return AgreementWithPeople(UNDEFINED, UNDEFINED, UNDEFINED, *sizes, reason=reason)
    own, others = _agreements(table, judge.loc[table.index])
    unit = pd.factorize(table["unit"])[0]
    sums, counts = np.bincount(unit, others - own), np.bincount(unit)
    whole = float(sums.sum() / counts.sum())
    without_each = ratio(sums.sum() - sums, counts.sum() - counts)
    interval = agreement.two_way_interval(table, whole, without_each)
    return AgreementWithPeople(float(others.mean()), float(own.mean()), whole, *sizes, ci=interval)


def _agreements(table: pd.DataFrame, judge: pd.Series[int]) -> tuple[FloatArray, FloatArray]:
    """The agreement of each row's person, and of the judge, with the unit's other people, (n,)."""
    codes = {value: place for place, value in enumerate(VALUES)}
    person = table["value"].map(codes).to_numpy(dtype=np.intp)
    judged = judge.map(codes).to_numpy(dtype=np.intp)
    unit = pd.factorize(table["unit"])[0]
    counts = np.zeros((int(unit.max()) + 1, len(VALUES)))
    np.add.at(counts, (unit, person), 1)
    others = counts[unit]
    others[np.arange(len(table)), person] -= 1
    n_others = others.sum(axis=1)
    own, of_judge = (
        np.asarray((others * AGREEMENT[each]).sum(axis=1) / n_others) for each in (person, judged)
    )
    return own, of_judge
