"""Differences between systems on the queries that both were asked, paired by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.sessions.figures import rank_figures, statistics_of
from hsfiq.analysis.sessions.ranks import SystemSessions
from hsfiq.analysis.sessions.rules import Rules

NO_COMMON = "the systems have no query in common"


@dataclass(frozen=True)
class Differences(JsonRecord):
    """A system's figures after the last round, minus those of another on the same queries.

    Attributes:
        minus: the other system.
        round: the last round that both have.
    """

    minus: str
    round: int
    n_queries: int
    figures: dict[str, Estimate]

    def to_json(self) -> dict[str, object]:
        figures = {name: json_value(each) for name, each in self.figures.items()}
        return {**{k: v for k, v in vars(self).items() if k != "figures"}, **figures}


def differences(
    systems: Mapping[str, SystemSessions], rules: Rules, bootstrap: Bootstrap
) -> dict[str, Differences]:
    """Each system but the first, compared with the first."""
    (base, first), *others = systems.items()
    return {name: difference(base, first, other, rules, bootstrap) for name, other in others}


def difference(
    base: str, first: SystemSessions, other: SystemSessions, rules: Rules, bootstrap: Bootstrap
) -> Differences:
    common = set(first.sessions["query_id"]) & set(other.sessions["query_id"])
    n_rounds = min(first.n_rounds, other.n_rounds)
    if not common:
        undefined = Estimate(UNDEFINED, 0, None, NO_COMMON)
        return Differences(base, n_rounds, 0, dict.fromkeys(rank_figures(first, rules), undefined))
    compared = [
        system.chosen(system.sessions["query_id"].isin(common).to_numpy(), n_rounds)
        for system in (other, first)
    ]
    figures = [rank_figures(system, rules) for system in compared]
    statistics = [
        statistics_of(system.sessions, own, bootstrap)
        for system, own in zip(compared, figures, strict=True)
    ]
    rows = compared[0].sessions
    estimates = {}
    for name in figures[0]:
        reasons = [own[name].why_undefined(-1) for own in figures]
        minuend, subtrahend = (own[name][:, -1] for own in statistics)
        estimates[name] = estimate_of_difference(minuend - subtrahend, rows, reasons, bootstrap)
    return Differences(base, n_rounds, len(common), estimates)


def estimate_of_difference(
    statistics: FloatArray, rows: pd.DataFrame, reasons: Sequence[str | None], bootstrap: Bootstrap
) -> Estimate:
    """A difference from its resamples, (length,); undefined for the first reason there is."""
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None:
        return Estimate(UNDEFINED, len(rows), None, reason)
    return Estimate(float(statistics[0]), len(rows), bootstrap.interval(statistics, rows))
