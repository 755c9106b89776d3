"""An arena with votes of several participants, and the part of the app with its leaderboard."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from fastapi import FastAPI, Request, Response
from sqlalchemy import update

from hsfiq.access import OWNER, find_account, log_in, set_owner_password
from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.leaderboard import add_leaderboards
from hsfiq.annotate.owner.login import Identities, set_login_cookie
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from tests.arenas import (
    ARENA,
    Voter,
    add_turn_with_vote,
    draw_arena,
    end_search,
    systems_met,
)

NAMES = ("alpha <b>", "beta", "gamma")
STRENGTHS = {"alpha <b>": 1.0, "beta": 0.0, "gamma": -1.0}
N_TURNS = 4


def arena_with_votes(database: Database, n_participants: int = 6) -> int:
    """An arena with 12 votes of each participant, who may prefer the weaker system; its key.

    Three searches of each have ended, and as many have not begun.
    """
    design = replace(ARENA, questions_per_form=6, annotators_per_query=12)
    study = draw_arena(database, NAMES, design)
    met, rng = systems_met(database, study), Random(2)
    for _ in range(n_participants):
        voter = Voter.enrolled(database, study)
        questions = voter.question_ids()[:3]
        with database.writing() as session:
            for question in questions:
                first, second = (STRENGTHS[name] for name in met[question])
                for _ in range(N_TURNS):
                    noise = rng.gauss(0, 1.5)
                    preference = 1 if first + noise > second else 2
                    is_bad = rng.random() < 0.15
                    add_turn_with_vote(
                        session, question, 0 if is_bad else preference, both_bad=is_bad
                    )
                end_search(session, question)
    return study


def change(
    database: Database,
    study: int,
    leaderboard: str,
    languages: tuple[str, ...] = ("en",),
    **values: str,
) -> None:
    with database.writing() as session:
        row = session.get_one(Study, study)
        design = {
            **row.design,
            "searches": {**row.design["searches"], "leaderboard": leaderboard},
            "study": {**row.design["study"], "languages": languages},
        }
        session.execute(update(Study).where(Study.id == study).values(design=design, **values))


def app_of(database: Database) -> FastAPI:
    app = FastAPI()
    add_leaderboards(app, Identities(database, signer_of(database)))
    app.add_middleware(StudyMiddleware, pages={})
    return app


def owners_cookie(database: Database) -> str:
    """The header of a browser in which the owner has logged in."""
    with database.writing() as session:
        set_owner_password(session, "the hash of a password")
        account = find_account(session, OWNER)
        assert account is not None
        token = log_in(session, account, datetime.now(UTC))
    response = Response()
    request = Request(
        {"type": "http", "scheme": "http", "server": ("x", 80), "path": "/", "headers": []}
    )
    set_login_cookie(response, signer_of(database), token, request)
    return response.headers["set-cookie"].partition(";")[0]
