"""The leaderboard of an arena: who sees it, what it shows, and what it never shows."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from hsfiq.annotate import leaderboard
from hsfiq.annotate.leaderboard import FRESH_SECONDS, SharedResults, standings_of
from hsfiq.annotate.owner.plots import DASH
from hsfiq.annotate.serving.proxy import RemoteUser, TrustedHeader
from hsfiq.db.engine import Database, open_database
from tests.annotate.arenas_with_votes import (
    NAMES,
    app_of,
    arena_with_votes,
    change,
    owners_cookie,
)
from tests.arenas import TEXT, draw_arena

ADDRESS = "/leaderboard/arena"
SECRET = "0123456789abcdef"


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, int]]:
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('arena') / 'hsfiq.db'}")
    yield database, arena_with_votes(database)
    database.close()


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


def test_a_name_from_the_proxy_opens_it_below_the_owners_path_alone(
    voted: tuple[Database, int],
) -> None:
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
    change(database, study, "public")
    with TestClient(app_of(database)) as client:
        page = client.get(ADDRESS).text
    assert TEXT not in page
    assert "<img" not in page
    assert not re.search(r"\bp[1-6]\b|form_1|shirt|\.jpg|image/", page.partition("<body>")[2])
    assert "alpha &lt;b&gt;" in page
    assert "alpha <b>" not in page


def test_simulated_votes_are_said_to_be_simulated(voted: tuple[Database, int]) -> None:
    database, study = voted
    change(database, study, "public", origin="simulated")
    with TestClient(app_of(database)) as client:
        assert "The votes come from simulated participants." in client.get(ADDRESS).text
    change(database, study, "public", origin="collected")


def test_too_few_votes_have_no_ranking(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'hsfiq.db'}")
    draw_arena(database, NAMES)
    with TestClient(app_of(database)) as client:
        text = shown_text(client.get(ADDRESS, headers={"Cookie": owners_cookie(database)}).text)
        assert "There is no ranking yet: it needs votes from 5 participants or more." in text
        assert "beta" not in text
    database.close()


def test_many_requests_at_once_compute_once(
    voted: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, study = voted
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
