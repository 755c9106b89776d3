"""A participant's figures and shares of preferences, counted answer by answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from hsfiq.actors import OWNER, Action
from hsfiq.answer_rules import Times, pair_values
from hsfiq.audit import record
from hsfiq.collect.asked_questions import load_question, shown_sets
from hsfiq.collect.progress import AnswerRow, answers_of
from hsfiq.collect.review import (
    FAST_SECONDS,
    FEWEST_FAST,
    LONG_RUN,
    UNKNOWN,
    Patterns,
    WinShares,
    flags_of,
    patterns_of,
    reasons_to_look,
    win_shares,
)
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Response, Study
from hsfiq.study.filters import DEFAULT_RUN
from tests.studies import GOOD, NOW, OTHER, SMALL, Seat, changed, draw, make_queries, pair_answer

A, B, C = (1, 2), (3, 4), (5, 6)


def answer(place: int, participant: str = "p1", **values: object) -> AnswerRow:
    row = AnswerRow(
        question_id=f"{participant}.form_1.{place}",
        position=(1, 1, place),
        participant=participant,
        triplet=place,
        sets=(A, B),
        values=pair_values(4, 2, 1),
        summary=None,
        irrelevant=False,
        skipped=None,
        are_painted=True,
        revisions=1,
        submitted_at=None,
        active_seconds=10.0,
        check=None,
        counts=True,
    )
    return replace(row, **values)  # type: ignore[arg-type]


def test_the_figures_of_a_participant() -> None:
    own = [
        answer(0),
        answer(1, active_seconds=2.0),
        answer(2, values=pair_values(1, 5, 1)),  # contradicts
        answer(3, values=pair_values(3, 3, 0), active_seconds=None),
        answer(4, skipped="image missing", values=None),
        answer(5, check="gold", values=pair_values(3, 3, 0)),
    ]
    others = [
        answer(
            0, "p2", sets=(B, A), values=pair_values(4, 2, 2)
        ),  # the same set, on the other side
        answer(1, "p2", values=pair_values(4, 2, 2)),
        answer(2, "p2", sets=(A, C)),  # other sets
        answer(3, "p2", values=pair_values(4, 2, 0)),
        answer(1, "p3", counts=False),  # of an excluded participant
    ]
    assert patterns_of([*reversed(own), *others], "p1") == Patterns(
        n_answers=4,
        fastest_seconds=2.0,
        median_seconds=10.0,
        longest_run=2,
        preferred=(1, 3, 0),
        contradictions=1,
        n_compared=3,
        n_same=2,
    )


def test_identical_sets_are_not_compared() -> None:
    rows = [answer(0, sets=(A, A)), answer(0, "p2", sets=(A, A), values=pair_values(4, 2, 2))]
    assert patterns_of(rows, "p1").n_compared == 0


def test_judgements_of_other_kinds_count_in_runs_only() -> None:
    rows = [
        answer(place, values={"score": score}, sets=(A,))
        for place, score in enumerate((4, 4, 4, 2))
    ]
    patterns = patterns_of(rows, "p1")
    assert (patterns.n_answers, patterns.longest_run, patterns.n_compared) == (4, 3, 0)
    assert patterns.preferred == (0, 0, 0)


def test_without_answers_nothing_is_known() -> None:
    assert patterns_of([answer(0, "p2")], "p1") == Patterns(0, None, None, 0, (0, 0, 0), 0, 0, 0)


# ------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(("seconds", "choices", "reasons"), [
    ([], [], ()),
    ([10.0] * 9, [4] * 9, ()),
    ([1.9] * 2 + [2.0] * 7, [4, 5] * 4, ()),
    ([1.9] * 3 + [None] * 5, [4, 5] * 4, ("3 of 8 answers in less than 2 s",)),
    ([9.0] * 12, [4, *[5] * 10, 4], ("10 equal answers in a row",)),
    ([0.0] * 20, [*[5] * 17, 4, 3, 4],
     ("20 of 20 answers in less than 2 s", "17 equal answers in a row")),
])  # fmt: skip
def test_the_reasons_to_look_at_a_participant(
    seconds: list[float | None], choices: list[int], reasons: tuple[str, ...]
) -> None:
    found = reasons_to_look(seconds, [(choice,) for choice in choices])
    assert tuple(map(str, found)) == reasons


def test_a_long_run_is_one_that_the_filter_would_drop() -> None:
    assert LONG_RUN == DEFAULT_RUN


def test_the_flags_are_those_of_the_latest_answers_with_their_first_times(
    database: Database, study: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a loop over the answers finds them."""
    fast, slow = (Seat.taken(database, study) for _ in range(2))
    for seat in (fast, slow):
        seat.answer_all()
    fast.submit(fast.question_ids[1], OTHER, revision=1)
    with database.writing() as session:
        session.execute(update(Response).values(active_seconds=10.0))
        session.execute(
            update(Response)
            .where(Response.question_id.in_(fast.question_ids), Response.revision == 1)
            .values(active_seconds=0.5)
        )
    monkeypatch.setattr("hsfiq.collect.review.LONG_RUN", 3)
    with database.reading() as session:
        row = session.get_one(Study, study)
        by_loop = {}
        for seat in (fast, slow):
            name = session.get_one(Participant, seat.participant_id).name
            own = sorted(
                (a for a in answers_of(session, row) if a.participant == name),
                key=lambda each: each.position,
            )
            n_fast = len([a for a in own if (a.active_seconds or 0.0) < FAST_SECONDS])
            run = patterns_of(own, name).longest_run
            reasons = []
            if n_fast >= FEWEST_FAST:
                reasons.append(f"{n_fast} of {len(own)} answers in less than 2 s")
            if run >= 3:
                reasons.append(f"{run} equal answers in a row")
            by_loop[seat.participant_id] = tuple(reasons)
        found = {key: tuple(map(str, said)) for key, said in flags_of(session, row).items()}
        assert found == {key: said for key, said in by_loop.items() if said}
        ((reason,),) = flags_of(session, row, [slow.participant_id]).values()
        assert str(reason) == "4 equal answers in a row"
    fast.set_status("excluded")
    with database.reading() as session:
        assert list(flags_of(session, session.get_one(Study, study))) == [slow.participant_id]


