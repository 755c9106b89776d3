"""Systems by strength: people's order, a metric's order, and how well the two agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import CORRELATION
from hsfiq.analysis.systems.bradley_terry import (
    EQUAL,
    count_wins,
    kendall_tau,
    log_strengths,
    resampled_log_strengths,
    resampled_wins,
    why_undefined,
)


@dataclass(frozen=True, eq=False)
class Strengths:
    """The Bradley-Terry strengths of all systems.

    Attributes:
        estimates: by system, its log-strength; n counts the comparisons of all systems.
        fitted: (n_systems,) the log-strengths.
        resampled: (length, n_systems) those of the study and of each resample, NaN where undefined.
    """

    estimates: Mapping[str, Estimate]
    fitted: FloatArray
    resampled: FloatArray
    reason: str | None


@dataclass(frozen=True)
class OrderAgreement(JsonRecord):
    """How well two orders of the systems agree.

    Attributes:
        tau: Kendall's tau-b over the systems: 1 is the same order, -1 the reverse.
        swapped: the pairs in opposite orders, people's better system first.
    """

    tau: float
    ci: ConfidenceInterval | None
    n_systems: int
    swapped: tuple[tuple[str, str], ...] = ()
    reason: str | None = None


def strengths(
    rows: pd.DataFrame, share: FloatArray, names: Sequence[str], bootstrap: Bootstrap
) -> Strengths:
    """Fit the systems' strengths, in the study and in each resample.

    The rows have the system numbers `first` and `second`; `share` is 1 if the first was preferred,
    0 if the second was, 0.5 for a tie. All are NaN, with a reason, if some systems were never
    compared or never lost.
    """
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    wins = count_wins(first, second, share, len(names))
    reason = why_undefined(wins, names)
    fitted = log_strengths(wins)
    resampled = np.full((bootstrap.length, len(names)), np.nan)
    if reason is None:
        all_wins = resampled_wins(rows, first, second, share, len(names), bootstrap)
        resampled = resampled_log_strengths(all_wins)
    estimates = {
        name: Estimate(
            float(fitted[number]),
            len(rows),
            None if reason else bootstrap.interval(resampled[:, number], rows),
            reason,
        )
        for number, name in enumerate(names)
    }
    return Strengths(estimates, fitted, resampled, reason)


def order_agreement(
    human: Strengths, predicted: Strengths, names: Sequence[str], bootstrap: Bootstrap
) -> OrderAgreement:
    """Compare a metric's order with people's; undefined if strengths are, or if all are equal."""
    for whose, each in (("people's", human), ("the metric's", predicted)):
        equal = np.ptp(each.fitted) <= EQUAL
        reason = "all systems are equally strong" if equal else each.reason
        if reason is not None:
            return OrderAgreement(UNDEFINED, None, len(names), (), f"{whose} order: {reason}")
    tau = float(kendall_tau(human.fitted, predicted.fitted))
    resampled = kendall_tau(human.resampled, predicted.resampled)
    by_people = np.argsort(-human.fitted, kind="stable")
    swapped = tuple(
        (names[better], names[worse])
        for better, worse in combinations(by_people.tolist(), 2)
        if human.fitted[better] - human.fitted[worse] > EQUAL
        and predicted.fitted[worse] - predicted.fitted[better] > EQUAL
    )
    return OrderAgreement(
        tau, bootstrap.interval(resampled, bounds=CORRELATION), len(names), swapped
    )
