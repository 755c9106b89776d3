"""Measuring sessions: every figure of every system, and differences between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import DEFAULT_RESAMPLES, Bootstrap, Estimate
from hsfiq.analysis.sessions.figures import (
    RoundsToSuccess,
    conduct_figures,
    estimates_of,
    rank_figures,
    rounds_to_success,
    statistics_of,
    stop_reasons,
)
from hsfiq.analysis.sessions.ranks import (
    ROUND_COLUMNS,
    SESSION_COLUMNS,
    Rules,
    SystemSessions,
    allowed_ks,
)
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

# Differences between systems on the queries that both were asked, paired by query.

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


OF_SESSIONS = ("bri", "repeats", "repeated_texts")
"""Figures of whole sessions; all others have one value a round."""


@dataclass(frozen=True)
class SystemMeasures(JsonRecord):
    """The figures of one system's sessions, by their names in JSON."""

    n_sessions: int
    n_queries: int
    n_rounds: int
    stops: dict[str, int]
    by_round: dict[str, tuple[Estimate, ...]]
    of_sessions: dict[str, Estimate]
    success: dict[str, RoundsToSuccess]

    def to_json(self) -> dict[str, object]:
        """One object; a figure of rounds is a list with one value a round."""
        values = dict(vars(self))
        groups = [values.pop(name) for name in ("by_round", "of_sessions", "success")]
        figures = {name: json_value(each) for group in groups for name, each in group.items()}
        return {**values, **figures}


@dataclass(frozen=True)
class SessionAnalysis(JsonRecord):
    """All systems' figures by one set of rules; `differences` are those from the first system.

    `simulated` is true if simulators or simulated participants gave texts.
    """

    simulated: bool
    rules: Rules
    n_clusters: int
    unit: str
    systems: dict[str, SystemMeasures]
    differences: dict[str, Differences]
    notes: tuple[str, ...]


def measure(
    sessions: pd.DataFrame,
    rounds: pd.DataFrame,
    rules: Rules,
    triplets: pd.Series[str] | None = None,
    *,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    bootstrap: Bootstrap | None = None,
    simulated: bool = False,
    notes: Sequence[str] = (),
) -> SessionAnalysis:
    """Measure the sessions of each system, on the same resamples.

    Args:
        sessions: one row per session, with `ranks.SESSION_COLUMNS`.
        rounds: one row per round, with `ranks.ROUND_COLUMNS`.
        rules: without `ks`, the values that no session's stop censors.
        triplets: the triplet of each query_id; queries of one triplet are one cluster.
        n_resamples, seed: of the bootstrap, unless it is given.
        simulated: whether simulators or simulated participants gave texts.
        notes: the caller's notes on the sessions.

    Raises:
        UnreadableInput: there is no session, or a stop censors a wanted K.
    """
    if not len(sessions):
        raise UnreadableInput("sessions", "there are none")
    stop_at = sessions["stop_at"].max()
    rules = replace(rules, ks=allowed_ks(rules.ks, None if pd.isna(stop_at) else int(stop_at)))
    bootstrap = bootstrap or bootstrap_of(sessions, triplets, n_resamples, seed)
    sessions = with_searchers(sessions)
    systems = {
        str(name): SystemSessions.of(
            own.reset_index(drop=True), rounds[rounds["system"] == name], rules
        )
        for name, own in sessions.groupby("system", sort=False)
    }
    return SessionAnalysis(
        simulated,
        rules,
        bootstrap.n_clusters_of(None),
        bootstrap.unit.replace("-", " x "),
        {name: measure_system(system, rules, bootstrap) for name, system in systems.items()},
        differences(systems, rules, bootstrap),
        (
            *notes,
            *(note for name, each in systems.items() for note in stop_notes(name, each, rules)),
        ),
    )


def measure_rows(
    sessions: Sequence[Mapping[str, object]],
    rounds: Sequence[Mapping[str, object]],
    rules: Rules,
    triplets: Mapping[str, str],
    *,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    simulated: bool = False,
    notes: Sequence[str] = (),
) -> SessionAnalysis:
    """Like `measure`, for rows instead of tables; missing fields of a row are unknown."""
    return measure(
        *tables_of(sessions, rounds),
        rules,
        pd.Series(triplets, dtype=str),
        n_resamples=n_resamples,
        seed=seed,
        simulated=simulated,
        notes=notes,
    )


def tables_of(
    sessions: Sequence[Mapping[str, object]], rounds: Sequence[Mapping[str, object]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    texts = dict.fromkeys(("participant_id", "stop_reason"), "str")
    return (
        pd.DataFrame(sessions, columns=list(SESSION_COLUMNS)).astype(texts),
        pd.DataFrame(rounds, columns=list(ROUND_COLUMNS)),
    )


def bootstrap_of(
    sessions: pd.DataFrame, triplets: pd.Series[str] | None, n_resamples: int, seed: int
) -> Bootstrap:
    """Resamples of triplets and, if people searched, of participants."""
    return Bootstrap.of_rows(
        with_searchers(sessions),
        triplets,
        unit="triplet" if sessions["participant_id"].isna().all() else None,
        n_resamples=n_resamples,
        seed=seed,
    )


def with_searchers(sessions: pd.DataFrame) -> pd.DataFrame:
    """Each simulated session, assigned to a separate participant."""
    own = sessions["system"] + "/" + sessions["session_id"]
    participants = sessions["participant_id"]
    return sessions.assign(participant_id=participants.where(participants.notna(), own))


def measure_system(system: SystemSessions, rules: Rules, bootstrap: Bootstrap) -> SystemMeasures:
    rows, least = system.sessions, rules.ks[0]
    figures = rank_figures(system, rules) | conduct_figures(system, least)
    estimates = estimates_of(rows, figures, bootstrap)
    whole = {*OF_SESSIONS, f"repeats_without_hit@{least}"}
    return SystemMeasures(
        n_sessions=len(rows),
        n_queries=rows["query_id"].nunique(),
        n_rounds=system.n_rounds,
        stops=stop_reasons(rows),
        by_round={name: each for name, each in estimates.items() if name not in whole},
        of_sessions={name: each[0] for name, each in estimates.items() if name in whole},
        success={
            f"rounds_to_success@{k}": rounds_to_success(rows, system.played, k, bootstrap)
            for k in rules.ks
        },
    )


def stop_notes(name: str, system: SystemSessions, rules: Rules) -> list[str]:
    """Warn about searches that participants ended."""
    succeeded = system.sessions["stop_reason"].isin(["found", "found-other"]).to_numpy()
    by_rule = system.sessions["stop_at"].notna().to_numpy()
    least = rules.ks[0]
    hits = system.best().within(least)[0][:, -1] > 0
    n = int((succeeded & ~by_rule & ~hits).sum())
    text = (
        f"{name}: {count_text(n, 'session')} ended when the participant chose an image, with the "
        f"target not among the first {least}: Hits@{least} of later rounds is a lower bound"
    )
    return [text] if n else []
