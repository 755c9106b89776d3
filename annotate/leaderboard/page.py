"""The page of a leaderboard, in the language of its visitor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from math import nan
from typing import Any

from hsfiq.annotate.leaderboard.figures import Figures
from hsfiq.annotate.owner import plots
from hsfiq.annotate.pages import message_page, render
from hsfiq.annotate.texts import complete
from hsfiq.collect.searches import FEWEST_PEOPLE
from hsfiq.study.languages import read

MINUTE = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class About:
    """What the page shows of the study besides its figures.

    `visible` is the study's `leaderboard`, told to the owner if others do not see the page; what
    everybody sees, where it is empty, is updated in batches.
    """

    title: str
    language: str
    is_simulated: bool
    takes_votes: bool
    visible: str = ""


def texts_in(language: str) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(read(f"leaderboard.{complete(language)}.json"))
    return texts


def leaderboard_page(about: About, figures: Figures | None, at: datetime | None) -> str:
    """The page; there are no figures before any are published, or without the analysis extra."""
    text = texts_in(about.language)
    return render(
        "leaderboard.html",
        title=text["title"].format(title=about.title),
        language=complete(about.language),
        about=about,
        text=text,
        batches=text["batches"].format(fewest=FEWEST_PEOPLE),
        facts=[] if figures is None or at is None else facts_of(figures, at, text),
        updated="" if at is None else at.isoformat(timespec="seconds"),
        missing=lack_of(about, figures, text),
        figures=figures,
        plot="" if figures is None or figures.lack else plot_of(figures, text),
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


def facts_of(figures: Figures, at: datetime, text: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (text["votes"], f"{figures.votes:,}"),
        (text["searches"], f"{figures.searches:,}"),
        (text["participants"], f"{figures.participants:,}"),
        (text["updated"], at.strftime(MINUTE)),
    ]


def lack_of(about: About, figures: Figures | None, text: dict[str, Any]) -> str:
    """Why there is no ranking; empty if there is one."""
    if figures is None:
        missing = "no_analysis" if about.visible or not has_analysis() else "not_published"
        return str(text[missing]).format(fewest=FEWEST_PEOPLE)
    if figures.lack is None:
        return ""
    return str(text["lack"][figures.lack]).format(fewest=figures.fewest)


def has_analysis() -> bool:
    """Whether this server can compute a ranking."""
    return find_spec("pandas") is not None


def plot_of(figures: Figures, text: dict[str, Any]) -> str:
    rows = []
    for name, *numbers in figures.strengths:
        value, low, high = (nan if number is None else number for number in numbers)
        rows.append(plots.Interval(name, value, (low, high)))
    words = "; ".join(
        f"{row.label} {row.value:.2f} [{row.ends[0]:.2f}, {row.ends[1]:.2f}]" for row in rows
    )
    return plots.intervals(rows, 0.0, f"{text['strengths']}: {words}")
