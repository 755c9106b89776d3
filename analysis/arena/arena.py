"""The figures of an arena: a leaderboard, and how far it can be trusted.

Strengths are those of `systems.davidson`: Bradley and Terry's model (1952) with Davidson's ties
(1970), and the effect of the side by Davidson and Beaver (1977). "Both bad" is a tie. Votes of one
participant depend on each other, so whole participants are resampled, and triplets too where
several participants voted on a triplet (`Bootstrap.of_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arena.pairing import Pairing, pairing
from hsfiq.analysis.arena.votes import TURNS, Turns, Votes
from hsfiq.analysis.arena.within_sessions import WithinSessions, within_sessions
from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import DEFAULT_RESAMPLES, Bootstrap, Unit
from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.resampling.spread import RATE
from hsfiq.analysis.statistics.position import PositionBias, position_bias
from hsfiq.analysis.systems.davidson import StrengthsAndSide, strengths_and_side
from hsfiq.analysis.systems.rank_ranges import RankRange, RankRanges, rank_ranges
from hsfiq.analysis.systems.systems import win_rates
from hsfiq.analysis.systems.win_matrix import Duel, win_matrix

MEAN_RATING, POINTS = 1000.0, 400.0
"""rating = 1000 + 400 s / ln 10: 400 points more are odds of 10 to 1, the mean system has 1000."""
FEWEST_PARTICIPANTS = 5
FEWEST_VOTES = 20
"""Of each system. With fewer of either, a leaderboard has no ranking."""
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
        systems: best first where they have ranks, else by name.
        model: strengths, the effect of the side, and how likely ties are.
        duels: the win matrix.
        tie_share, both_bad: of all votes.
        first_turns: by system; None if only the first votes were taken anyway.
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
        """What a leaderboard lacks for a ranking; None if it can have one."""
        if self.n_participants < FEWEST_PARTICIPANTS:
            return "participants"
        if any(each.votes < FEWEST_VOTES for each in self.systems.values()):
            return "votes"
        return "strengths" if self.ranks.reason else None

    @property
    def too_few(self) -> str | None:
        """The lack in words."""
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
    few_clusters: bool = False,
) -> Arena:
    """Compute the figures of a table of votes; see `votes` for its columns.

    Args:
        names: the systems; by default those with votes.
        turns: all votes, or only the first of each session. What later turns show depends on the
            votes before, so the first ones alone compare the systems on the same searches.

    Raises:
        AnalysisError: the table lacks a column, or `turns` or `unit` is unknown.
    """
    if turns not in TURNS:
        raise AnalysisError("turns", f"no such turns: {turns}", f"use {' or '.join(TURNS)}")
    all_votes = Votes.of(votes, names)
    taken = all_votes.taken(turns)
    bootstrap = Bootstrap.of_rows(
        taken.rows,
        taken.triplets,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
        is_widened=few_clusters,
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
    """Strengths by the first votes, compared with those by all."""
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
