"""The analysis of an arena's release: a summary of the release, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import log
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.data.kind_release import AnalysedRelease, read_judged, take_judged_part
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import (
    DEFAULT_RESAMPLES,
    Bootstrap,
    Estimate,
    Unit,
    group_means,
    ratio,
)
from hsfiq.analysis.resampling.intervals import CORRELATION, RATE
from hsfiq.analysis.statistics.preference import PositionBias, position_bias
from hsfiq.analysis.systems.ranks import Duel, RankRange, RankRanges, rank_ranges, win_matrix
from hsfiq.analysis.systems.strengths import StrengthsAndSide, strengths_and_side
from hsfiq.analysis.systems.systems import compared_systems, win_rates
from hsfiq.errors import UnreadableInput

# The votes of an arena, as its statistics use them.
#
# Columns used: question_id (the session), turn, participant_id, query_id, triplet_id, system_1 and
# system_2 (the systems of list 1 and list 2), preference (1, 2, or 0 for neither), both_bad.

Turns = Literal["all", "first"]
TURNS: tuple[Turns, ...] = get_args(Turns)

COLUMNS = (
    *("question_id", "turn", "participant_id", "query_id", "triplet_id"),
    *("system_1", "system_2", "preference", "both_bad"),
)


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes between two different systems.

    Attributes:
        rows: with `first` and `second`, the numbers of the systems, and `preferred`, in the order
            of sessions and turns.
        names: the systems by number.
    """

    rows: pd.DataFrame
    names: tuple[str, ...]

    @classmethod
    def of(cls, votes: pd.DataFrame, names: Sequence[str] | None = None) -> Votes:
        """The votes of a table with `COLUMNS`; the systems are those of the table unless named.

        UnreadableInput: a column is missing, or a preference is not 0, 1 or 2.
        """
        missing = [name for name in COLUMNS if name not in votes]
        if missing:
            raise UnreadableInput("votes", f"column {missing[0]} is missing", "export it again")
        if not votes["preference"].isin([0, 1, 2]).all():
            raise UnreadableInput("votes", "a preference is not 0, 1 or 2", "export it again")
        if names is None:
            names = sorted({*votes["system_1"].astype(str), *votes["system_2"].astype(str)})
        rows = votes.assign(
            preferred=votes["preference"].astype(int), both_bad=votes["both_bad"].astype(bool)
        )
        rows = compared_systems(rows, list(names)).sort_values(["question_id", "turn"])
        return cls(rows.reset_index(drop=True), tuple(names))

    def taken(self, turns: Turns) -> Votes:
        """All votes, or the first of each session."""
        if turns == "all":
            return self
        return Votes(self.rows.drop_duplicates("question_id").reset_index(drop=True), self.names)

    @property
    def triplets(self) -> pd.Series[str]:
        """The triplet of each query, by query_id."""
        queries = self.rows.drop_duplicates("query_id").set_index("query_id")
        return queries["triplet_id"]


# How evenly the sessions are divided among the pairs of systems, and over the two sides.


@dataclass(frozen=True)
class PairOfSystems(JsonRecord):
    """The sessions and votes between two systems.

    Attributes:
        system_first: the votes in which `system` was list 1; half of them if the sides are
            balanced.
    """

    system: str
    other: str
    sessions: int
    votes: int
    system_first: int


@dataclass(frozen=True)
class Pairing(JsonRecord):
    """Every pair of systems; `fewest` and `most` sessions of a pair. Equal ones are balanced."""

    pairs: Sequence[PairOfSystems]
    fewest: int
    most: int


def pairing(votes: Votes) -> Pairing:
    first, second = (votes.rows[name].to_numpy(np.intp) for name in ("first", "second"))
    sessions = votes.rows["question_id"]
    pairs = []
    for i, j in combinations(range(len(votes.names)), 2):
        is_first = (first == i) & (second == j)
        between = is_first | ((first == j) & (second == i))
        pairs.append(
            PairOfSystems(
                votes.names[i],
                votes.names[j],
                int(sessions[between].nunique()),
                int(between.sum()),
                int(is_first.sum()),
            )
        )
    counts = [pair.sessions for pair in pairs] or [0]
    return Pairing(tuple(pairs), min(counts), max(counts))


