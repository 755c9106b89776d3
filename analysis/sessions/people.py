"""People and simulators who search with the same system for the same queries.

Every query counts once on each side, however many sessions it has there, so that the differences
are paired by query. After the end of a session, its last list counts in later rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd

from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import DEFAULT_RESAMPLES, Bootstrap, Estimate
from hsfiq.analysis.sessions.figures import Values, rank_figures
from hsfiq.analysis.sessions.measure import bootstrap_of, tables_of, with_searchers
from hsfiq.analysis.sessions.ranks import Rules, SystemSessions, allowed_ks

Verdict = Literal["optimistic", "pessimistic", "not settled"]
NO_COMMON = "people and simulator have no query in common"
NO_TEXT = "no text after the first one is known"
FIGURES = ("mean_rank_current", "mean_rank_best", "mean_log_rank_best")


@dataclass(frozen=True)
class Compared(JsonRecord):
    """One figure of both sides, and the simulator's minus the people's."""

    people: Estimate
    simulator: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """A simulator and people who searched with one system.

    Attributes:
        simulator: its name, with the settings in which simulated sessions differ.
        figures: by name, one value a round, up to the last one that both have.
        words: per text, without the first text of a session.
        verdict: on the simulator, by Hits@K after the last round.
    """

    system: str
    simulator: str
    n_queries: int
    n_people_sessions: int
    n_simulator_sessions: int
    figures: Mapping[str, tuple[Compared, ...]]
    words: Compared
    verdict: Verdict


@dataclass(frozen=True)
class Order(JsonRecord):
    """Two systems by people and by a simulator: Hits@K of the second minus that of the first.

    `agrees` is None if either difference is 0 or undefined.
    """

    simulator: str
    systems: tuple[str, str]
    n_queries: int
    people: Estimate
    by_simulator: Estimate
    agrees: bool | None


@dataclass(frozen=True)
class PeopleAndSimulators(JsonRecord):
    """All comparisons; `k` is that of the verdicts and of the order of systems."""

    k: int
    comparisons: tuple[Comparison, ...]
    orders: tuple[Order, ...]
    notes: tuple[str, ...] = ()


def compare_rows(
    sessions: Sequence[Mapping[str, object]],
    rounds: Sequence[Mapping[str, object]],
    sides: Mapping[str, tuple[str | None, str]],
    triplets: Mapping[str, str],
    rules: Rules,
    *,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> PeopleAndSimulators:
    """As `compare_people`, of rows as `measure_rows` takes them.

    `sides` maps each name in the column `system` to its simulator, None for people, and its system.
    K are those of the rules and the number of images that people saw.

    Raises:
        UnreadableInput: a stop of the simulated sessions censors a wanted K.
    """
    session_table, round_table = tables_of(sessions, rounds)
    people = {system: name for name, (simulator, system) in sides.items() if simulator is None}
    k = int(round_table.loc[round_table["system"].isin(people.values()), "depth"].max())
    stop_at = session_table["stop_at"].max()
    ks = allowed_ks(sorted({*rules.ks, k}), None if pd.isna(stop_at) else int(stop_at))
    rules = replace(rules, ks=ks)
    bootstrap = bootstrap_of(session_table, pd.Series(triplets, dtype=str), n_resamples, seed)
    session_table = with_searchers(session_table)
    made = {
        name: SystemSessions.of(
            session_table[session_table["system"] == name].reset_index(drop=True),
            round_table[round_table["system"] == name],
            rules,
        )
        for name in sides
    }
    simulators: dict[str, dict[str, SystemSessions]] = {}
    for name, (simulator, system) in sides.items():
        if simulator is not None:
            simulators.setdefault(simulator, {})[system] = made[name]
    result = compare_people(
        {system: made[name] for system, name in people.items()}, simulators, rules, k, bootstrap
    )
    return replace(result, notes=tuple(notes))


def compare_people(
    people: Mapping[str, SystemSessions],
    simulators: Mapping[str, Mapping[str, SystemSessions]],
    rules: Rules,
    k: int,
    bootstrap: Bootstrap,
) -> PeopleAndSimulators:
    """Compare the people's sessions by system with those of each simulator, by system.

    `k`, one of those of the rules, decides the verdicts and the order of systems.
    """
    rules = replace(rules, after_stop="carry")
    return PeopleAndSimulators(
        k,
        tuple(
            compare(system, name, people[system], own, rules, k, bootstrap)
            for name, by_system in simulators.items()
            for system, own in by_system.items()
        ),
        tuple(
            order
            for name, by_system in simulators.items()
            for order in orders_of(name, people, by_system, rules, k, bootstrap)
        ),
    )


def compare(
    system: str,
    simulator: str,
    people: SystemSessions,
    simulated: SystemSessions,
    rules: Rules,
    k: int,
    bootstrap: Bootstrap,
) -> Comparison:
    sides = on_common_queries([people, simulated])
    names = [
        *(f"hits@{each}" for each in rules.ks),
        *(f"recall@{each}" for each in rules.ks),
        *FIGURES,
    ]
    figures = [rank_figures(side, rules) for side in sides]
    compared = {
        name: tuple(
            compared_of(sides, [own[name] for own in figures], number, bootstrap)
            for number in range(sides[0].n_rounds)
        )
        for name in names
    }
    return Comparison(
        system,
        simulator,
        n_queries=int(sides[0].sessions["query_id"].nunique()),
        n_people_sessions=len(sides[0].sessions),
        n_simulator_sessions=len(sides[1].sessions),
        figures=compared,
        words=compared_of(sides, [words_of(side) for side in sides], 0, bootstrap),
        verdict=verdict_of(compared[f"hits@{k}"][-1].difference),
    )


def on_common_queries(sides: Sequence[SystemSessions]) -> list[SystemSessions]:
    """The sessions for queries that all sides have, up to the last round that all have."""
    common = set.intersection(*(set(side.sessions["query_id"]) for side in sides))
    n_rounds = min(side.n_rounds for side in sides)
    return [
        side.chosen(side.sessions["query_id"].isin(common).to_numpy(), n_rounds) for side in sides
    ]


def compared_of(
    sides: Sequence[SystemSessions], values: Sequence[Values], number: int, bootstrap: Bootstrap
) -> Compared:
    """A figure of one round, from 0, of both sides."""
    statistics = []
    estimates = []
    for side, own in zip(sides, values, strict=True):
        resampled = by_query(side, own, number, bootstrap)
        statistics.append(resampled)
        estimates.append(estimate_of(side.sessions, own, number, resampled, bootstrap))
    people, simulator = estimates
    difference = difference_of(sides, estimates, statistics[1] - statistics[0], bootstrap)
    return Compared(people, simulator, difference)


def by_query(side: SystemSessions, values: Values, number: int, bootstrap: Bootstrap) -> FloatArray:
    """The mean over queries of the means over their sessions, (length,); NaN without any."""
    rows = side.sessions
    if not len(rows):
        return np.full(bootstrap.length, np.nan)
    included = values.included[:, number]
    counts = pd.Series(included).groupby(rows["query_id"].to_numpy()).transform("sum")
    weights = np.where(included, 1 / np.maximum(counts.to_numpy(np.float64), 1), 0)
    column = weights * np.where(included, values.values[:, number], 0)
    return bootstrap.ratios(rows, column[:, None], weights[:, None])[:, 0]


def estimate_of(
    rows: pd.DataFrame,
    values: Values,
    number: int,
    statistics: FloatArray,
    bootstrap: Bootstrap,
) -> Estimate:
    included = values.included[:, number] if len(rows) else np.zeros(0, dtype=np.bool_)
    reason = NO_COMMON if not len(rows) else values.why_undefined(number)
    if reason is not None:
        return Estimate(UNDEFINED, int(included.sum()), None, reason)
    interval = bootstrap.interval(statistics, rows, included, values.bounds)
    return Estimate(float(statistics[0]), int(included.sum()), interval)


def difference_of(
    sides: Sequence[SystemSessions],
    estimates: Sequence[Estimate],
    statistics: FloatArray,
    bootstrap: Bootstrap,
) -> Estimate:
    """The second side less the first; n is the number of queries."""
    rows = sides[0].sessions
    n = int(rows["query_id"].nunique())
    reason = next((each.reason for each in estimates if each.reason is not None), None)
    if reason is not None:
        return Estimate(UNDEFINED, n, None, reason)
    return Estimate(float(statistics[0]), n, bootstrap.interval(statistics, rows))


def words_of(side: SystemSessions) -> Values:
    """The mean words of each session's texts after the first one."""
    words = side.by_round("words")[:, 1:]
    known: BoolArray = ~np.isnan(words)
    n = known.sum(axis=1, keepdims=True)
    means = np.nansum(words, axis=1, keepdims=True) / np.maximum(n, 1)
    return Values(means, n > 0, n > 0, reason=NO_TEXT)


