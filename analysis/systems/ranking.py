"""The order of systems by strength: people's, a metric's, and how well the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import Interval, with_interval
from hsfiq.analysis.systems.bradley_terry import (
    EQUAL,
    count_wins,
    log_strengths,
    order_agreement,
    resampled_log_strengths,
    resampled_wins,
    why_undefined,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws


@dataclass(frozen=True, eq=False)
class Strengths:
    """The Bradley-Terry strengths of all systems.

    Attributes:
        estimates: by system, its log-strength; n counts the comparisons of all systems.
        fitted: (n_systems,) the log-strengths.
        resampled: (n_resamples, n_systems) those of each resample, NaN where undefined.
        reason: why they are NaN, where they are.
    """

    estimates: Mapping[str, Estimate]
    fitted: NDArray[np.float64]
    resampled: NDArray[np.float64]
    reason: str | None


@dataclass(frozen=True)
class OrderAgreement:
    """How well two orders of the systems agree.

    Attributes:
        tau: Kendall's tau-b over the systems: 1 is the same order, -1 the reverse.
        ci: its clustered interval; None where tau is undefined.
        n_systems: how many systems there are.
        swapped: the pairs that the two put in opposite orders, people's better system first.
        reason: why tau is NaN, where it is.
    """

    tau: float
    ci: Interval | None
    n_systems: int
    swapped: tuple[tuple[str, str], ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"tau", "n_systems", "swapped", "ci", "ci_method"} and the reason, if any."""
        figures: dict[str, object] = {
            "tau": figure(self.tau),
            "n_systems": self.n_systems,
            "swapped": [list(pair) for pair in self.swapped],
        }
        return with_interval(figures, self.ci, self.reason)


def strengths(
    rows: pd.DataFrame, share: NDArray[np.float64], names: Sequence[str], draws: Draws
) -> Strengths:
    """Fit the systems' strengths, in the study and in each resample.

    Args:
        rows: (n, ...) with the systems' numbers `one` and `two`, `participant_id` and `query_id`.
        share: (n,) 1 where `one` was preferred, 0 where `two` was, 0.5 for a tie.
        names: the systems'.
        draws: the resamples.

    Returns:
        The strengths; NaN, with a reason, where some systems were never compared or never lost.
    """
    one, two = rows["one"].to_numpy(np.intp), rows["two"].to_numpy(np.intp)
    wins = count_wins(one, two, share, len(names))
    reason = why_undefined(wins, names)
    fitted = log_strengths(wins)
    resampled = np.full((draws.n_resamples, len(names)), np.nan)
    if reason is None:
        drawn = resampled_wins(rows, one, two, share, len(names), draws)
        resampled = resampled_log_strengths(drawn)
    estimates = {
        name: Estimate(
            float(fitted[number]),
            len(rows),
            None if reason else draws.interval(resampled[:, number], rows),
            reason,
        )
        for number, name in enumerate(names)
    }
    return Strengths(estimates, fitted, resampled, reason)


def agreement_of_orders(
    human: Strengths, predicted: Strengths, names: Sequence[str], draws: Draws
) -> OrderAgreement:
    """Hold the order that a metric predicts against people's.

    Args:
        human: the strengths by what people preferred.
        predicted: those by what the metric prefers, of the same systems and draws.
        names: the systems'.
        draws: the resamples.

    Returns:
        The agreement; NaN, with a reason, where strengths are undefined or all are equal.
    """
    for whose, each in (("people's", human), ("the metric's", predicted)):
        equal = np.ptp(each.fitted) <= EQUAL
        reason = "all systems are equally strong" if equal else each.reason
        if reason is not None:
            return OrderAgreement(UNDEFINED, None, len(names), (), f"{whose} order: {reason}")
    tau = float(order_agreement(human.fitted, predicted.fitted))
    resampled = order_agreement(human.resampled, predicted.resampled)
    by_people = np.argsort(-human.fitted, kind="stable")
    swapped = tuple(
        (names[better], names[worse])
        for better, worse in combinations(by_people.tolist(), 2)
        if human.fitted[better] - human.fitted[worse] > EQUAL
        and predicted.fitted[worse] - predicted.fitted[better] > EQUAL
    )
    return OrderAgreement(tau, draws.interval(resampled), len(names), swapped)
