"""What everybody sees of a leaderboard changes in batches of votes, not with one person's votes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.leaderboard import publish_next_batch, standings_of
from hsfiq.collect.owner import forget
from hsfiq.collect.searches import (
    FEWEST_OTHER_VOTES,
    FEWEST_PEOPLE,
    Published,
    hides_each_person,
    publish_leaderboard,
    published_leaderboard,
)
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant
from tests.annotate.arenas_with_votes import (
    NAMES,
    app_of,
    arena_with_votes,
    change,
    owners_cookie,
)
from tests.arenas import Voter, draw_arena
from tests.databases import ReusedPostgres, ReusedSqlite

ADDRESS = "/leaderboard/arena"
PEOPLE = 6


@pytest.fixture
def database(reused: ReusedSqlite | ReusedPostgres) -> Database:
    """A database of each kind, empty."""
    return Database(reused.engine)


def page_of(database: Database, **headers: str) -> str:
    """What a server that has just started sends, with the headers that could tell a change."""
    with TestClient(app_of(database)) as client:
        reply = client.get(ADDRESS, headers=headers)
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
    _, voters = public_arena(database)
    before = page_of(database)
    assert ">72<" in before
    vote(voters[0], 1)
    assert page_of(database) == before
    vote(voters[0], 100, place=4)
    assert page_of(database) == before


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
    after = page_of(database)
    assert after != before
    assert f">{72 + 10 * (FEWEST_PEOPLE - 1) + 1}<" in after
    assert page_of(database) == after
    vote(voters[-1])
    with TestClient(app_of(database)) as first, TestClient(app_of(database)) as second:
        assert first.get(ADDRESS).text == second.get(ADDRESS).text
    arena = standings_of(database, study).arena
    assert arena is not None
    assert f">{arena.n_votes}<" not in page_of(database)


def test_a_server_that_stays_up_publishes_the_same(database: Database) -> None:
    study, voters = public_arena(database)
    with TestClient(app_of(database)) as running:
        before = running.get(ADDRESS).text
        for voter in voters:
            vote(voter, 5)
        publish_next_batch(database, study)  # by another process
        assert running.get(ADDRESS).text != before
        assert running.get(ADDRESS).text in page_of(database)


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


def test_closing_a_study_publishes_no_vote_of_few(database: Database) -> None:
    study, voters = public_arena(database)
    before = page_of(database)
    assert ">72<" in before
    vote(voters[0], 30)
    change(database, study, "public", status="closed")
    assert ">72<" in page_of(database)
    change(database, study, "after-end", status="closed")
    assert ">72<" in page_of(database)


def test_the_owner_sees_all_votes_while_others_see_none(database: Database) -> None:
    study, voters = public_arena(database)
    page_of(database)
    vote(voters[0], 1)
    change(database, study, "after-end")
    assert ">73<" in page_of(database, Cookie=owners_cookie(database))


def test_of_two_processes_that_publish_at_once_one_does(database: Database) -> None:
    study, _ = public_arena(database)
    publish_next_batch(database, study)
    with database.writing() as session:
        now = datetime.now(UTC)
        publish_leaderboard(session, study, Published(), last_response=1, figures={}, at=now)
    with database.reading() as session:
        published = published_leaderboard(session, study)
    assert published.number == 1
    assert published.figures
    assert published.figures["votes"] == 72


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
