"""The targets' ranks in the rounds of one system's sessions.

A rank may be unknown where only the first images of a list are recorded: the rank is then below all
recorded images. So each rank is a range, whose ends are equal where the rank is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.json_results import BoolArray, FloatArray, JsonRecord
from hsfiq.errors import UnreadableInput

# The rules by which sessions are measured, where papers differ or leave them open.

AfterStop = Literal["carry", "drop"]
"""The treatment of a session after its last round: its last list counts, or it is excluded."""
AFTER_STOP: tuple[AfterStop, ...] = get_args(AfterStop)

Ties = Literal["corpus", "expected"]
"""The rank among images of the same score: by the corpus' order, or expected in random order."""
TIES: tuple[Ties, ...] = get_args(Ties)

DEFAULT_KS = (1, 5, 10, 50)


@dataclass(frozen=True)
class Rules(JsonRecord):
    """How sessions are measured.

    Attributes:
        ks: of Hits@K, Recall@K and the rounds to success; none for the default ones.
        rounds: the rounds that are printed; JSON and the report have all.
    """

    ks: tuple[int, ...] = ()
    after_stop: AfterStop = "carry"
    ties: Ties = "corpus"
    rounds: tuple[int, ...] = ()

    def printed_rounds(self, n_rounds: int) -> tuple[int, ...]:
        """Those of the rules; without any, the first, the middle and the last one."""
        wanted = self.rounds or (1, (1 + n_rounds) // 2, n_rounds)
        return tuple(sorted({each for each in wanted if each <= n_rounds}))

    def __post_init__(self) -> None:
        if any(k < 1 for k in self.ks):
            raise UnreadableInput("--k", "every K must be 1 or more", "such as --k 1 --k 10")
        for option, value, known in (
            ("--after-stop", self.after_stop, AFTER_STOP),
            ("--ties", self.ties, TIES),
        ):
            if value not in known:
                raise UnreadableInput(
                    option, f"{value!r} is not known", f"use one of {', '.join(known)}"
                )


FISD = Rules(ks=(1, 5, 10, 50), rounds=(1, 3, 5))
"""FISD (arXiv 2604.12904): Hits (table 2) and Recall (table 8) after rounds 1, 3 and 5.

The paper does not specify `after_stop` and `ties`. Its Recall falls below its Hits in later
rounds, so its sessions do not stop at a hit, and `after_stop` has no effect on such sessions.
"""


def allowed_ks(wanted: Sequence[int], stop_at: int | None) -> tuple[int, ...]:
    """The wanted K, in order; without any, the default ones that a stop does not censor.

    A session that stops when the target is among the first `stop_at` images does not show whether
    later rounds would have found it among the first K < `stop_at`.

    Raises:
        UnreadableInput: a stop censors a wanted K.
    """
    least = stop_at or 1
    if censored := [k for k in wanted if k < least]:
        raise UnreadableInput(
            "--k",
            f"the sessions stop once the target is among the first {least}, which censors "
            f"Hits@{censored[0]}",
            f"ask for K of {least} or more, or play without a stop",
        )
    if wanted:
        return tuple(sorted(set(wanted)))
    return tuple(k for k in DEFAULT_KS if k >= least) or (least,)


SESSION_COLUMNS = (
    *("system", "session_id", "query_id", "participant_id", "has_target"),
    *("stop_at", "stop_reason", "max_rounds"),
)
ROUND_COLUMNS = (
    *("system", "session_id", "round", "rank", "ties", "earlier_ties", "depth"),
    *("reference", "words", "is_repeated_text", "seconds", "satisfaction"),
)
"""`earlier_ties` of the target's `ties` come before it; `depth` images of the list are recorded."""


@dataclass(frozen=True, eq=False)
class RankRange:
    """Ranks of S sessions in T rounds: from `low` to `high`, (S, T), NaN where left out."""

    low: FloatArray
    high: FloatArray

    @property
    def is_included(self) -> BoolArray:
        return ~np.isnan(self.low)

    @property
    def is_known(self) -> BoolArray:
        known: BoolArray = self.low == self.high
        return known

    def within(self, k: int) -> tuple[FloatArray, BoolArray]:
        """Whether the rank is at most k, (S, T) of 0 and 1, and where that is known."""
        return (self.high <= k).astype(np.float64), (self.high <= k) | (self.low > k)

    def best(self) -> RankRange:
        """The best rank so far; a session that has ended keeps its best rank."""
        return RankRange(
            np.fmin.accumulate(self.low, axis=1), np.fmin.accumulate(self.high, axis=1)
        )

    def carried(self) -> RankRange:
        """The ranks with the last rank of a session repeated in later rounds."""
        return RankRange(*(filled_forward(each) for each in (self.low, self.high)))


@dataclass(frozen=True, eq=False)
class SystemSessions:
    """The sessions of one system, in the order of `sessions`.

    Attributes:
        sessions: S rows with `SESSION_COLUMNS`.
        rounds: the rows of their rounds with `ROUND_COLUMNS`.
        played: the ranks in the completed rounds.
    """

    sessions: pd.DataFrame
    rounds: pd.DataFrame
    played: RankRange

    @classmethod
    def of(cls, sessions: pd.DataFrame, rounds: pd.DataFrame, rules: Rules) -> SystemSessions:
        """The sessions of one system, with their ranks by the rule for ties."""
        places = places_of(sessions, rounds)
        ranges = np.full((2, len(sessions), int(rounds["round"].max())), np.nan)
        ranges[:, *places] = ends_of_ranks(rounds, rules.ties)
        ranges[:, ~sessions["has_target"].to_numpy(np.bool_)] = np.nan
        return cls(sessions, rounds, RankRange(*ranges))

    @property
    def n_rounds(self) -> int:
        return int(self.played.low.shape[1])

    def current(self, after_stop: AfterStop) -> RankRange:
        """The ranks in each round's list; after a session's end by the rule."""
        return self.played.carried() if after_stop == "carry" else self.played

    def best(self) -> RankRange:
        return self.played.best()

    def chosen(self, keep: BoolArray, n_rounds: int) -> SystemSessions:
        """The first rounds of the sessions for which (S,) is true."""
        sessions = self.sessions[keep].reset_index(drop=True)
        kept = self.rounds["session_id"].isin(sessions["session_id"])
        low, high = (each[keep, :n_rounds] for each in (self.played.low, self.played.high))
        rounds = self.rounds[kept & (self.rounds["round"] <= n_rounds)]
        return SystemSessions(sessions, rounds, RankRange(low, high))

    def by_round(self, column: str) -> FloatArray:
        """A column of the rounds as (S, T), NaN where there is no value."""
        values = np.full((len(self.sessions), self.n_rounds), np.nan)
        values[places_of(self.sessions, self.rounds)] = self.rounds[column].to_numpy(np.float64)
        return values


def places_of(
    sessions: pd.DataFrame, rounds: pd.DataFrame
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The session and the number, from 0, of each round."""
    rows = pd.Index(sessions["session_id"]).get_indexer(pd.Index(rounds["session_id"]))
    return rows, rounds["round"].to_numpy(np.intp) - 1


def ends_of_ranks(rounds: pd.DataFrame, ties_rule: Ties) -> FloatArray:
    """The least and the greatest rank that each round's target may have, (2, n)."""
    rank, ties, earlier, depth = (
        rounds[name].to_numpy(np.float64) for name in ("rank", "ties", "earlier_ties", "depth")
    )
    known = ~np.isnan(rank)
    if ties_rule == "corpus":
        return np.stack([np.where(known, rank, depth + 1), np.where(known, rank, np.inf)])
    ties = np.where(np.isnan(ties), np.inf, ties)
    earlier = np.where(ties == 0, 0.0, earlier)
    expected = rank - earlier + ties / 2
    low = np.where(np.isnan(expected), np.fmax(rank - ties / 2, 1), expected)
    high = np.where(np.isnan(expected), rank + ties / 2, expected)
    return np.stack([np.where(known, low, depth + 1), np.where(known, high, np.inf)])


def filled_forward(values: FloatArray) -> FloatArray:
    """The last value that is not NaN, in each place of each row of (S, T)."""
    places = np.where(np.isnan(values), 0, np.arange(values.shape[1]))
    filled: FloatArray = np.take_along_axis(values, np.maximum.accumulate(places, axis=1), axis=1)
    return filled