# How far the votes of one session agree with each other.
#
# A session has the same two systems at all its turns, one searcher and one wish, so its votes are
# not independent. The deviation of a vote is the share of it that the system that comes first in
# the order of the names won (1, 1/2 for neither, 0), less the mean of that share over all votes
# between the two systems. The correlation is the mean product of two deviations of the same
# session, over all pairs of its votes, divided by the mean squared deviation.


@dataclass(frozen=True)
class WithinSessions(JsonRecord):
    """How the votes of a session depend on each other.

    Attributes:
        correlation: of two votes of one session; n counts the pairs of votes.
        design_effect: 1 + (m - 1) correlation, with m = sum of n_i^2 / sum of n_i over the sessions
            of n_i votes (Kish 1965): the number of votes that carry as much information as one
            independent vote. NaN if the correlation is NaN.
    """

    correlation: Estimate
    design_effect: float


def within_sessions(votes: Votes, bootstrap: Bootstrap) -> WithinSessions:
    """Undefined, with a reason, if no session has two votes or all deviations are 0."""
    rows = votes.rows
    deviation = deviations(rows)
    session = pd.factorize(rows["question_id"])[0]
    first_of_session = ~rows["question_id"].duplicated().to_numpy()
    n = np.bincount(session).astype(np.float64)
    total, squares = (np.bincount(session, each) for each in (deviation, deviation**2))
    columns = np.zeros((len(rows), 4))  # a session's sums are at its first vote
    columns[first_of_session] = np.column_stack(
        [(total**2 - squares) / 2, n * (n - 1) / 2, squares, n]
    )
    sums = bootstrap.totals(rows, columns)
    n_pairs = int(sums[0, 1])
    if n_pairs == 0 or sums[0, 2] == 0:
        reason = "no session has two votes"
        if n_pairs:
            reason = "all votes between two systems are the same"
        return WithinSessions(Estimate(np.nan, n_pairs, None, reason), np.nan)
    statistics = ratio(ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 2], sums[:, 3]))
    value = float(statistics[0])
    interval = bootstrap.interval(statistics, rows, bounds=CORRELATION)
    effect = 1 + (float((n**2).sum() / n.sum()) - 1) * value
    return WithinSessions(Estimate(value, n_pairs, interval), effect)


def deviations(rows: pd.DataFrame) -> FloatArray:
    """The deviation of each vote, (n,)."""
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    share = np.choose(rows["preferred"].to_numpy(np.intp), (0.5, 1.0, 0.0))
    won = pd.Series(np.where(first < second, share, 1 - share))
    of_pair = won.groupby([np.minimum(first, second), np.maximum(first, second)])
    deviation: FloatArray = (won - of_pair.transform("mean")).to_numpy()
    return deviation


# The figures of an arena: a leaderboard, and how far it can be trusted.
#
# Strengths are those of `systems/strengths.py`: Bradley and Terry's model (1952) with Davidson's
# ties (1970), and the effect of the side by Davidson and Beaver (1977). "Both bad" is a tie. Votes
# of one participant depend on each other, so whole participants are resampled, and triplets too
# where several participants voted on a triplet (`Bootstrap.of_rows`).

MEAN_RATING, POINTS = 1000.0, 400.0
"""rating = 1000 + 400 s / ln 10: 400 more points mean odds of 10 to 1; the mean is 1000."""
FEWEST_PARTICIPANTS = 5
FEWEST_VOTES = 20
"""For each system. With fewer votes or participants, a leaderboard has no ranking."""
ALL = "all"

Lack = Literal["participants", "votes", "strengths"]


def rating_of(strength: float) -> float:
    """A strength in log odds on the scale of the arenas' ratings."""
    return MEAN_RATING + POINTS / log(10) * strength


@dataclass(frozen=True)
class Standing(JsonRecord):
    """One system in the arena.

    Attributes:
        strength: in log odds, centred at 0.
        rating: the strength as `rating_of`; NaN if it is undefined.
        rank: None if ranks are undefined.
        win_rate: ties count half.
        tie_share: of its votes, without a preference; `both_bad` are among them.
    """

    strength: Estimate
    rating: Estimate
    rank: RankRange | None
    votes: int
    sessions: int
    win_rate: Estimate
    tie_share: Estimate
    both_bad: Estimate


