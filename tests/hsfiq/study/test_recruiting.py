"""Completion codes by outcome, and the addresses that contain them."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.answer_rules import Answer
from hsfiq.collect.stages import completion_of
from hsfiq.db.engine import Database
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import (
    PROLIFIC,
    Outcome,
    Panel,
    Recruitment,
    completion_code,
    completion_url,
    has_failed,
    panel_link,
    with_ids,
)
from tests.hsfiq.samples import on_sqlite
from tests.studies import GOOD, SMALL, Seat, draw, make_queries, pair_answer, row_of

TIE = pair_answer(3, 3, 0)
"""Given to every question, it passes repeated pairs; GOOD fails them, because the sides change."""

USUAL = Recruitment(
    completion_code="A+1", completion_url="https://x.org/complete?cc=A%2B1", max_failed_checks=1
)


def test_without_codes_of_their_own_outcomes_get_the_usual_one() -> None:
    assert [completion_code(USUAL, outcome) for outcome in ("done", "failed-checks", "full")] == [
        "A+1"
    ] * 3
    assert completion_url(USUAL, "full", {}) == USUAL.completion_url
    assert (completion_code(USUAL, "declined"), completion_url(USUAL, "declined", {})) == ("", "")


def test_an_address_contains_the_code_of_the_outcome() -> None:
    recruitment = replace(USUAL, full_code="B/2", declined_code="C")
    assert completion_code(recruitment, "full") == "B/2"
    assert completion_url(recruitment, "full", {}) == "https://x.org/complete?cc=B%2F2"
    assert completion_url(recruitment, "declined", {}) == "https://x.org/complete?cc=C"
    other = replace(recruitment, completion_url="https://x.org/")
    assert completion_url(other, "done", {}) == "https://x.org/"
    assert completion_url(other, "full", {}) == ""


PANEL = Panel(
    "Pool", "who", complete="https://a.test/{person}", screen_out="https://a.test/out",
    quota_full="https://a.test/full",
)  # fmt: skip


def test_each_outcome_has_its_address_at_a_panel() -> None:
    recruitment = Recruitment(mode="panel", completion_code="C0DE", panel=PANEL)
    outcomes: list[Outcome] = ["done", "failed-checks", "full", "declined"]
    ends = [
        (completion_code(recruitment, each), completion_url(recruitment, each, {"person": "p"}))
        for each in outcomes
    ]
    assert ends == [
        ("C0DE", "https://a.test/p"),
        ("C0DE", "https://a.test/p"),
        ("", "https://a.test/full"),
        ("", "https://a.test/out"),
    ]
    assert completion_url(recruitment, "done", {}) == ""
    failing = replace(recruitment, panel=replace(PANEL, failed_checks="https://a.test/no"))
    assert completion_url(failing, "failed-checks", {}) == "https://a.test/no"
    coded = replace(recruitment, failed_checks_code="FA1L")
    assert completion_code(coded, "failed-checks") == "FA1L"
    assert completion_url(coded, "failed-checks", {"person": "p"}) == ""


@given(person=st.text(), session=st.text(), place=st.sampled_from(["/{person}", "?p={person}"]))
def test_no_id_changes_more_of_an_address_than_its_own_place(
    person: str, session: str, place: str
) -> None:
    """Links accept fewer signs; the address holds for any."""
    ids = {"person": person, "session": session}
    address = with_ids(f"https://a.test/x{place}&s={{session}}#end", ids)
    parts = urlsplit(address)
    assert address.isascii()
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "a.test", "end")
    found = parts.path.removeprefix("/x/") if place.startswith("/") else parts.query
    first, _, second = found.removeprefix("p=").partition("&s=")
    assert (unquote(first), unquote(second)) == (person, session)
    assert with_ids("https://a.test/{study}", ids) == ""


@pytest.mark.parametrize(("panel", "study", "link"), [
    (PROLIFIC, "", f"https://s.test/app/start?{PROLIFIC.link}"),
    (PROLIFIC, "a", f"https://s.test/app/start?{PROLIFIC.link}&study=a"),
    (PANEL, "a", "https://s.test/app/start?study=a"),
    (replace(PANEL, link="who=%ID%"), "a", "https://s.test/app/start?who=%ID%&study=a"),
])  # fmt: skip
def test_the_link_that_the_owner_enters(panel: Panel, study: str, link: str) -> None:
    assert panel_link(panel, "https://s.test/app/", study) == link


def test_the_limit_of_failed_checks() -> None:
    assert [has_failed(USUAL, count) for count in (0, 1, 2)] == [False, False, True]
    assert not has_failed(replace(USUAL, max_failed_checks=-1), 9)
    assert has_failed(replace(USUAL, max_failed_checks=0), 1)


@on_sqlite
@pytest.mark.parametrize(("answer", "code"), [(TIE, "A+1"), (GOOD, "FA1L")])
def test_who_fails_too_many_checks_gets_another_code(
    database: Database, answer: Answer, code: str
) -> None:
    design = replace(SMALL, preference_ties=True)
    checks = Checks(arithmetic=False, repeated=1)
    study = draw(
        database,
        make_queries(database),
        design,
        checks=checks,
        recruitment=replace(USUAL, failed_checks_code="FA1L"),
    )
    seat, other = Seat.taken(database, study), Seat.taken(database, study)
    for question in seat.question_ids:
        seat.submit(question, answer)
    for question in other.question_ids:
        other.submit(question, GOOD)
    with database.reading() as session:
        due = completion_of(session, row_of(session, seat.participant_id), "done", 4)
    assert due["code"] == code
    assert due["url"] == f"https://x.org/complete?cc={code.replace('+', '%2B')}"