def verdict_of(difference: Estimate) -> Verdict:
    """The verdict on the simulator: whether it finds more or fewer targets than people."""
    ci = difference.ci
    if ci is not None and ci.low > 0:
        return "optimistic"
    if ci is not None and ci.high < 0:
        return "pessimistic"
    return "not settled"


def orders_of(
    simulator: str,
    people: Mapping[str, SystemSessions],
    simulated: Mapping[str, SystemSessions],
    rules: Rules,
    k: int,
    bootstrap: Bootstrap,
) -> list[Order]:
    """Every two systems, on the queries that both sides have of both systems."""
    orders = []
    for first, second in combinations(simulated, 2):
        sides = on_common_queries(
            [people[first], people[second], simulated[first], simulated[second]]
        )
        values = [rank_figures(side, rules)[f"hits@{k}"] for side in sides]
        statistics = [
            by_query(side, own, -1, bootstrap) for side, own in zip(sides, values, strict=True)
        ]
        estimates = [
            estimate_of(side.sessions, own, -1, each, bootstrap)
            for side, own, each in zip(sides, values, statistics, strict=True)
        ]
        by_people, by_simulator = (
            difference_of(
                sides[at : at + 2],
                estimates[at : at + 2],
                statistics[at + 1] - statistics[at],
                bootstrap,
            )
            for at in (0, 2)
        )
        signs = np.sign([by_people.value, by_simulator.value])
        agrees = None if np.isnan(signs).any() or not signs.all() else bool(signs[0] == signs[1])
        n = by_people.n
        orders.append(Order(simulator, (first, second), n, by_people, by_simulator, agrees))
    return orders
