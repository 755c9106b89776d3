"""The route of the leaderboards, `/leaderboard/STUDY`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from hsfiq.access.roles import Permission
from hsfiq.annotate.leaderboard.figures import Figures
from hsfiq.annotate.leaderboard.page import About, leaderboard_page, no_leaderboard_page
from hsfiq.annotate.leaderboard.shared import SharedResults
from hsfiq.annotate.leaderboard.standings import Standings, publish_next_batch, standings_of
from hsfiq.annotate.owner.identity import Identities
from hsfiq.annotate.security import relative_root
from hsfiq.annotate.texts import language_for, language_in, study_texts
from hsfiq.collect.searching.votes import published_leaderboard
from hsfiq.collect.studies import find_study
from hsfiq.study.config import config_of

PATH = "/leaderboard"


@dataclass(frozen=True, slots=True)
class Shown:
    """A leaderboard that a visitor may see; `is_public` if everybody may."""

    study_id: int
    about: About
    is_public: bool


def add_leaderboards(app: FastAPI, identities: Identities) -> None:
    database = identities.database
    of_owner: SharedResults[int, Standings] = SharedResults(partial(standings_of, database))
    of_everybody: SharedResults[int, None] = SharedResults(partial(publish_next_batch, database))

    def find(request: Request, name: str, wanted: str) -> Shown | None:
        with database.reading() as session:
            shown = shown_of(session, name, request.headers, wanted)
        if shown is None or shown.is_public:
            return shown
        user = identities.user_of(request)
        return shown if user is not None and user.may(Permission.READ) else None

    def published(study_id: int) -> tuple[Figures | None, datetime | None]:
        with database.reading() as session:
            latest = published_leaderboard(session, study_id)
        return Figures(**latest.figures) if latest.figures else None, latest.published_at

    @app.get(f"{PATH}/{{name}}")
    async def leaderboard(request: Request, name: str, language: str = "") -> Response:
        shown = await run_in_threadpool(find, request, name, language)
        if shown is None:
            page = no_leaderboard_page(language_for(request.headers), relative_root(request))
            return HTMLResponse(page, status_code=404, headers={"Cache-Control": "no-store"})
        if shown.is_public:
            await of_everybody.get(shown.study_id)
            # Read each time, so that all processes show the same.
            figures, at = await run_in_threadpool(published, shown.study_id)
        else:
            standings = await of_owner.get(shown.study_id)
            figures, at = standings.figures, standings.at
        page = leaderboard_page(shown.about, figures, at)
        kept = "no-cache" if shown.is_public else "no-store"
        return HTMLResponse(page, headers={"Cache-Control": kept})


def shown_of(session: Session, name: str, headers: Mapping[str, str], wanted: str) -> Shown | None:
    """The leaderboard of an arena; None if no arena has this name."""
    study = find_study(session, name)
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
    return Shown(study.id, about, is_public)
