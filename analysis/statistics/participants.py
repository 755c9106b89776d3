"""How each participant answered. Who stands apart is named; nobody is left out for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.data.answers import contradicts, metric_margin, optional
from hsfiq.analysis.figures import figure, with_reason
from hsfiq.analysis.statistics.correlation import LEAST, with_values
from hsfiq.analysis.statistics.within import own_rhos

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hsfiq.analysis.data.release import Release

APART = 3.5
"""The modified z-score from which on a value is an outlier (Iglewicz and Hoaglin 1993)."""
TO_SIGMA = 0.6745  # the median absolute deviation of a normal variable, in standard deviations
COUNTS = ("n", "failed_checks")
WHY_UNDEFINED = {
    "set_1": "no preference among the answers",
    "seconds": "no times were recorded",
    "failed_checks": "the release does not say how checks went",
    "irrelevant": "the release has no irrelevance flag",
    "rho": f"fewer than {LEAST} sets with a value, or all values or all scores are the same",
    "tie_half": "no pair with a preference and both values",
}


@dataclass(frozen=True)
class Outlier:
    """A participant who stands apart from the others in one figure.

    Attributes:
        participant: the id.
        figure: the figure's name; a metric's is written `rho recall@5`.
        value: the participant's.
        median: that of all participants.
        z: how far it lies from there: 0.6745 (value - median) / median absolute deviation.
    """

    participant: str
    figure: str
    value: float
    median: float
    z: float

    def to_json(self) -> dict[str, object]:
        """Return all of it by the attributes' names."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Participants:
    """How each participant answered.

    Attributes:
        table: a row per participant, indexed by id, sorted; NaN where a figure is undefined:
            `n`, how many questions they answered; `mean_score`, the mean of their scores;
            `set_1`, P(set 1 preferred), human ties left out;
            `same_scores`, the share of their questions whose two sets got one score;
            `contradictions`, the share whose preferred set got the strictly lower score;
            `irrelevant`, the share that they flagged; `seconds`, the median of the active seconds;
            `failed_checks`, how many checks they failed.
        by_metric: for each metric, such a table of `rho`, Spearman's over their own sets, and
            `tie_half`, the share of their pairs where the metric's higher set is preferred, its
            ties counted half.
        outliers: who stands apart, by figure, then by participant.
    """

    table: pd.DataFrame
    by_metric: Mapping[str, pd.DataFrame]
    outliers: tuple[Outlier, ...]

    def to_json(self) -> dict[str, object]:
        """Return {"n", "participants": {id: figures}, "outliers"}."""
        return {
            "n": len(self.table),
            "participants": {
                str(name): {
                    **_to_json(self.table.loc[name]),
                    "metrics": {
                        metric: _to_json(each.loc[name]) for metric, each in self.by_metric.items()
                    },
                }
                for name in self.table.index
            },
            "outliers": [outlier.to_json() for outlier in self.outliers],
        }


def participants(release: Release, values: Mapping[str, pd.Series[float]]) -> Participants:
    """Describe each participant of a release.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.

    Returns:
        The figures and who stands apart in them; nobody is left out.
    """
    table = _answers(release.preferences)
    by_metric = {
        metric: pd.DataFrame(
            {
                "rho": own_rhos(with_values(release.sets, own)),
                "tie_half": _tie_half(release.preferences, own),
            }
        ).reindex(table.index)
        for metric, own in values.items()
    }
    columns = {str(name): table[name] for name in table.columns if name != "n"} | {
        f"{name} {metric}": each[name]
        for metric, each in by_metric.items()
        for name in each.columns
    }
    found = [outlier for name, column in columns.items() for outlier in outliers(name, column)]
    return Participants(table, by_metric, tuple(found))


def outliers(name: str, values: pd.Series[float]) -> list[Outlier]:
    """Name who stands apart in a figure, by the modified z-score (Iglewicz and Hoaglin 1993).

    Args:
        name: the figure's name.
        values: by participant, NaN where undefined.

    Returns:
        Those with |z| above 3.5; nobody where more than half of the values are the same.
    """
    median = float(values.median())
    apart = (values - median).abs()
    spread = float(apart.median())
    if np.isnan(spread) or spread == 0:
        return []
    z = TO_SIGMA * (values - median) / spread
    return [
        Outlier(str(person), name, float(values[person]), median, float(z[person]))
        for person in values.index[z.abs() > APART]
    ]


def _answers(preferences: pd.DataFrame) -> pd.DataFrame:
    score_1, score_2 = preferences["score_1"], preferences["score_2"]
    preferred = preferences["preferred"]
    figures = pd.DataFrame(
        {
            "mean_score": (score_1 + score_2) / 2,
            "set_1": (preferred == 1).where(preferred != 0).astype("float64"),
            "same_scores": (score_1 == score_2).astype("float64"),
            "contradictions": contradicts(preferences).astype("float64"),
            "irrelevant": optional(preferences, "irrelevant"),
        }
    )
    people = preferences["participant_id"]
    by_person = figures.groupby(people)
    table = by_person.mean()
    table.insert(0, "n", by_person.size())
    table["seconds"] = optional(preferences, "active_seconds").groupby(people).median()
    table["failed_checks"] = _failed_checks(preferences)
    return table


def _failed_checks(preferences: pd.DataFrame) -> pd.Series[float]:
    """How many checks each participant failed: the forms' own counts, each form once."""
    forms = preferences.assign(failed=optional(preferences, "failed_checks"))
    keys = ["participant_id", *(["form"] if "form" in preferences else [])]
    once = forms.drop_duplicates(keys)
    return once.groupby("participant_id")["failed"].sum(min_count=1)


def _tie_half(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    decided = preferences[preferences["preferred"] != 0]
    margin = metric_margin(decided, values)
    agrees = np.sign(margin.to_numpy()) * np.where(decided["preferred"] == 1, 1, -1)
    share = pd.Series((1 + agrees) / 2, index=decided.index)
    found: pd.Series[float] = share.groupby(decided["participant_id"]).mean()
    return found


def _to_json(figures: pd.Series[float]) -> dict[str, object]:
    written: dict[str, object] = {}
    for name, value in figures.items():
        number = figure(float(value))
        written[str(name)] = int(value) if number is not None and name in COUNTS else number
    lost = [
        WHY_UNDEFINED[name] for name in written if written[name] is None and name in WHY_UNDEFINED
    ]
    return with_reason(written, "; ".join(lost) or None)
