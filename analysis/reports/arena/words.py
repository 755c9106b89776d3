"""What the text and the report of an arena say in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.arena.arena import Arena
from hsfiq.analysis.arena.release import ArenaAnalysis
from hsfiq.analysis.counts import count_text

SIMULATED = "The votes come from simulated participants. Every figure describes the simulation."
METHODS = (
    "Strengths are log odds centred at 0, by Bradley and Terry's model (1952) with Davidson's ties "
    "(1970), in which both bad is a tie, and the effect of the side by Davidson and Beaver (1977). "
    "The rating is 1000 + 400 s / ln 10 for a strength s: 400 points more are odds of 10 to 1. "
    "Rank ranges hold together for all systems (Mogstad, Romano, Shaikh and Wilhelm 2024). In the "
    "win rate, ties count half."
)
FIRST_VOTES = "Only the first vote of each session is used."
ALL_VOTES = (
    "All votes are used. What later turns show depends on the list that the participant went on "
    "from, so the first votes alone are compared with all."
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
        f"{arena.n_votes:,} votes say as much as {independent:,.0f} independent ones "
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
        yield f"Every two systems have {count_text(pairing.fewest, 'session')} with votes."
    else:
        yield (
            f"Two systems have from {pairing.fewest:,} to {pairing.most:,} sessions with votes: "
            "unfinished sessions unbalance the pairs."
        )
    for pair in pairing.pairs:
        yield (
            f"{pair.system} and {pair.other}: {count_text(pair.sessions, 'session')}, "
            f"{count_text(pair.votes, 'vote')}, {pair.system} as list 1 in {pair.system_first:,}"
        )
