"""The report of an arena: its text and its charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.kinds.arena import FEWEST_PARTICIPANTS, Arena, ArenaAnalysis
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.document import (
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Row,
    Section,
    Table,
    estimate_cell,
    number_and_interval,
    number_cell,
)
from hsfiq.analysis.reports.html import report_files
from hsfiq.analysis.reports.systems import rank_cells, win_matrix_table
from hsfiq.analysis.reports.text import INTERVALS, to_text
from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.systems.ranks import Duel
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The charts of an arena: strengths with their intervals, and the win matrix.

COLOURS = "PuOr"
"""Purple and orange, which colour-blind readers can distinguish."""
CELL_HEIGHT = 0.45  # inches
DARK = 0.3
"""At this distance from 0.5 or more, a cell is dark and its text white."""


def strengths_chart(arena: Arena) -> Chart:
    return charts.interval_chart(
        "arena",
        "Strength of each system",
        "Strengths with 95% intervals, best first.",
        "For each system, its strength in log odds with its interval, as in the table.",
        rows=[f"{name}\nn = {each.votes:,}" for name, each in arena.systems.items()],
        series={"strength": [estimate_cell(each.strength) for each in arena.systems.values()]},
        x_label="strength (log odds)",
        reference=(0.0, "mean system"),
    )


def win_matrix_chart(duels: Sequence[Duel], names: Sequence[str]) -> Chart:
    rates = {(duel.system, duel.other): duel.rate for duel in duels}

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        nan = float("nan")
        values = [[rates[i, j].value if i != j else nan for j in names] for i in names]
        axes.pcolormesh(values, cmap=COLOURS, vmin=0, vmax=1, edgecolors="white")
        axes.invert_yaxis()
        for row, of_row in enumerate(values):
            for column, value in enumerate(of_row):
                if isnan(value):
                    continue
                colour = "white" if abs(value - 0.5) > DARK else charts.INK
                text = f"{value:.2f}\nn = {rates[names[row], names[column]].n:,}"
                axes.text(column + 0.5, row + 0.5, text, color=colour, ha="center", va="center")
        places = [place + 0.5 for place in range(len(names))]
        axes.set_yticks(places, [charts.shorten(name) for name in names])
        axes.set_xticks(places, [charts.shorten(name, 16) for name in names])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)

    return Chart(
        "win_matrix",
        "Win matrix",
        "How often the system of the row was preferred to that of the column, ties counted half; "
        "n is the number of votes between the two.",
        "A matrix with a row and a column for each system, best first, with the shares of the "
        "table.",
        (charts.WIDTH, 0.8 + CELL_HEIGHT * len(names)),
        paint,
        is_empty=all(isnan(rate.value) for rate in rates.values()),
    )


# What the text and the report of an arena say in the same words.

SIMULATED_VOTES = (
    "The votes come from simulated participants. Every figure describes the simulation."
)
METHODS = (
    "Strengths are log odds centred at 0, by Bradley and Terry's model (1952) with Davidson's ties "
    "(1970), in which both bad is a tie, and the effect of the side by Davidson and Beaver (1977). "
    "The rating is 1000 + 400 s / ln 10 for a strength s: a difference of 400 points means odds of "
    "10 to 1. "
    "Rank ranges hold simultaneously for all systems (Mogstad, Romano, Shaikh and Wilhelm 2024). "
    "In the "
    "win rate, ties count half."
)
FIRST_VOTES = "Only the first vote of each session is used."
ALL_VOTES = (
    "All votes are used. Later turns depend on the list from which the participant continued, so "
    "the first votes alone are compared with all votes."
)


def about(analysis: ArenaAnalysis) -> str:
    release, arena = analysis.release, analysis.arena
    part = f", part {release.part}" if release.part else ""
    return (
        f"{release.name} {release.version} ({release.kind}, study {release.study}{part}): "
        f"{counts(arena)}"
    )


def counts(arena: Arena) -> str:
    return (
        f"{count_text(arena.n_votes, 'vote')} in {count_text(arena.n_sessions, 'session')} about "
        f"{count_text(arena.n_queries, 'query', 'queries')}, "
        f"{count_text(arena.n_participants, 'participant')}"
    )


def votes_used(arena: Arena) -> str:
    return FIRST_VOTES if arena.turns == "first" else ALL_VOTES


def within_sessions_text(arena: Arena) -> str:
    within = arena.within_sessions
    if isnan(within.correlation.value):
        return f"Correlation of the votes of one session: undefined, {within.correlation.reason}."
    independent = arena.n_votes / max(within.design_effect, 1)
    return (
        f"The correlation of two votes of one session is {within.correlation.value:.3f}: "
        f"{arena.n_votes:,} votes are worth {independent:,.0f} independent ones "
        f"(design effect {within.design_effect:.2f})."
    )


def side_text(arena: Arena) -> str:
    model = arena.model
    if model.reason is not None:
        return f"Effect of the side: undefined, {model.reason}."
    ci = model.side.ci
    ends = "" if ci is None or isnan(ci.low) else f" [{ci.low:.3f}, {ci.high:.3f}]"
    return (
        f"Effect of the side: log odds of list 1 {model.side.value:+.3f}{ends}; between two equal "
        f"systems list 1 is preferred in {model.set_1_rate:.1%} of the votes without a tie."
    )


def pairing_lines(arena: Arena) -> Iterator[str]:
    """The balance of the pairs of systems."""
    pairing = arena.pairing
    if pairing.fewest == pairing.most:
        yield f"Every pair of systems has {count_text(pairing.fewest, 'session')} with votes."
    else:
        yield (
            f"The pairs of systems have {pairing.fewest:,} to {pairing.most:,} sessions with "
            "votes: unfinished sessions unbalance them."
        )
    for pair in pairing.pairs:
        yield (
            f"{pair.system} and {pair.other}: {count_text(pair.sessions, 'session')}, "
            f"{count_text(pair.votes, 'vote')}, {pair.system} as list 1 in {pair.system_first:,}"
        )


# The report of an arena: the leaderboard, the win matrix, and how far the figures hold.

CLOSING = (
    "Intervals are 95% bootstrap intervals over participants, and over triplets too where several "
    "participants voted on one. results.json and tables/*.csv hold the figures in full precision, "
    "each with its n, clusters, method and seed. An undefined figure is a dash here and null in "
    "JSON, always with a reason."
)


def arena_text(analysis: ArenaAnalysis) -> str:
    """The figures as plain text; see `to_text`."""
    return to_text(document_of(analysis), METHODS, INTERVALS)


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
            Section("trust", "Robustness of the figures", tuple(trust(arena))),
            Section("methods", "Methods", (METHODS, CLOSING)),
        ),
    )


def caveats(analysis: ArenaAnalysis) -> Iterator[tuple[str, str]]:
    if analysis.release.simulated:
        yield "Simulated votes", SIMULATED_VOTES
    arena = analysis.arena
    if arena.too_few is not None:
        yield "No ranking", f"{arena.too_few[0].upper()}{arena.too_few[1:]}."
    elif arena.n_participants < 2 * FEWEST_PARTICIPANTS:
        yield "Few participants", "So few people cannot show how much people differ."
    yield "Which votes", votes_used(arena)


def leaderboard(arena: Arena) -> Iterator[Block]:
    yield strengths_chart(arena)
    neither, both = map(number_and_interval, (arena.tie_share, arena.both_bad))
    yield f"Share of all votes: neither list better {neither}; both bad {both}."
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
            Column("difference", "Difference from all votes"),
        )
        yield Table("first_votes", "Strengths by the first votes alone", columns, rows)
    yield side_text(arena)
    bias = arena.position_bias
    yield Table(
        "side",
        "How often list 1 is preferred, regardless of the systems",
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
