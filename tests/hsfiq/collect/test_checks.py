"""Checks: attempts, results, and what a release does with them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from hsfiq.collect.checks import CheckResult, check_results
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, CheckAnswer, Form, Study
from hsfiq.errors import Forbidden, NotOpen, Refused
from hsfiq.study.config import Checks
from hsfiq.study.filters import Filters
from tests.hsfiq.samples import on_sqlite, release_of, rows
from tests.studies import GOOD, SKIP, SMALL, Seat, changed, draw, make_queries, set_status


def make_seat(database: Database, checks: Checks) -> Seat:
    """A participant of two forms with two questions and these checks each; ties are allowed."""
    queries = make_queries(database, {"shirt": 16})
    return Seat.taken(
        database, draw(database, queries, replace(SMALL, preference_ties=True), checks=checks)
    )


def results(database: Database) -> list[CheckResult]:
    with database.reading() as session:
        return list(check_results(session, session.scalars(select(Study)).one()))


def outcomes(database: Database) -> list[tuple[str, bool]]:
    return [(result.kind, result.passed) for result in results(database)]


def checks_of(database: Database, seat: Seat, kind: str) -> list[Check]:
    with database.reading() as session:
        statement = (
            select(Check)
            .join(Form, Check.form_id == Form.id)
            .where(Form.participant_id == seat.participant_id, Check.kind == kind)
            .order_by(Form.position)
        )
        return list(session.scalars(statement))


def answer(seat: Seat, preferences: dict[int, int]) -> None:
    """Answer everything, preferring set 1 unless `preferences` says otherwise."""
    while current := seat.standing().current:
        if current.check_id is not None:
            seat.pass_check(current.check_id)
        else:
            preferred = preferences.get(current.question_id, 1)
            seat.submit(current.question_id, changed(GOOD, preferred=preferred))


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_gold_pair_is_passed_only_by_choosing_its_winner(database: Database, offset: int) -> None:
    seat = make_seat(database, Checks(gold=1))
    gold = checks_of(database, seat, "gold")
    winners = {check.question_id: int(check.expected or 0) for check in gold}
    choices = {key: (winner + offset) % 3 for key, winner in winners.items() if key}
    answer(seat, choices)
    assert outcomes(database) == [("arithmetic", True)] + [("gold", offset == 0)] * 2


@on_sqlite
@pytest.mark.parametrize(
    ("first", "second", "passed"),
    [(1, 2, True), (2, 1, True), (0, 0, True), (1, 1, False), (2, 2, False), (0, 1, False),
     (2, 0, False)],
)  # fmt: skip
def test_a_repeated_pair_is_passed_by_the_same_set_again(
    database: Database, first: int, second: int, *, passed: bool
) -> None:
    seat = make_seat(database, Checks(arithmetic=False, repeated=1))
    check, other_check = checks_of(database, seat, "repeat")
    assert check.repeats_id
    assert check.question_id
    assert other_check.repeats_id
    assert other_check.question_id
    choices = {check.repeats_id: first, check.question_id: second}
    answer(seat, choices | {other_check.repeats_id: 1, other_check.question_id: 2})
    assert outcomes(database) == [("repeat", passed), ("repeat", True)]
    assert [result.form_id for result in results(database)] == [check.form_id, other_check.form_id]


@on_sqlite
def test_every_attempt_at_a_sum_is_a_result(database: Database) -> None:
    seat = make_seat(database, Checks())
    seat.answer_until(2)
    seat.submit(seat.question_ids[1])
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    assert outcomes(database) == []
    seat.try_check(check.check_id, "wrong")
    seat.pass_check(check.check_id)
    assert outcomes(database) == [("arithmetic", False), ("arithmetic", True)]


@on_sqlite
def test_unanswered_checks_have_no_result(database: Database) -> None:
    seat = make_seat(database, Checks(gold=1, repeated=1))
    assert outcomes(database) == []
    gold, repeat = (checks_of(database, seat, kind)[0] for kind in ("gold", "repeat"))
    skipped = {gold.question_id, repeat.repeats_id}
    for key in seat.question_ids[:4]:
        seat.submit(key, SKIP if key in skipped else GOOD)
    assert outcomes(database) == []
    assert gold.question_id is not None
    seat.submit(gold.question_id, changed(GOOD, preferred=int(gold.expected or 0)), revision=1)
    assert outcomes(database) == [("gold", True)]
    seat.submit(gold.question_id, SKIP, revision=2)  # the latest counts
    assert outcomes(database) == []


# -------------------------------------------------------------------------------------- releases


def fail_gold_of_the_second_form(database: Database) -> Seat:
    seat = make_seat(database, Checks(gold=1, repeated=1))
    first, second = checks_of(database, seat, "gold")
    repeats = checks_of(database, seat, "repeat")
    choices = {check.question_id: 2 for check in repeats} | {
        first.question_id: int(first.expected or 0),
        second.question_id: 3 - int(second.expected or 0),
    }
    answer(seat, {key: preferred for key, preferred in choices.items() if key is not None})
    return seat


def test_checks_are_not_part_of_a_release(database: Database) -> None:
    fail_gold_of_the_second_form(database)
    release = release_of(database)
    assert [(step.rule, step.dropped, step.left) for step in release.funnel.steps] == [
        ("check", 4, 4), ("unanswered", 0, 4), ("skipped", 0, 4),
    ]  # fmt: skip
    dropped = [(row["rule"], row["value"]) for row in rows(release, "exclusions")]
    assert sorted(dropped) == [("check", "gold")] * 2 + [("check", "repeat")] * 2
    pairs = [row["pair_id"] for row in rows(release, "preferences")]
    assert len(set(pairs)) == len(pairs) == 4
    assert all(row["system"] for row in rows(release, "sets"))


@on_sqlite
def test_forms_with_failed_checks_can_be_dropped(database: Database) -> None:
    fail_gold_of_the_second_form(database)
    release = release_of(database, "hs", Filters(failed_checks=True))
    assert [(step.rule, step.dropped, step.left) for step in release.funnel.steps][-1] == (
        "failed-checks", 2, 2,
    )  # fmt: skip
    assert {row["form"] for row in rows(release, "preferences")} == {"form_1"}
    values = {row["value"] for row in rows(release, "exclusions") if row["rule"] != "check"}
    assert values == {"1 failed"}


@on_sqlite
def test_a_release_keeps_the_orders_in_which_images_were_shown(database: Database) -> None:
    design = replace(SMALL, image_order="shuffled", k=3)
    seat = Seat.taken(database, draw(database, make_queries(database), design))
    seat.answer_all()
    set_rows = rows(release_of(database), "sets")
    assert all(sorted(row["shown_order"]) == [0, 1, 2] for row in set_rows)
    assert len({tuple(row["shown_order"]) for row in set_rows}) > 1


# -------------------------------------------------------------------------------- attempts at a sum


def check_of(seat: Seat) -> int:
    (check,) = {step.check_id for step in seat.standing().steps} - {None}
    assert check is not None
    return check


def tries(database: Database, check_id: int) -> list[tuple[str, bool]]:
    with database.reading() as session:
        kept = select(CheckAnswer).where(CheckAnswer.check_id == check_id).order_by(CheckAnswer.id)
        return [(row.given, row.passed) for row in session.scalars(kept)]


def answer_up_to_the_check(seat: Seat) -> int:
    for question in seat.question_ids[:2]:
        seat.submit(question)
    return check_of(seat)


def test_every_attempt_at_a_check_is_kept(database: Database, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    for attempt in ("", "five", "-1", "1" * 400):
        assert not seat.try_check(check, attempt)
        current = seat.standing().current
        assert current is not None
        assert current.check_id == check
    seat.pass_check(check)
    kept = tries(database, check)
    assert [passed for _, passed in kept] == [False] * 4 + [True]
    assert len(kept[3][0]) <= 400
    current = seat.standing().current
    assert current is not None
    assert current.check_id is None


def test_blanks_around_the_correct_answer_are_accepted(database: Database, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    with database.reading() as session:
        left, _, right = session.get_one(Check, check).prompt.split()
    assert seat.try_check(check, f"  {int(left) + int(right)}\n")


@pytest.mark.parametrize("attempt", ["1\0", "\ud83d"], ids=["NUL", "lone surrogate"])
def test_an_attempt_that_cannot_be_stored_is_refused(
    database: Database, seat: Seat, attempt: str
) -> None:
    check = answer_up_to_the_check(seat)
    with pytest.raises(Refused, match="characters that cannot be stored"):
        seat.try_check(check, attempt)
    assert tries(database, check) == []


def test_a_check_that_is_not_asked_is_forbidden(database: Database, study: int, seat: Seat) -> None:
    other_seat = Seat.taken(database, study)
    for check in (check_of(seat), check_of(other_seat), 10**6):
        with pytest.raises(Forbidden, match="this check cannot be answered now"):
            seat.try_check(check, "12")
    answer_up_to_the_check(seat)
    with pytest.raises(Forbidden):
        seat.try_check(check_of(other_seat), "12")
    seat.pass_check(check_of(seat))
    with pytest.raises(Forbidden):
        seat.try_check(check_of(seat), "12")
    assert tries(database, check_of(other_seat)) == []


def test_a_closed_study_accepts_no_check(database: Database, study: int, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    set_status(database, study, "closed")
    with pytest.raises(NotOpen):
        seat.try_check(check, "12")
    assert tries(database, check) == []