@dataclass(frozen=True)
class FirstTurns(JsonRecord):
    """A system's strength by the first vote of each session alone.

    Attributes:
        difference: from its strength by all votes, from the same resamples.
    """

    strength: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Arena(JsonRecord):
    """The figures of an arena; undefined ones are NaN with a reason.

    Attributes:
        turns: which votes the figures are computed from.
        systems: best first if they have ranks, else by name.
        model: strengths, the effect of the side, and how likely ties are.
        duels: the win matrix.
        tie_share, both_bad: of all votes.
        first_turns: by system; None if only the first votes were used.
    """

    turns: Turns
    n_votes: int
    n_sessions: int
    n_participants: int
    n_queries: int
    systems: Mapping[str, Standing]
    ranks: RankRanges
    model: StrengthsAndSide
    duels: Sequence[Duel]
    tie_share: Estimate
    both_bad: Estimate
    position_bias: PositionBias
    within_sessions: WithinSessions
    pairing: Pairing
    first_turns: Mapping[str, FirstTurns] | None = field(default=None)

    @property
    def lack(self) -> Lack | None:
        """The reason why a leaderboard has no ranking; None if it has one."""
        if self.n_participants < FEWEST_PARTICIPANTS:
            return "participants"
        if any(each.votes < FEWEST_VOTES for each in self.systems.values()):
            return "votes"
        return "strengths" if self.ranks.reason else None

    @property
    def too_few(self) -> str | None:
        """The reason in words."""
        if self.lack == "participants":
            return f"a ranking needs votes from {FEWEST_PARTICIPANTS} participants or more"
        if self.lack == "votes":
            return f"a ranking needs {FEWEST_VOTES} votes or more on each system"
        return self.ranks.reason

    def to_json(self) -> dict[str, object]:
        fields = dict(vars(self))
        model, duels = fields.pop("model"), fields.pop("duels")
        return {
            **{name: json_value(value) for name, value in fields.items()},
            "davidson": model.to_json(),
            "win_matrix": json_value(duels),
        }


