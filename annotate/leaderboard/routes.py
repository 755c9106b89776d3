"""The routes of the leaderboards: `/leaderboard/NAME`, and one below /owner for its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from hsfiq.actors import Permission
from hsfiq.annotate.leaderboard.figures import Figures
from hsfiq.annotate.leaderboard.page import About, leaderboard_page, no_leaderboard_page
from hsfiq.annotate.leaderboard.shared import SharedResults
from hsfiq.annotate.leaderboard.standings import Standings, publish_next_batch, standings_of
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.security import relative_root
from hsfiq.annotate.texts import language_for, language_in, study_texts
from hsfiq.collect.searches import published_leaderboard
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

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
            study = session.get(Study, study_id) if study_id < 2**31 else None
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
            standings = await of_owner.get(shown.study_id)
            figures, at = standings.figures, standings.at
        page = leaderboard_page(shown.about, figures, at)
        kept = "no-cache" if shown.is_public else "no-store"
        return HTMLResponse(page, headers={"Cache-Control": kept})


def published(database: Database, study_id: int) -> tuple[Figures | None, datetime | None]:
    """The figures that everybody sees, and since when."""
    with database.reading() as session:
        latest = published_leaderboard(session, study_id)
    return Figures(**latest.figures) if latest.figures else None, latest.published_at


def shown_of(
    session: Session, study: Study | None, headers: Mapping[str, str], wanted: str
) -> Shown | None:
    """The leaderboard of a study; None if the study is not an arena."""
    if study is None or study.kind != "arena":
        return None
    visible, has_ended = config_of(study).searches.leaderboard, study.status == "closed"
    is_public = visible == "public" or (visible == "after-end" and has_ended)
    texts = study_texts(session, study, language_in(study, headers, wanted))
    about = About(
        title=texts.title,
        language=texts.language,
        is_simulated=study.origin == "simulated",
        takes_votes=not has_ended,
        visible="" if is_public else visible,
    )
    return Shown(study.id, study.name, about, is_public)