PREFERRED = (1, 2, 2, 0)
TIED = replace(SMALL, annotators_per_query=2, preference_ties=True)


def answer_questions(seat: Seat, hour: int, most: int = 4) -> None:
    """Answer up to `most` questions, preferring each of `PREFERRED` in turn."""
    at = NOW + timedelta(hours=hour)
    for number in range(most):
        while (step := seat.standing().current) and step.check_id is not None:
            seat.pass_check(step.check_id)
        if step is None:
            return
        given = pair_answer(
            3, 3, PREFERRED[number % 4], irrelevant=False, times=Times(None, None, at)
        )
        seat.submit(step.question_id, given)


def by_hand(database: Database, people: list[str]) -> dict[tuple[str, str], list[list[float]]]:
    """What each of these people has won for the first system of each pair, question by question."""
    won: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    with database.reading() as session:
        for name in people:
            own: dict[tuple[str, str], list[float]] = defaultdict(list)
            of_person = (
                select(Response)
                .join(Question, Response.question_id == Question.id)
                .join(Form, Question.form_id == Form.id)
                .join(Participant, Form.participant_id == Participant.id)
                .where(Participant.name == name)
            )
            for response in session.scalars(of_person):
                shown = [
                    each.system for each in shown_sets(load_question(session, response.question_id))
                ]
                first, second = (system.name for system in shown if system)
                share = 0.5 if response.preferred == 0 else float(response.preferred == 1)
                pair = (first, second) if first < second else (second, first)
                own[pair].append(share if pair[0] == first else 1 - share)
            for pair, shares in own.items():
                won[pair].append(shares)
    return won


def read(database: Database, study: int) -> WinShares:
    with database.reading() as session:
        return win_shares(session, session.get_one(Study, study))


def name_of(seat: Seat) -> str:
    return seat.participant().name


@pytest.fixture
def study(database: Database) -> int:
    return draw(database, make_queries(database), TIED)


