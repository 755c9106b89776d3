"""The report of an arena: the leaderboard, the win matrix, and how far the figures hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hsfiq.analysis.arena.arena import FEWEST_PARTICIPANTS, Arena
from hsfiq.analysis.arena.release import ArenaAnalysis
from hsfiq.analysis.reports.arena.charts import strengths_chart, win_matrix_chart
from hsfiq.analysis.reports.arena.words import (
    METHODS,
    SIMULATED,
    about,
    pairing_lines,
    side_text,
    votes_used,
    within_sessions_text,
)
from hsfiq.analysis.reports.cells import estimate_cell, number_cell
from hsfiq.analysis.reports.document import Block, Cell, Column, Document, Row, Section, Table
from hsfiq.analysis.reports.formats.folder import report_files
from hsfiq.analysis.reports.sections.systems.ranks import rank_cells, win_matrix_table
from hsfiq.analysis.resampling.estimate import Estimate

CLOSING = (
    "Intervals are 95% bootstrap intervals over participants, and over triplets too where several "
    "participants voted on one. results.json and tables/*.csv hold the figures in full precision, "
    "each with its n, clusters, method and seed. An undefined figure is a dash here and null in "
    "JSON, always with a reason."
)


def arena_report(analysis: ArenaAnalysis, style: str | None = None) -> dict[str, bytes]:
    """The content of the report's files, by their paths in its folder; see `report_files`."""
    return report_files(document_of(analysis), analysis.to_json(), style)


def document_of(analysis: ArenaAnalysis) -> Document:
    release, arena = analysis.release, analysis.arena
    return Document(
        title=f"The arena: {release.name} {release.version}",
        summary=f"{about(analysis)}.",
        simulated=release.simulated,
        caveats=tuple(caveats(analysis)),
        sections=(
            Section("leaderboard", "Leaderboard", tuple(leaderboard(arena))),
            Section("wins", "Direct comparisons", tuple(wins(arena))),
            Section("trust", "How far the figures hold", tuple(trust(arena))),
            Section("methods", "Methods", (METHODS, CLOSING)),
        ),
    )


def caveats(analysis: ArenaAnalysis) -> Iterator[tuple[str, str]]:
    if analysis.release.simulated:
        yield "Simulated votes", SIMULATED
    arena = analysis.arena
    if arena.too_few is not None:
        yield "No ranking", f"{arena.too_few[0].upper()}{arena.too_few[1:]}."
    elif arena.n_participants < 2 * FEWEST_PARTICIPANTS:
        yield "Few participants", "A few people cannot show how much others differ."
    yield "Which votes", votes_used(arena)


def leaderboard(arena: Arena) -> Iterator[Block]:
    yield strengths_chart(arena)
    rows: list[Row] = []
    for name, each in arena.systems.items():
        rank: Cell = rank_cells(arena.ranks, name)[0]
        strength = replace(estimate_cell(each.strength), style="signed")
        shares = (each.win_rate, each.tie_share, each.both_bad)
        rows.append(
            (name, rank, rating_cell(each.rating), strength, each.votes, each.sessions,
             *map(estimate_cell, shares))
        )  # fmt: skip
    columns = (
        Column("system", "System"),
        Column("rank", "Rank"),
        Column("rating", "Rating"),
        Column("strength", "Strength (log odds)"),
        Column("votes", "Votes"),
        Column("sessions", "Sessions"),
        Column("win_rate", "Win rate"),
        Column("ties", "Neither better"),
        Column("both_bad", "Both bad"),
    )
    yield Table("arena", "The systems, best first", columns, tuple(rows))


def rating_cell(rating: Estimate) -> Cell:
    return replace(estimate_cell(rating), style="short")


def wins(arena: Arena) -> Iterator[Block]:
    yield win_matrix_chart(arena.duels, list(arena.systems))
    yield win_matrix_table(arena.duels, list(arena.systems))
    rows = tuple(
        (duel.system, duel.other, duel.wins, duel.ties, duel.losses, estimate_cell(duel.rate))
        for duel in arena.duels
    )
    columns = (
        Column("system", "System"),
        Column("other", "Against"),
        Column("wins", "Wins"),
        Column("ties", "Ties"),
        Column("losses", "Losses"),
        Column("rate", "Win rate"),
    )
    yield Table("duels", "Direct comparisons of two systems", columns, rows)


def trust(arena: Arena) -> Iterator[Block]:
    if arena.first_turns is not None:
        rows = tuple(
            (
                name,
                replace(estimate_cell(arena.first_turns[name].strength), style="signed"),
                replace(estimate_cell(arena.first_turns[name].difference), style="signed"),
            )
            for name in arena.systems
        )
        columns = (
            Column("system", "System"),
            Column("strength", "Strength"),
            Column("difference", "Less that of all votes"),
        )
        yield Table("first_votes", "Strengths by the first votes alone", columns, rows)
    yield side_text(arena)
    bias = arena.position_bias
    yield Table(
        "side",
        "How often list 1 is preferred, whatever the systems",
        (Column("rate", "List 1"), Column("p", "p, binomial"), Column("p_clustered", "p, people")),
        (
            (
                number_cell(bias.rate, bias.reason, n=bias.n, ci=bias.ci),
                number_cell(bias.p, bias.reason, style="p"),
                number_cell(bias.p_clustered, bias.reason, style="p"),
            ),
        ),
    )
    yield within_sessions_text(arena)
    yield from (f"{line.rstrip('.')}." for line in pairing_lines(arena))
