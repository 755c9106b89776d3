"""The leaderboard of an arena: which systems participants prefer, for its owner or for all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from hsfiq.actors import Permission
from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.login import OWNER, Identities
from hsfiq.annotate.owner.plots import DASH, percent
from hsfiq.annotate.pages import message_page, render
from hsfiq.annotate.security import relative_root
from hsfiq.annotate.texts import complete, language_for, language_in, study_texts
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.review import hides_results
from hsfiq.collect.searches import (
    FEWEST_PEOPLE,
    Vote,
    is_next_batch_complete,
    publish_leaderboard,
    published_leaderboard,
    read_votes,
)
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import StudyRetriever
from hsfiq.db.source_tables import System
from hsfiq.db.tables import Study
from hsfiq.kinds import KINDS
from hsfiq.study.languages import read

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.arena import Arena, Standing
    from hsfiq.analysis.resampling.bootstrap import Estimate


# The figures that a leaderboard shows of an arena, the same in every language.

SHADES = (0.05, 0.2, 0.35, 0.45, 0.55, 0.65, 0.8, 0.95)
"""Where the shades of the win matrix change; the middle one is that of equal systems."""


Strength = tuple[str, float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Figures:
    """The content of the page; its fields are also its JSON.

    Attributes:
        lack: the data that are missing for a ranking; the other fields are then empty. `fewest` is
            the required number, if it is a number.
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


# The page of a leaderboard, in the language of its visitor.

MINUTE = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class About:
    """The content of the page about the study, besides its figures.

    `visible` is the study's `leaderboard`, told to the owner if others do not see the page; what
    everybody sees, where it is empty, is updated in batches. It `is_hidden` from its owner, too, as
    long as results by system are.
    """

    title: str
    language: str
    is_simulated: bool
    takes_votes: bool
    visible: str = ""
    is_hidden: bool = False


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
    """For an address without a leaderboard, or with a leaderboard that this visitor may not see."""
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
    if about.is_hidden:
        return str(text["hidden"])
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


# Results that many requests share: computed in a thread, once for all who ask meanwhile.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Started(Generic[V]):
    """A computation, and when it began."""

    task: asyncio.Task[V]
    at: float


