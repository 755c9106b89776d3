"""How each participant answered. Outliers are named; nobody is excluded for being one.

Outliers are found by the answers alone and by agreement with the other annotators of the same sets,
never by a metric: whoever disagrees with a metric may be right.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.answers import (
    contradicts,
    has_preference,
    metric_difference,
    optional_column,
)
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import JsonRecord, json_number, with_reason
from hsfiq.analysis.people.agreement import MIN_UNITS
from hsfiq.analysis.people.participant_reliability import MIN_PEOPLE, participant_reliability
from hsfiq.analysis.people.straight_lining import straight_lining
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import MIN_SETS, participant_rhos, with_values

MIN_Z = 3.5
"""Modified z-scores above this are outliers (Iglewicz and Hoaglin 1993)."""
MAD_OF_NORMAL = 0.6745  # the median absolute deviation of a normal variable of variance 1
COUNTS = ("n", "failed_checks", "n_shared", "longest_run")
COMPARED = (
    *("mean_score", "set_1", "same_scores", "contradictions", "irrelevant", "seconds"),
    *("failed_checks", "longest_run", "modal_share", "with_others"),
)
"""The figures in which a participant may be an outlier."""
TOO_LITTLE_OVERLAP = f"others judged fewer than {MIN_UNITS} of the participant's sets"
WHY_UNDEFINED = {
    "set_1": "no preference among the answers",
    "irrelevant": "irrelevance flags were not recorded",
    "seconds": "times were not recorded",
    "failed_checks": "results of attention checks were not recorded",
    "with_others": TOO_LITTLE_OVERLAP,
    "reliability": f"{TOO_LITTLE_OVERLAP}, or this is so for all but {MIN_PEOPLE - 1} participants",
    "rho": f"fewer than {MIN_SETS} sets with a value, or all values or all scores are the same",
    "tie_half": "no pair with a preference and both values",
}


@dataclass(frozen=True)
class Outlier(JsonRecord):
    """A participant who is an outlier in one figure.

    The modified z-score is 0.6745 (value - median) / median absolute deviation.
    """

    participant: str
    figure: str
    value: float
    median: float
    z: float


@dataclass(frozen=True, eq=False)
class Participants(JsonRecord):
    """How each participant answered, and the outliers by figure and participant.

    Attributes:
        table: a row per participant, indexed by id, sorted; NaN where a figure is undefined:
            `n`, the number of questions they answered; `mean_score`, the mean of their scores;
            `set_1`, P(set 1 preferred), without human ties;
            `same_scores`, the share of their questions whose two sets got the same score;
            `contradictions`, the share whose preferred set got the strictly lower score;
            `irrelevant`, the share that they flagged; `seconds`, the median of the active seconds;
            `failed_checks`, the number of checks they failed; `longest_run` and `modal_share` (see
            `straight_lining`); `n_shared`, `with_others`, `reliability`, `reliability_low` and
            `reliability_high` (see `participant_reliability`).
        by_metric: for each metric, such a table of `rho`, over their own sets, and `tie_half`, over
            their own pairs.
    """

    table: pd.DataFrame
    by_metric: Mapping[str, pd.DataFrame]
    outliers: tuple[Outlier, ...]

    @property
    def n_with_others(self) -> int:
        """How many participants can be compared with others."""
        return int(self.table["with_others"].notna().sum())

    def to_json(self) -> dict[str, object]:
        by_metric = {metric: each.to_dict("index") for metric, each in self.by_metric.items()}
        return {
            "n": len(self.table),
            "n_with_others": self.n_with_others,
            "participants": {
                str(name): {
                    **_to_json(figures),
                    "metrics": {metric: _to_json(each[name]) for metric, each in by_metric.items()},
                }
                for name, figures in self.table.to_dict("index").items()
            },
            "outliers": [outlier.to_json() for outlier in self.outliers],
        }


def participants(release: Release, values: MetricValues) -> Participants:
    """Describe each participant of a release, and name the outliers; nobody is excluded."""
    units = release.units
    table = (
        _answers(release.preferences)
        .join(straight_lining(release.preferences))
        .join(participant_reliability(release.sets, units))
    )
    by_metric = {
        metric: pd.DataFrame(
            {
                "rho": participant_rhos(with_values(release.sets, own)),
                "tie_half": _tie_half(release.preferences, own),
            }
        ).reindex(table.index)
        for metric, own in values.items()
    }
    named = tuple(outlier for name in COMPARED for outlier in outliers(name, table[name]))
    return Participants(table, by_metric, named)


def outliers(name: str, values: pd.Series[float]) -> list[Outlier]:
    """The outliers of a figure; none if more than half of the participants have the same value."""
    median = float(values.median())
    deviations = (values - median).abs()
    mad = float(deviations.median())
    if np.isnan(mad) or mad == 0:
        return []
    z = MAD_OF_NORMAL * (values - median) / mad
    return [
        Outlier(str(person), name, float(values[person]), median, float(z[person]))
        for person in values.index[z.abs() > MIN_Z]
    ]


def _answers(preferences: pd.DataFrame) -> pd.DataFrame:
    score_1, score_2 = preferences["score_1"], preferences["score_2"]
    set_1 = (preferences["preferred"] == 1).where(has_preference(preferences))
    figures = pd.DataFrame(
        {
            "mean_score": (score_1 + score_2) / 2,
            "set_1": set_1.astype("float64"),
            "same_scores": (score_1 == score_2).astype("float64"),
            "contradictions": contradicts(preferences).astype("float64"),
            "irrelevant": optional_column(preferences, "irrelevant"),
        }
    )
    people = preferences["participant_id"]
    by_person = figures.groupby(people)
    table = by_person.mean()
    table.insert(0, "n", by_person.size())
    table["seconds"] = optional_column(preferences, "active_seconds").groupby(people).median()
    table["failed_checks"] = _failed_checks(preferences)
    return table


def _failed_checks(preferences: pd.DataFrame) -> pd.Series[float]:
    """How many checks each participant failed: the counts of their forms, each form once."""
    forms = preferences.assign(failed=optional_column(preferences, "failed_checks"))
    keys = ["participant_id", *(["form"] if "form" in preferences else [])]
    return forms.drop_duplicates(keys).groupby("participant_id")["failed"].sum(min_count=1)


def _tie_half(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    """Each participant's own rate; participants without a usable pair are missing."""
    rows, set_1, (difference,) = preference.usable_pairs(
        preferences, metric_difference(preferences, values)
    )
    hits = pd.Series(preference.tie_half(difference, set_1).hits, index=rows.index)
    rates: pd.Series[float] = hits.groupby(rows["participant_id"]).mean()
    return rates


def _to_json(figures: Mapping[Hashable, float]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in figures.items():
        number = json_number(float(value))
        fields[str(name)] = int(value) if number is not None and name in COUNTS else number
    reasons = [
        why for name, why in WHY_UNDEFINED.items() if name in fields and fields[name] is None
    ]
    return with_reason(fields, "; ".join(reasons) or None)
