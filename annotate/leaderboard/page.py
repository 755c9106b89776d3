"""The page of a leaderboard, in the language of its visitor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from hsfiq.annotate.leaderboard.standings import Standings
from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.fragments import DASH, percent
from hsfiq.annotate.pages import message_page, render
from hsfiq.annotate.texts import complete
from hsfiq.study.languages.standard import read

if TYPE_CHECKING:
    from hsfiq.analysis.arena.arena import Arena, Standing
    from hsfiq.analysis.resampling.estimate import Estimate

MINUTE = "%Y-%m-%d %H:%M UTC"
SHADES = (0.05, 0.2, 0.35, 0.45, 0.55, 0.65, 0.8, 0.95)
"""Where the shades of the win matrix change; the middle one is that of equal systems."""


@dataclass(frozen=True, slots=True)
class About:
    """What the page shows of the study besides its figures.

    `visible` is the study's `leaderboard`, told to the owner if others do not see the page.
    """

    title: str
    language: str
    is_simulated: bool
    takes_votes: bool
    visible: str = ""


def texts_in(language: str) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(read(f"leaderboard.{complete(language)}.json"))
    return texts


def leaderboard_page(about: About, standings: Standings) -> str:
    text, arena = texts_in(about.language), standings.arena
    return render(
        "leaderboard.html",
        title=text["title"].format(title=about.title),
        language=complete(about.language),
        about=about,
        text=text,
        facts=[] if arena is None else facts_of(arena, standings, text),
        updated=standings.at.isoformat(timespec="seconds"),
        missing=lack_of(arena, text),
        arena=arena if arena and arena.lack is None else None,
        places=[] if arena is None else [place_of(*item) for item in arena.systems.items()],
        plot="" if arena is None or arena.lack else plot_of(arena, text),
        wins=[] if arena is None else wins_of(arena),
    )


def no_leaderboard_page(language: str, root: str) -> str:
    """For an address without a leaderboard, or with one that is not for this visitor."""
    text = texts_in(language)
    return message_page(
        text["none_title"],
        complete(language),
        text["none_title"],
        text["none"],
        link=f"{root}owner",
        link_text=text["log_in"],
    )


def facts_of(arena: Arena, standings: Standings, text: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (text["votes"], f"{arena.n_votes:,}"),
        (text["searches"], f"{arena.n_sessions:,}"),
        (text["participants"], f"{arena.n_participants:,}"),
        (text["updated"], standings.at.strftime(MINUTE)),
    ]


def lack_of(arena: Arena | None, text: dict[str, Any]) -> str:
    """Why there is no ranking; empty if there is one."""
    if arena is None:
        return str(text["no_analysis"])
    from hsfiq.analysis.arena.arena import (  # noqa: PLC0415 (the extra is there)
        FEWEST_PARTICIPANTS,
        FEWEST_VOTES,
    )

    fewest = {"participants": FEWEST_PARTICIPANTS, "votes": FEWEST_VOTES}
    if arena.lack is None:
        return ""
    return str(text["lack"][arena.lack].format(fewest=fewest.get(arena.lack)))


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


def plot_of(arena: Arena, text: dict[str, Any]) -> str:
    rows = []
    for name, standing in arena.systems.items():
        ci = standing.strength.ci
        ends = (ci.low, ci.high) if ci else (float("nan"), float("nan"))
        rows.append(plots.Interval(name, standing.strength.value, ends))
    words = "; ".join(
        f"{row.label} {row.value:.2f} [{row.ends[0]:.2f}, {row.ends[1]:.2f}]" for row in rows
    )
    return plots.intervals(rows, 0.0, f"{text['strengths']}: {words}")


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