class SharedResults(Generic[K, V]):
    """Results by key, each computed again at most once a minute, and one at a time.

    Requests that wait hold no thread, so those of participants are answered meanwhile.
    """

    def __init__(
        self, compute: Callable[[K], V], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._compute = compute
        self._clock = clock
        self._started: dict[K, Started[V]] = {}
        self._one_at_a_time = CapacityLimiter(1)

    async def get(self, key: K) -> V:
        started = self._started.get(key)
        if started is None or self._is_over(started):
            started = Started(asyncio.create_task(self._computed(key)), self._clock())
            self._started[key] = started
        # A visitor who leaves must not end what others wait for.
        return await asyncio.shield(started.task)

    def _is_over(self, started: Started[V]) -> bool:
        if not started.task.done():
            return False
        has_failed = started.task.cancelled() or started.task.exception() is not None
        return has_failed or self._clock() - started.at >= FRESH_SECONDS

    async def _computed(self, key: K) -> V:
        return await to_thread.run_sync(self._compute, key, limiter=self._one_at_a_time)


# The figures of an arena's leaderboard, from the votes in the database, and publishing them.

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Standings:
    """The figures of all votes at a moment; None without the extra `analysis`."""

    arena: Arena | None
    at: datetime

    @property
    def figures(self) -> Figures | None:
        return None if self.arena is None else Figures.of(self.arena)


def standings_of(database: Database, study_id: int) -> Standings:
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        names, votes = system_names(session, study), read_votes(session, study)
    return Standings(arena_of(votes, names), datetime.now(UTC))


def publish_next_batch(database: Database, study_id: int) -> None:
    """Publish new figures if enough people have voted since the last publication."""
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        before = published_leaderboard(session, study_id)
        if not is_next_batch_complete(session, study, before):
            return
        names = system_names(session, study)
        votes = [vote for vote in read_votes(session, study) if vote.response_key is not None]
    arena = arena_of(votes, names)
    if arena is None:
        return
    figures, now = asdict(Figures.of(arena)), datetime.now(UTC)
    last = max(vote.response_key or 0 for vote in votes)
    with database.writing() as session:
        publish_leaderboard(session, study_id, before, last_response=last, figures=figures, at=now)


def system_names(session: Session, study: Study) -> list[str]:
    names = (
        select(System.name)
        .join(StudyRetriever, StudyRetriever.system_id == System.id)
        .where(StudyRetriever.study_id == study.id)
    )
    return sorted(session.scalars(names))


def arena_of(votes: Sequence[Vote], names: Sequence[str]) -> Arena | None:
    try:
        import pandas as pd  # noqa: PLC0415 (the extra may be absent)

        from hsfiq.analysis.kinds.arena import (  # noqa: PLC0415
            COLUMNS,
            arena,
        )
    except ModuleNotFoundError:
        return None
    rows = pd.DataFrame([asdict(vote) for vote in votes], columns=list(COLUMNS))
    return arena(rows, names, n_resamples=RESAMPLES)


# The routes of the leaderboards: `/leaderboard/NAME`, and one below /owner for its users.

PATH = "/leaderboard"


@dataclass(frozen=True, slots=True)
class Shown:
    """A leaderboard that a visitor may see; `is_public` if everybody may."""

    study_id: int
    name: str
    about: About
    is_public: bool


def add_leaderboards(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    of_owner: SharedResults[int, Standings] = SharedResults(partial(standings_of, database))
    of_everybody: SharedResults[int, None] = SharedResults(partial(publish_next_batch, database))

    def find(request: Request, name: str, wanted: str) -> Shown | None:
        with database.reading() as session:
            shown = shown_of(session, find_study(session, name), request.headers, wanted)
        if shown is None or shown.is_public:
            return shown
        user = identities.user_of(request)
        return shown if user is not None and user.may(Permission.READ) else None

    def find_own(request: Request, study_id: int, wanted: str) -> Shown | None:
        identities.require(request, Permission.READ)
        with database.reading() as session:
            study = session.get(Study, study_id) if abs(study_id) < 2**31 else None
            return shown_of(session, study, request.headers, wanted)

    @app.get(f"{PATH}/{{name}}")
    async def leaderboard(request: Request, name: str, language: str = "") -> Response:
        return await answer(request, await run_in_threadpool(find, request, name, language))

    # A proxy that checks passwords does so below /owner alone.
    @app.get(f"{OWNER}{PATH}/{{study_id}}")
    async def own_leaderboard(request: Request, study_id: int, language: str = "") -> Response:
        shown = await run_in_threadpool(find_own, request, study_id, language)
        if shown is not None and shown.is_public:  # its own address is the one to pass on
            address = f"{relative_root(request)}{PATH[1:]}/{quote(shown.name, safe='')}"
            return RedirectResponse(address, status_code=303)
        return await answer(request, shown)

    async def answer(request: Request, shown: Shown | None) -> Response:
        if shown is None:
            page = no_leaderboard_page(language_for(request.headers), relative_root(request))
            return HTMLResponse(page, status_code=404, headers={"Cache-Control": "no-store"})
        if shown.is_public:
            await of_everybody.get(shown.study_id)
            # Read each time, so that all processes show the same.
            figures, at = await run_in_threadpool(published, database, shown.study_id)
        else:
            figures, at = await own_figures(shown, of_owner)
        page = leaderboard_page(shown.about, figures, at)
        kept = "no-cache" if shown.is_public else "no-store"
        return HTMLResponse(page, headers={"Cache-Control": kept})


async def own_figures(
    shown: Shown, of_owner: SharedResults[int, Standings]
) -> tuple[Figures | None, datetime | None]:
    """The figures that owners see, and their time; none while they are hidden."""
    if shown.about.is_hidden:
        return None, None
    standings = await of_owner.get(shown.study_id)
    return standings.figures, standings.at


def published(database: Database, study_id: int) -> tuple[Figures | None, datetime | None]:
    """The figures that everybody sees, and their time."""
    with database.reading() as session:
        latest = published_leaderboard(session, study_id)
    return Figures(**latest.figures) if latest.figures else None, latest.published_at


def shown_of(
    session: Session, study: Study | None, headers: Mapping[str, str], wanted: str
) -> Shown | None:
    """The leaderboard of a study; None if the study is not an arena."""
    if study is None or KINDS[study.kind].n_live < 2:
        return None
    row, has_ended = StudyRow.of(study), study.status == "closed"
    visible = row.config.searches.leaderboard
    is_public = visible == "public" or (visible == "after-end" and has_ended)
    texts = study_texts(session, row, language_in(row.config, headers, wanted))
    about = About(
        title=texts.title,
        language=texts.language,
        is_simulated=study.origin == "simulated",
        takes_votes=not has_ended,
        visible="" if is_public else visible,
        is_hidden=not is_public and hides_results(session, study),
    )
    return Shown(study.id, study.name, about, is_public)