def arena(
    votes: pd.DataFrame,
    names: Sequence[str] | None = None,
    *,
    turns: Turns = "all",
    unit: Unit | None = None,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> Arena:
    """Compute the figures of a table of votes; see `votes` for its columns.

    Args:
        names: the systems; by default those with votes.
        turns: all votes, or only the first of each session. Later turns depend on the earlier
            votes, so only the first votes compare the systems on the same searches.

    Raises:
        UnreadableInput: the table lacks a column, or `turns` or `unit` is unknown.
    """
    if turns not in TURNS:
        raise UnreadableInput("turns", f"no such turns: {turns}", f"use {' or '.join(TURNS)}")
    all_votes = Votes.of(votes, names)
    taken = all_votes.taken(turns)
    bootstrap = Bootstrap.of_rows(
        taken.rows,
        taken.triplets,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
    )
    result = figures(taken, bootstrap)
    if turns == "all":
        return replace(result, first_turns=first_turns(taken, result.model, bootstrap))
    return replace(result, turns=turns)


def figures(votes: Votes, bootstrap: Bootstrap) -> Arena:
    rows, names = votes.rows, list(votes.names)
    model = strengths_and_side(rows, names, bootstrap)
    ranks = rank_ranges(model.strengths(), names, bootstrap)
    standings = standings_of(votes, model, ranks, bootstrap)
    order = [*ranks.systems, *(name for name in names if name not in ranks.systems)]
    everything = np.full(len(rows), ALL, dtype=object)
    return Arena(
        turns="all",
        n_votes=len(rows),
        n_sessions=int(rows["question_id"].nunique()),
        n_participants=int(rows["participant_id"].nunique()),
        n_queries=int(rows["query_id"].nunique()),
        systems={name: standings[name] for name in order},
        ranks=ranks,
        model=model,
        duels=win_matrix(rows, names, bootstrap),
        tie_share=_shares(rows, is_tie(rows), everything, [ALL], bootstrap)[ALL],
        both_bad=_shares(rows, rows["both_bad"].to_numpy(), everything, [ALL], bootstrap)[ALL],
        position_bias=position_bias(rows, bootstrap),
        within_sessions=within_sessions(votes, bootstrap),
        pairing=pairing(votes),
    )


def standings_of(
    votes: Votes, model: StrengthsAndSide, ranks: RankRanges, bootstrap: Bootstrap
) -> dict[str, Standing]:
    rows, names = votes.rows, list(votes.names)
    lists = pd.concat([rows.assign(system=rows[f"system_{side}"]) for side in (1, 2)])
    systems = lists["system"].to_numpy(object)
    won = win_rates(rows, names, bootstrap)
    ties = _shares(lists, is_tie(lists), systems, names, bootstrap)
    bad = _shares(lists, lists["both_bad"].to_numpy(), systems, names, bootstrap)
    known = model.strengths().estimates
    standings = {}
    for name in names:
        own = lists[systems == name]
        undefined = Estimate(UNDEFINED, len(own), None, model.reason)
        strength = known.get(name, undefined)
        standings[name] = Standing(
            strength=strength,
            rating=rated(strength),
            rank=ranks.systems.get(name),
            votes=len(own),
            sessions=int(own["question_id"].nunique()),
            win_rate=won[name],
            tie_share=ties[name],
            both_bad=bad[name],
        )
    return standings


def rated(strength: Estimate) -> Estimate:
    """A strength and its interval on the scale of ratings."""
    ci = strength.ci
    if ci is not None:
        ci = replace(ci, low=rating_of(ci.low), high=rating_of(ci.high))
    return replace(strength, value=rating_of(strength.value), ci=ci)


def first_turns(
    votes: Votes, model: StrengthsAndSide, bootstrap: Bootstrap
) -> dict[str, FirstTurns]:
    """Strengths by the first votes, compared with those by all votes."""
    first = votes.taken("first")
    by_first = strengths_and_side(first.rows, list(votes.names), bootstrap)
    reason = by_first.reason or model.reason
    n = len(first.rows)
    if reason is not None:
        undefined = Estimate(UNDEFINED, n, None, reason)
        known = by_first.strengths().estimates
        return {name: FirstTurns(known.get(name, undefined), undefined) for name in votes.names}
    differences: FloatArray = by_first.resampled - model.resampled
    return {
        name: FirstTurns(
            by_first.strengths().estimates[name],
            Estimate(float(difference[0]), n, bootstrap.interval(difference, votes.rows)),
        )
        for name, difference in zip(votes.names, differences.T, strict=True)
    }


def is_tie(rows: pd.DataFrame) -> NDArray[np.bool_]:
    ties: NDArray[np.bool_] = (rows["preferred"] == 0).to_numpy()
    return ties


def _shares(
    rows: pd.DataFrame,
    counted: NDArray[np.bool_],
    groups: NDArray[np.object_],
    names: Sequence[str],
    bootstrap: Bootstrap,
) -> dict[str, Estimate]:
    return group_means(rows, counted.astype(np.float64), groups, names, bootstrap, RATE)


KIND = "arena"
"""Of releases of arenas, in their manifests."""
TABLE = "votes"


@dataclass(frozen=True)
class ArenaAnalysis(JsonRecord):
    release: AnalysedRelease
    arena: Arena

    def to_json(self) -> dict[str, object]:
        return {"release": self.release.to_json(), **self.arena.to_json()}


def analyze_arena(
    folder: Path,
    *,
    part: str | None = None,
    turns: Turns = "all",
    unit: Unit | None = None,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> ArenaAnalysis:
    """Read the votes of a release folder and compute their figures.

    UnreadableInput: a file is missing or unreadable, or the part is unknown.
    """
    columns = [name for name in COLUMNS if name not in ("question_id", "query_id")]
    release = read_judged(folder, TABLE, columns)
    if part is not None:
        release = take_judged_part(release, part)
    figures = arena(
        release.answers,
        turns=turns,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
    )
    return ArenaAnalysis(
        AnalysedRelease(**AnalysedRelease.facts_of(release, release.answers)), figures
    )