def test_finished_participants_count_in_the_order_of_finishing(
    database: Database, study: int
) -> None:
    late, early, unfinished = (Seat.taken(database, study) for _ in range(3))
    answer_questions(late, 5)
    answer_questions(early, 3)
    answer_questions(unfinished, 1, most=2)
    shares = read(database, study)
    expected = by_hand(database, [name_of(early), name_of(late)])
    assert {pair: own for pair, own in shares.by_pair.items() if own} == {
        pair: [(sum(own) / len(own), len(own)) for own in people]
        for pair, people in expected.items()
    }
    assert len(shares.by_pair) == 3  # with those that nobody has answered
    assert (shares.n_finished, shares.n_unfinished) == (2, 1)
    assert shares.n_triplets <= 8
    assert "Not finished, so not counted yet: 1." in shares.notes()


def test_only_revisions_before_them_change_what_counts(database: Database, study: int) -> None:
    first, second = (Seat.taken(database, study) for _ in range(2))
    answer_questions(first, 1)
    answer_questions(second, 2)
    before = read(database, study)
    question = first.question_ids[0]
    later = Times(None, None, NOW + timedelta(hours=9))
    first.submit(question, replace(changed(GOOD, preferred=2), times=later), revision=1)
    after = read(database, study)
    # The answer changes, but not the participant's place.
    assert sum(n for own in after.by_pair.values() for _, n in own) == 8
    assert after.by_pair != before.by_pair
    order = [[n for _, n in own] for own in after.by_pair.values()]
    assert order == [[n for _, n in own] for own in before.by_pair.values()]


def test_who_leaves_or_is_excluded_never_counts(database: Database, study: int) -> None:
    stays, leaves, excluded = (Seat.taken(database, study) for _ in range(3))
    for seat in (stays, excluded):
        answer_questions(seat, 1)
    answer_questions(leaves, 1, most=3)
    excluded.set_status("excluded")
    with database.writing() as session:
        unanswered = session.get_one(Question, leaves.question_ids[-1])
        unanswered.reassigned = True  # the others are all answered
    shares = read(database, study)
    assert (shares.n_finished, shares.n_unfinished) == (1, 1)
    assert sum(n for own in shares.by_pair.values() for _, n in own) == 4


def test_shared_triplets_are_counted(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(4)]
    for hour, seat in enumerate(seats):
        answer_questions(seat, hour)
    shares = read(database, study)
    assert (shares.n_triplets, shares.n_shared) == (8, 8)
    assert any("the study's own queries" in note for note in shares.notes())


def test_a_new_study_of_the_same_systems_has_less_error_left(database: Database) -> None:
    queries = make_queries(database)
    first, second = (draw(database, queries, TIED, name) for name in ("autumn", "winter"))
    assert "at most 4%" in read(database, second).notes()[0]  # nobody has answered the first
    answer_questions(Seat.taken(database, first), 1)
    assert (read(database, first).n_earlier, read(database, second).n_earlier) == (0, 1)
    notes = read(database, second).notes()
    assert "at most 0.8%" in notes[0]
    assert "has 0.2% left" in notes[0]
    assert "1 earlier study compared these systems and spent 4%" in notes[1]
    with database.writing() as session:
        session.get_one(Study, first).origin = "simulated"
    assert read(database, second).n_earlier == 0


def test_deleted_studies_of_the_same_name_have_spent_their_error(database: Database) -> None:
    with database.writing() as session:
        for name, n in (("small", 12), ("small", 0), ("other", 9)):
            about = f"{n} answers by 3 participants"
            record(session, OWNER, Action.STUDY_DELETE, study=name, about=about)
    study = draw(database, make_queries(database), TIED)
    assert read(database, study).n_earlier == 1


def test_unknown_times_keep_the_order_of_the_participants(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(2)]
    for hour in (2, 1):
        answer_questions(seats[2 - hour], hour)
    with database.writing() as session:
        for response in session.scalars(select(Response)):
            response.submitted_at = None
    shares = read(database, study)
    expected = by_hand(database, [name_of(seat) for seat in seats])
    assert {pair: [n for _, n in own] for pair, own in shares.by_pair.items() if own} == {
        pair: [len(own) for own in people] for pair, people in expected.items()
    }
    assert UNKNOWN.tzinfo is not None
