"""Repeated and revised answers: one row for each revision, also with several tabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.answer_rules import Answer
from hsfiq.collect.answers import latest_response
from hsfiq.db.engine import Database
from hsfiq.db.tables import Response, Study
from hsfiq.errors import Conflict, Refused, SetBack
from tests.hsfiq.collect.study_participants import at_once
from tests.studies import (
    GOOD,
    OTHER,
    SMALL,
    Seat,
    changed,
    draw,
    make_queries,
    pair_answer,
    responses,
    set_status,
    values,
)


def test_a_repeated_submit_stores_one_row(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    assert seat.submit(question, GOOD, key="a press") == 1
    assert seat.submit(question, GOOD, key="a press") == 1
    assert seat.submit(question, GOOD, revision=1, key="a press") == 1
    assert len(responses(database, question)) == 1


def test_a_repeated_submit_is_recognized_later(database: Database, study: int, seat: Seat) -> None:
    """The acknowledgement was lost, and the browser repeats the request later."""
    question = seat.question_ids[0]
    seat.submit(question, GOOD, key="a press")
    seat.submit(question, OTHER, revision=1)
    seat.answer_all()
    set_status(database, study, "closed")
    assert seat.submit(question, GOOD, key="a press") == 1
    assert len(responses(database, question)) == 2


def test_one_submit_key_may_be_used_for_two_questions(database: Database, seat: Seat) -> None:
    for question in seat.question_ids[:2]:
        assert seat.submit(question, key="a press") == 1


@pytest.mark.parametrize("shown_revision", [0, -1])
def test_a_page_that_shows_another_revision_conflicts(
    database: Database, seat: Seat, shown_revision: int
) -> None:
    question = seat.question_ids[0]
    seat.submit(question)
    with pytest.raises(Conflict, match="answered in another window after the page was loaded"):
        seat.submit(question, OTHER, revision=shown_revision)
    assert [values(row) for row in responses(database, question)] == [GOOD]


def test_a_page_that_shows_a_revision_that_is_not_stored_has_been_set_back(
    database: Database, seat: Seat
) -> None:
    question = seat.question_ids[0]
    with pytest.raises(SetBack):
        seat.submit(question, revision=1)
    assert responses(database, question) == []
    seat.submit(question)
    with pytest.raises(SetBack):
        seat.submit(question, OTHER, revision=2)
    assert [values(row) for row in responses(database, question)] == [GOOD]


def test_revising_keeps_the_history_and_the_latest_counts(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    answers = [GOOD, OTHER, changed(GOOD, score_1=5)]
    for number, answer in enumerate(answers):
        assert seat.submit(question, answer, revision=number) == number + 1
    rows = responses(database, question)
    assert [(row.revision, values(row)) for row in rows] == list(enumerate(answers, start=1))
    with database.reading() as session:
        latest = latest_response(session, question)
        assert latest_response(session, seat.question_ids[1]) is None
    assert latest is not None
    assert latest.revision == 3


def submit_at_once(seat: Seat, calls: Sequence[dict[str, Any]]) -> list[int | type[Refused]]:
    """Submit in one thread for each call; each revision, or the type of the refusal."""

    def submit(index: int) -> int | type[Refused]:
        try:
            return seat.submit(**calls[index])
        except Refused as refusal:
            return type(refusal)

    return at_once(len(calls), submit)


def test_a_double_click_stores_one_row(database: Database, seat: Seat) -> None:
    for question in seat.question_ids[:2]:
        press = {"question_id": question, "key": "a press"}
        assert submit_at_once(seat, [press] * 8) == [1] * 8
        assert len(responses(database, question)) == 1


def test_each_revision_is_accepted_from_one_tab_only(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    for revision in range(3):
        tabs = [
            {
                "question_id": question,
                "answer": replace(GOOD, reason=f"{tab}"),
                "revision": revision,
            }
            for tab in range(8)
        ]
        outcomes = submit_at_once(seat, tabs)
        assert sorted(outcomes, key=str) == [revision + 1] + [Conflict] * 7
        row = responses(database, question)[-1]
        assert row.reason == str(outcomes.index(revision + 1))
    assert [row.revision for row in responses(database, question)] == [1, 2, 3]


@dataclass
class Tab:
    """A browser tab: its question, the revision that it shows, and its last submit."""

    seat: Seat
    name: str
    question: int = 0
    revision: int = 0
    presses: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    def load(self, place: int) -> None:
        """Show the question at this position, or the current one if it is not reached yet."""
        reached = self.seat.standing()
        number = min(place, reached.answered, reached.total - 1)
        self.question = self.seat.question_ids[number]
        rows = responses(self.seat.database, self.question)
        self.revision = rows[-1].revision if rows else 0

    def press(self, answer: Answer) -> int:
        self.presses += 1
        self.last = {
            "question_id": self.question,
            "answer": answer,
            "revision": self.revision,
            "key": f"{self.name}-{self.presses}",
        }
        self.revision = self.seat.submit(**self.last)
        return self.revision

    def press_again(self) -> int:
        """Repeat the last submit, as the browser does without an acknowledgement."""
        return self.seat.submit(**self.last)


answers = st.builds(
    pair_answer, st.integers(1, 5), st.integers(1, 5), st.integers(1, 2), st.booleans()
)


moves = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.tuples(st.just("load"), st.integers(0, 3)),
            st.tuples(st.just("press"), answers),
            st.tuples(st.just("press again"), st.none()),
        ),
    ),
    min_size=4,
    max_size=16,
)


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 4})


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(moves=moves)
def test_two_tabs_neither_lose_nor_duplicate_answers(
    database: Database, queries: list[int], moves: list[tuple[int, tuple[str, Any]]]
) -> None:
    # One form: no check stands in the way of the two tabs.
    with database.reading() as session:
        number = len(session.scalars(select(Study.id)).all())
    design = replace(SMALL, questions_per_form=4, forms_per_participant=1)
    seat = Seat.taken(database, draw(database, queries, design, name=f"study-{number}"))
    tabs = [Tab(seat, "left"), Tab(seat, "right")]
    for tab in tabs:
        tab.load(0)
    acknowledged: dict[tuple[int, int], Answer] = {}
    stored_by: dict[str, int] = {}
    for tab_number, (move, value) in moves:
        tab = tabs[tab_number]
        if move == "load":
            tab.load(value)
        elif move == "press again" and tab.last.get("key") in stored_by:
            assert tab.press_again() == stored_by[tab.last["key"]]
        elif move == "press":
            newest = sum(question == tab.question for question, _ in acknowledged)
            if tab.revision != newest:  # the other tab was quicker
                with pytest.raises(Conflict):
                    tab.press(value)
            else:
                assert tab.press(value) == newest + 1
                acknowledged[tab.question, newest + 1] = value
                stored_by[tab.last["key"]] = newest + 1
        with database.reading() as session:
            statement = select(Response).where(Response.question_id.in_(seat.question_ids))
            rows = session.scalars(statement).all()
        assert {(row.question_id, row.revision): values(row) for row in rows} == acknowledged
        assert len(rows) == len(acknowledged)
