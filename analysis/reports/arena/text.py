"""The figures of an arena as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from hsfiq.analysis.arena.arena import Arena, Standing
from hsfiq.analysis.arena.release import ArenaAnalysis
from hsfiq.analysis.reports.arena.words import (
    METHODS,
    about,
    pairing_lines,
    side_text,
    votes_used,
    within_sessions_text,
)
from hsfiq.analysis.reports.text.format import estimate_text, folded, interval_text
from hsfiq.analysis.resampling.estimate import Estimate

SIMULATED = "SIMULATED: these votes come from simulated participants, not from people."
NAME, COLUMN = 18, 25  # characters


def arena_text(analysis: ArenaAnalysis) -> str:
    """Lines of at most 100 characters, unless a word is longer, without a final newline."""
    arena = analysis.arena
    blocks = [
        [about(analysis), *([SIMULATED] if analysis.release.simulated else [])],
        [*ranking_lines(arena)],
        [*share_lines(arena)],
        [*win_lines(arena)],
        [*first_turn_lines(arena)],
        [side_text(arena), within_sessions_text(arena), *pairing_lines(arena)],
        [votes_used(arena), METHODS, "Intervals: 95%; --json has each one's method."],
    ]
    return "\n\n".join("\n".join(map(folded, block)) for block in blocks if block)


def row(name: str, *cells: str) -> str:
    return f"  {name:<{NAME}}{''.join(f'{cell:<{COLUMN}}' for cell in cells)}".rstrip()


def ranking_lines(arena: Arena) -> Iterator[str]:
    yield row("system", "rank", "rating", "strength (log odds)")[2:]
    for name, each in arena.systems.items():
        yield row(name, rank_text(each), rating_text(each.rating), estimate_text(each.strength, 3))
    if arena.ranks.reason is not None:
        yield f"ranks are undefined: {arena.ranks.reason}"
    if arena.too_few is not None and arena.too_few != arena.ranks.reason:
        yield f"a leaderboard would not show this: {arena.too_few}"


def rank_text(standing: Standing) -> str:
    if standing.rank is None:
        return "undefined"
    return f"{standing.rank.rank} ({standing.rank.text()})"


def rating_text(rating: Estimate) -> str:
    if rating.reason is not None:
        return "undefined"
    return f"{rating.value:.0f} {interval_text(rating.ci, 0)}"


def share_lines(arena: Arena) -> Iterator[str]:
    yield row("votes on", "win rate", "neither better", "both bad")[2:]
    for name, each in arena.systems.items():
        shares = (each.win_rate, each.tie_share, each.both_bad)
        yield row(f"{name}, {each.votes:,}", *(estimate_text(share, 3) for share in shares))
    of_all = (arena.tie_share, arena.both_bad)
    yield row(f"all, {arena.n_votes:,}", "", *(estimate_text(share, 3) for share in of_all))


def win_lines(arena: Arena) -> Iterator[str]:
    yield "wins, ties and losses in direct comparisons, and the win rate"
    duels = {(duel.system, duel.other): duel for duel in arena.duels}
    for better, worse in combinations(arena.systems, 2):
        duel = duels[better, worse]
        counts = f"{duel.wins:,} - {duel.ties:,} - {duel.losses:,}"
        yield f"  {better} against {worse}: {counts}, {estimate_text(duel.rate, 3)}"


def first_turn_lines(arena: Arena) -> Iterator[str]:
    if arena.first_turns is None:
        return
    yield row("first votes alone", "strength", "less that of all votes")[2:]
    for name in arena.systems:
        each = arena.first_turns[name]
        yield row(name, estimate_text(each.strength, 3), estimate_text(each.difference, 3))
