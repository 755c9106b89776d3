"""The figures that a leaderboard shows of an arena, the same in every language."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from hsfiq.annotate.owner.fragments import DASH, percent

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.arena import Arena, Standing
    from hsfiq.analysis.resampling.bootstrap import Estimate

SHADES = (0.05, 0.2, 0.35, 0.45, 0.55, 0.65, 0.8, 0.95)
"""Where the shades of the win matrix change; the middle one is that of equal systems."""


Strength = tuple[str, float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the page shows; its fields are also its JSON.

    Attributes:
        lack: what there is too little of for a ranking; then the rest is empty. `fewest` is how
            much of it is needed, if that is a number.
        places: the rows of the ranking, as texts.
        strengths: each system's name with its strength and the ends of the interval, None if it is
            undefined.
        wins: the rows of the win matrix; a cell is None where nothing is compared.
    """

    votes: int
    searches: int
    participants: int
    lack: str | None
    fewest: int | None
    places: list[dict[str, str]]
    strengths: list[Strength]
    wins: list[dict[str, Any]]

    @classmethod
    def of(cls, arena: Arena) -> Figures:
        from hsfiq.analysis.kinds.arena import FEWEST_PARTICIPANTS, FEWEST_VOTES  # noqa: PLC0415 (the extra may be absent)

        fewest = {"participants": FEWEST_PARTICIPANTS, "votes": FEWEST_VOTES}
        ranked = arena.lack is None
        return cls(
            votes=arena.n_votes,
            searches=arena.n_sessions,
            participants=arena.n_participants,
            lack=arena.lack,
            fewest=None if arena.lack is None else fewest.get(arena.lack),
            places=[place_of(*item) for item in arena.systems.items()] if ranked else [],
            strengths=strengths_of(arena) if ranked else [],
            wins=wins_of(arena) if ranked else [],
        )


def place_of(name: str, standing: Standing) -> dict[str, str]:
    rank, rating = standing.rank, standing.rating
    return {
        "name": name,
        "rank": DASH if rank is None else str(rank.rank),
        "range": "" if rank is None else rank.text().replace("-", DASH),
        "rating": DASH if isnan(rating.value) else f"{rating.value:,.0f}",
        "ends": ends_text(rating),
        "votes": f"{standing.votes:,}",
        "both_bad": DASH if isnan(standing.both_bad.value) else percent(standing.both_bad.value),
    }


def ends_text(rating: Estimate) -> str:
    if rating.ci is None or isnan(rating.ci.low):
        return ""
    return f"{rating.ci.low:,.0f} {DASH} {rating.ci.high:,.0f}"


def strengths_of(arena: Arena) -> list[Strength]:
    strengths = []
    for name, standing in arena.systems.items():
        value, ci = standing.strength.value, standing.strength.ci
        ends = (None, None) if ci is None else (known(ci.low), known(ci.high))
        strengths.append((name, known(value), *ends))
    return strengths


def known(value: float) -> float | None:
    return None if isnan(value) else value


def wins_of(arena: Arena) -> list[dict[str, Any]]:
    """The rows of the win matrix; a cell is empty where nothing is compared."""
    duels = {(duel.system, duel.other): duel for duel in arena.duels}
    rows = []
    for system in arena.systems:
        cells: list[dict[str, Any] | None] = []
        for other in arena.systems:
            duel = duels.get((system, other))
            if duel is None or isnan(duel.rate.value):
                cells.append(None)
                continue
            share = duel.rate.value
            cells.append(
                {
                    "share": f"{100 * share:.0f} %",
                    "n": f"{duel.rate.n:,}",
                    "shade": sum(share >= edge for edge in SHADES),
                }
            )
        rows.append({"system": system, "cells": cells})
    return rows
