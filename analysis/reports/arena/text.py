"""The figures of an arena as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
NAME, GAP = 16, 2  # characters
"""The least width of the names, and the distance of two columns."""


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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines with columns; the first has the names, which are indented."""
    lines = [head, *(["  " + name, *cells] for name, *cells in rows)]
    widths = [max(map(len, column)) + GAP for column in zip(*lines, strict=True)]
    widths[0] = max(widths[0], NAME + GAP)
    for line in lines:
        yield "".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def ranking_lines(arena: Arena) -> Iterator[str]:
    yield from table(
        ("system", "rank", "rating", "strength (log odds)"),
        (
            (name, rank_text(each), rating_text(each.rating), estimate_text(each.strength, 3))
            for name, each in arena.systems.items()
        ),
    )
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
    rows = [
        (
            f"{name}, {each.votes:,}",
            *(estimate_text(share, 3) for share in (each.win_rate, each.tie_share, each.both_bad)),
        )
        for name, each in arena.systems.items()
    ]
    of_all = [estimate_text(share, 3) for share in (arena.tie_share, arena.both_bad)]
    yield from table(
        ("votes on", "win rate", "neither better", "both bad"),
        [*rows, (f"all, {arena.n_votes:,}", "", *of_all)],
    )


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
    first = {name: arena.first_turns[name] for name in arena.systems}
    yield from table(
        ("first votes alone", "strength", "less that of all votes"),
        (
            (name, estimate_text(each.strength, 3), estimate_text(each.difference, 3))
            for name, each in first.items()
        ),
    )
