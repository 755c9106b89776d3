"""The leaderboard of an arena: who sees it, what it shows and never shows, and when it changes."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from sqlalchemy import select, update

from hsfiq.access import OWNER, find_account, log_in, set_owner_password
from hsfiq.actors import OWNER as ACTOR
from hsfiq.annotate import leaderboard
from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.leaderboard import (
    FRESH_SECONDS,
    SharedResults,
    add_leaderboards,
    publish_next_batch,
    standings_of,
)
from hsfiq.annotate.owner.login import Identities, set_login_cookie
from hsfiq.annotate.owner.plots import DASH
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.serving.proxy import RemoteUser, TrustedHeader
from hsfiq.collect.owner import forget
from hsfiq.collect.review import hides_results, unblind
from hsfiq.collect.searches import (
    FEWEST_OTHER_VOTES,
    FEWEST_PEOPLE,
    Published,
    hides_each_person,
    publish_leaderboard,
    published_leaderboard,
)
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant, Study
from tests.annotate.axe import faults
from tests.arenas import ARENA, TEXT, Voter, add_turn_with_vote, draw_arena, end_search, systems_met
from tests.databases import ReusedPostgres, ReusedSqlite
from tests.hsfiq.samples import on_sqlite
from tests.live_servers import serving

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


def show_results(database: Database, study: int) -> None:
    """Show results by system while the study is open."""
    with database.writing() as session:
        row = session.get_one(Study, study)
        if hides_results(session, row):
            unblind(session, row, ACTOR, datetime.now(UTC))


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


ADDRESS = "/leaderboard/arena"
SECRET = "0123456789abcdef"


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, int]]:
    url = f"sqlite:///{tmp_path_factory.mktemp('arena') / 'hsfiq.db'}"
    with closing(open_database(url)) as database:
        yield database, arena_with_votes(database)


def shown_text(page: str) -> str:
    """The text of the page's body, with single blanks."""
    body = page.partition("<body>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_only_who_may_see_it_does(voted: tuple[Database, int]) -> None:
    database, study = voted
    with TestClient(app_of(database)) as client:
        cookie = {"Cookie": owners_cookie(database)}
        change(database, study, "owner")
        refused = client.get(ADDRESS)
        assert (refused.status_code, client.get("/leaderboard/other").status_code) == (404, 404)
        assert refused.text == client.get("/leaderboard/other").text
        assert client.get(ADDRESS, headers={"Cookie": cookie["Cookie"] + "x"}).status_code == 404
        owners = client.get(ADDRESS, headers=cookie)
        assert owners.status_code == 200
        assert owners.headers["Cache-Control"] == "no-store"
        assert "Only you as the study's owner see this page." in shown_text(owners.text)
        change(database, study, "after-end")
        assert client.get(ADDRESS).status_code == 404
        assert "when the study is closed" in client.get(ADDRESS, headers=cookie).text
        change(database, study, "after-end", status="closed")
        assert client.get(ADDRESS).status_code == 200
        change(database, study, "public", status="open")
        everybody = client.get(ADDRESS)
        assert everybody.status_code == 200
        assert "Only you" not in everybody.text


@on_sqlite
def test_the_owner_sees_it_once_results_are_shown(database: Database) -> None:
    study = arena_with_votes(database)
    headers = {"Cookie": owners_cookie(database)}
    for path in (ADDRESS, f"/owner/leaderboard/{study}"):
        text = shown_text(TestClient(app_of(database), headers=headers).get(path).text)
        assert "Results by system are hidden while people answer." in text
        assert "beta" not in text
    show_results(database, study)
    shown = TestClient(app_of(database), headers=headers).get(ADDRESS).text
    assert "beta" in shown


def test_name_from_proxy_opens_it_below_the_owners_path_alone(voted: tuple[Database, int]) -> None:
    database, study = voted
    owners_cookie(database)
    change(database, study, "owner")
    proxied = RemoteUser(app_of(database), TrustedHeader("X-Remote-User", SECRET), "/owner/")
    sent = {"X-Remote-User": "owner", "X-Auth-Secret": SECRET}
    with TestClient(
        proxied, client=("127.0.0.1", 4), headers=sent, follow_redirects=False
    ) as client:
        assert client.get(ADDRESS).status_code == 404
        own = client.get(f"/owner/leaderboard/{study}")
        assert own.status_code == 200
        assert "Only you as the study's owner see this page." in shown_text(own.text)
        assert client.get("/owner/leaderboard/999").status_code == 404
        change(database, study, "public")
        public = client.get(f"/owner/leaderboard/{study}")
        assert (public.status_code, public.headers["Location"]) == (303, "../../leaderboard/arena")


def test_the_page_has_the_figures_of_the_arena(voted: tuple[Database, int]) -> None:
    database, study = voted
    change(database, study, "public", ("en", "ko"))
    arena = standings_of(database, study).arena
    assert arena is not None
    assert list(arena.systems) == list(NAMES)
    with TestClient(app_of(database)) as client:
        page = client.get(ADDRESS)
        korean = client.get(ADDRESS, headers={"Accept-Language": "ko"})
    text = shown_text(page.text)
    assert f"Votes {arena.n_votes} Searches {arena.n_sessions} Participants 6 Updated" in text
    for name, each in arena.systems.items():
        assert each.rank is not None
        assert each.rating.ci is not None
        ends = f"{each.rating.ci.low:,.0f} {DASH} {each.rating.ci.high:,.0f}"
        both_bad = f"{100 * each.both_bad.value:.1f} %"
        row = f"{name} {each.rating.value:,.0f} {ends} {each.votes} {both_bad}"
        assert row in text
    for duel in arena.duels:
        assert f"{100 * duel.rate.value:.0f} % n = {duel.rate.n}" in text
    assert "The study still takes votes, so the order may change." in text
    for source in ("Bradley and Terry 1952", "Davidson 1970", "Davidson and Beaver 1977"):
        assert source in text
    assert '<html lang="en"' in page.text
    assert '<html lang="ko"' in korean.text
    assert f"투표 수 {arena.n_votes} " in shown_text(korean.text)


def test_it_shows_no_text_no_image_and_no_participant(voted: tuple[Database, int]) -> None:
    database, study = voted
    change(database, study, "public", origin="simulated")
    page = TestClient(app_of(database)).get(ADDRESS).text
    change(database, study, "public", origin="collected")
    assert "The votes come from simulated participants." in page
    assert TEXT not in page
    assert "<img" not in page
    assert not re.search(r"\bp[1-6]\b|form_1|shirt|\.jpg|image/", page.partition("<body>")[2])
    assert "alpha &lt;b&gt;" in page
    assert "alpha <b>" not in page


@on_sqlite
def test_too_few_votes_have_no_ranking(database: Database) -> None:
    study = draw_arena(database, NAMES)
    show_results(database, study)
    headers = {"Cookie": owners_cookie(database)}
    text = shown_text(TestClient(app_of(database), headers=headers).get(ADDRESS).text)
    assert "no ranking yet: it needs votes from 5 participants" in text
    assert "beta" not in text


def test_many_requests_at_once_compute_once(
    voted: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, study = voted
    show_results(database, study)
    change(database, study, "owner")
    computed: list[int] = []
    may_end = threading.Event()

    def slowly(database: Database, study_id: int) -> object:
        computed.append(study_id)
        may_end.wait()
        return standings_of(database, study_id)

    monkeypatch.setattr(leaderboard, "standings_of", slowly)
    headers = {"Cookie": owners_cookie(database)}
    with TestClient(app_of(database), headers=headers) as client:
        replies: list[int] = []
        asking = [
            threading.Thread(target=lambda: replies.append(client.get(ADDRESS).status_code))
            for _ in range(12)
        ]
        for thread in asking:
            thread.start()
        may_end.set()
        for thread in asking:
            thread.join()
        assert client.get(ADDRESS).status_code == 200
    assert replies == [200] * 12
    assert computed == [study]


def test_results_are_kept_for_a_minute_and_failures_are_not() -> None:
    computed: list[str] = []
    now = 0.0

    def compute(key: str) -> int:
        computed.append(key)
        if len(computed) == 1:
            raise OSError
        return len(computed)

    async def ask() -> None:
        nonlocal now
        results = SharedResults(compute, lambda: now)
        with pytest.raises(OSError):  # noqa: PT011 (there is no message)
            await results.get("a")
        assert await asyncio.gather(*(results.get("a") for _ in range(5))) == [2] * 5
        leaving = asyncio.create_task(results.get("b"))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await results.get("b") == 3
        now = FRESH_SECONDS - 1
        assert await results.get("a") == 2
        now = FRESH_SECONDS + 1
        assert await results.get("a") == 4

    # In a thread of its own: the browser of other tests keeps an event loop running in this one.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(lambda: asyncio.run(ask())).result()
    assert computed == ["a", "a", "b", "a"]


@pytest.mark.browser
def test_it_is_accessible_and_fits_a_phone(
    voted: tuple[Database, int], context: BrowserContext
) -> None:
    database, study = voted
    change(database, study, "public", ("en", "ko"))
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    with serving(app_of(database)) as url:
        page.goto(f"{url}/leaderboard/arena")
        assert list(faults(page)) == []
        page.set_viewport_size({"width": 390, "height": 844})
        for language in ("en", "ko"):
            page.goto(f"{url}/leaderboard/arena?language={language}")
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            for name in NAMES:
                cell = page.get_by_role("rowheader", name=name).first
                assert cell.bounding_box()["x"] < 390  # type: ignore[index]
    assert errors == []


PEOPLE = 6


@pytest.fixture
def database(reused: ReusedSqlite | ReusedPostgres) -> Database:
    """A database of each kind, empty."""
    return Database(reused.engine)


def page_of(database: Database, **headers: str) -> str:
    """What a server that has just started sends, with the headers that could tell a change."""
    reply = TestClient(app_of(database)).get(ADDRESS, headers=headers)
    assert reply.status_code == 200
    return f"{reply.headers.get('ETag')} {reply.headers.get('Last-Modified')} {reply.text}"


def public_arena(database: Database) -> tuple[int, list[Voter]]:
    """An arena in which everybody has voted, and whose votes have been published."""
    study = arena_with_votes(database, PEOPLE)
    change(database, study, "public")
    with database.reading() as session:
        people = session.scalars(select(Participant.id).order_by(Participant.id))
        return study, [Voter(database, key) for key in people.all()]


def vote(voter: Voter, times: int = 4, *, place: int = 3) -> None:
    """Make a search with so many votes, which ends."""
    question = voter.question_ids()[place]
    for _ in range(times):
        voter.vote(question, 1)
    voter.end(question)


def test_a_participant_does_not_see_their_own_vote(database: Database) -> None:
    """Nor does closing the study publish votes of few; the owner sees all."""
    study, voters = public_arena(database)
    before = page_of(database)
    assert ">72<" in before
    vote(voters[0], 1)
    assert page_of(database) == before
    vote(voters[0], 100, place=4)
    assert page_of(database) == before
    for leaderboard_shown in ("public", "after-end"):
        change(database, study, leaderboard_shown, status="closed")
        assert ">72<" in page_of(database)
    change(database, study, "after-end", status="open")  # while others see none
    show_results(database, study)
    assert ">173<" in page_of(database, Cookie=owners_cookie(database))


@on_sqlite
def test_votes_of_a_search_count_when_it_has_ended(database: Database) -> None:
    _, voters = public_arena(database)
    before = page_of(database)
    attacker, *others = voters
    search = attacker.question_ids()[3]
    for _ in range(4):
        attacker.vote(search, 0, both_bad=True)
    for voter in others:
        vote(voter, 5)
    after = page_of(database)
    assert after != before
    assert ">97<" in after
    attacker.end(search)
    assert page_of(database) == after


@on_sqlite
def test_keys_that_are_given_again_count_as_new(database: Database) -> None:
    """SQLite gives the keys of the newest rows again when these have been deleted."""
    study, voters = public_arena(database)
    before = page_of(database)
    with database.writing() as session:
        for voter in voters[1:]:
            forget(session, session.get_one(Participant, voter.participant_id))
    assert page_of(database) == before
    for _ in range(FEWEST_PEOPLE):
        vote(Voter.enrolled(database, study), 5, place=0)
    assert ">37<" in page_of(database)  # 12 that are left, and 25


def test_figures_change_when_enough_others_have_voted(database: Database) -> None:
    study, voters = public_arena(database)
    before = page_of(database)
    for voter in voters[: FEWEST_PEOPLE - 1]:
        vote(voter, 10)
        assert page_of(database) == before
    vote(voters[FEWEST_PEOPLE - 1], 1)
    with TestClient(app_of(database)) as running:
        after = running.get(ADDRESS).text
        assert after not in before
        assert f">{72 + 10 * (FEWEST_PEOPLE - 1) + 1}<" in after
        assert after in page_of(database)
        vote(voters[-1])
        assert running.get(ADDRESS).text in page_of(database)
        for voter in voters:
            vote(voter, 5, place=4)
        publish_next_batch(database, study)  # by another process
        assert running.get(ADDRESS).text != after  # by a server that stays up
        assert running.get(ADDRESS).text in page_of(database)
        vote(voters[0], 1, place=5)
    arena = standings_of(database, study).arena
    assert arena is not None
    assert f">{arena.n_votes}<" not in page_of(database)


@on_sqlite
def test_votes_that_disappear_do_not_change_the_figures(database: Database) -> None:
    study, voters = public_arena(database)
    before = page_of(database)
    with database.writing() as session:
        forget(session, session.get_one(Participant, voters[0].participant_id))
        session.get_one(Participant, voters[1].participant_id).status = "excluded"
    assert page_of(database) == before
    for voter in voters[2:]:
        vote(voter, 10)
    assert page_of(database) == before  # only four people have voted since
    late = Voter.enrolled(database, study)
    vote(late, 4)
    assert ">92<" in page_of(database)  # 72 votes, without 24, and 44 more


@on_sqlite
def test_before_the_first_publication_the_page_tells_no_number(database: Database) -> None:
    study = draw_arena(database, NAMES)
    change(database, study, "public")
    voters = [Voter.enrolled(database, study) for _ in range(FEWEST_PEOPLE - 1)]
    before = page_of(database)
    assert "no ranking yet" in before
    for voter in voters:
        vote(voter, 20, place=0)
        assert page_of(database) == before
    assert "beta" not in before


def test_of_two_processes_that_publish_at_once_one_does(database: Database) -> None:
    study, _ = public_arena(database)
    publish_next_batch(database, study)
    with database.writing() as session:
        now = datetime.now(UTC)
        publish_leaderboard(session, study, Published(), last_response=1, figures={}, at=now)
    with database.reading() as session:
        published = published_leaderboard(session, study)
    assert (published.number, (published.figures or {})["votes"]) == (1, 72)


@pytest.mark.parametrize(("votes", "hides"), [
    ([], False),
    ([100], False),
    ([6] * (FEWEST_PEOPLE - 1), False),
    ([5] * FEWEST_PEOPLE, True),
    ([1] * (FEWEST_OTHER_VOTES + 1), True),
    ([1] * FEWEST_OTHER_VOTES, False),
    ([100, *[4] * (FEWEST_PEOPLE - 1)], False),
    ([100, *[5] * (FEWEST_PEOPLE - 1)], True),
])  # fmt: skip
def test_a_batch_hides_each_person(votes: list[int], hides: bool) -> None:
    assert hides_each_person(votes) == hides
