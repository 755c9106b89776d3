"""The rule that pauses or excludes participants who fail more checks than the study allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.actors import OWNER
from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.progress import participants_of
from hsfiq.collect.stages import completion_of, stage_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, StatusChange, Study
from hsfiq.errors import ConfigErrors, HsfiqError, NotOpen, Refused
from hsfiq.study.config import Checks
from hsfiq.study.config_file import read_config
from hsfiq.study.recruiting import Recruitment
from tests.hsfiq.samples import hsfiq, release_of, rows
from tests.studies import GOOD, NOW, SMALL, Seat, draw, make_queries, row_of

CODES = {"completion_code": "C0DE", "failed_checks_code": "FA1L"}


def study_with(database: Database, on_failure: str, limit: int, **codes: str) -> int:
    """Two forms of three questions, the third repeats a pair: preferring set 1 fails it."""
    return draw(
        database,
        make_queries(database),
        replace(SMALL, questions_per_form=2),
        checks=Checks(arithmetic=False, repeated=1, on_failure=on_failure),  # type: ignore[arg-type]
        recruitment=Recruitment(max_failed_checks=limit, **codes),  # type: ignore[arg-type]
    )


def answer_until_stopped(seat: Seat) -> int:
    """Prefer set 1 until no answer is taken; return how many were."""
    for number, question_id in enumerate(seat.question_ids):
        try:
            seat.submit(question_id, GOOD)
        except NotOpen:
            return number
    return len(seat.question_ids)


def changes(database: Database) -> list[tuple[str, str, str | None, dict[str, object] | None]]:
    with database.reading() as session:
        stored = session.scalars(select(StatusChange).order_by(StatusChange.id))
        return [(change.before, change.after, change.reason, change.rule) for change in stored]


def stage(database: Database, seat: Seat) -> tuple[str, str | None]:
    """The stage of the participant's page, and the code on it."""
    with database.reading() as session:
        participant = row_of(session, seat.participant_id)
        progress = steps_of(session, participant.id)
        current = stage_of(session, participant, progress)
        return current, completion_of(session, participant, current, progress.answered).get("code")


def resume(database: Database, reason: str = "") -> None:
    with database.writing() as session:
        participant = session.scalars(select(Participant)).one()
        perform(session, prepare(participant.study, "resume", participant, reason), OWNER)


@pytest.mark.parametrize(
    ("on_failure", "limit", "answered", "status", "page"),
    [
        ("none", 0, 6, "active", ("done", "FA1L")),
        ("pause", 0, 3, "paused", ("checks-paused", "FA1L")),
        ("exclude", 0, 3, "excluded", ("checks-excluded", "FA1L")),
        ("pause", 1, 6, "paused", ("done", "FA1L")),
        ("exclude", 1, 6, "excluded", ("checks-excluded", "FA1L")),
        ("exclude", 2, 6, "active", ("done", "C0DE")),
    ],
)
def test_the_rule_acts_with_the_answer_that_fails_one_check_too_many(
    database: Database,
    on_failure: str,
    limit: int,
    answered: int,
    status: str,
    page: tuple[str, str],
) -> None:
    seat = Seat.taken(database, study_with(database, on_failure, limit, **CODES))
    assert answer_until_stopped(seat) == answered
    assert seat.participant().status == status
    assert stage(database, seat) == page
    rule = {"on_failure": on_failure, "limit": limit, "failed": limit + 1}
    assert changes(database) == ([] if status == "active" else [("active", status, None, rule)])


@pytest.mark.parametrize(("on_failure", "code"), [("pause", None), ("exclude", "C0DE")])
def test_without_a_code_of_its_own(database: Database, on_failure: str, code: str | None) -> None:
    """Who is paused may go on later; who is excluded has done the work."""
    study_id = study_with(database, on_failure, 0, completion_code="C0DE")
    seat = Seat.taken(database, study_id)
    answer_until_stopped(seat)
    assert stage(database, seat)[1] == code


def test_a_repeated_request_and_a_second_tab_have_no_further_effect(database: Database) -> None:
    seat = Seat.taken(database, study_with(database, "pause", 0))
    first, second, repeated = seat.question_ids[:3]
    for question in (first, second):
        seat.submit(question)

    def press(key: str) -> int | None:
        try:
            return seat.submit(repeated, key=key)
        except HsfiqError:
            return None

    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(press, ("one", "one", "two", "two")))
    assert sorted(revision for revision in stored if revision) == [1, 1]  # a press and its repeat
    assert len(changes(database)) == 1


def test_the_owner_resumes_with_a_reason_until_the_next_failure(
    database: Database, database_url: str
) -> None:
    study_id = study_with(database, "pause", 0)
    seat = Seat.taken(database, study_id)
    answer_until_stopped(seat)
    words = ("participant", "resume", "p1", "--reason", "a typing error")
    assert hsfiq(*words, "--database", database_url).code == 0
    assert seat.participant().status == "active"
    assert stage(database, seat)[0] in ("asking", "practice")
    assert changes(database)[-1] == ("paused", "active", "a typing error", None)
    for question in seat.question_ids[3:]:
        seat.submit(question)
    assert seat.participant().status == "paused"
    assert [rule["failed"] for *_, rule in changes(database) if rule] == [1, 2]


def test_a_reason_that_cannot_be_stored(database: Database) -> None:
    Seat.taken(database, study_with(database, "pause", 0))
    for reason in ("x" * 1001, "\0"):
        with pytest.raises(Refused, match="the reason must be text"):
            resume(database, reason)
    assert changes(database) == []


def test_the_questions_of_who_is_excluded_are_asked_again_at_once(database: Database) -> None:
    study_id = study_with(database, "exclude", 0)
    seats = [Seat.taken(database, study_id) for _ in range(2)]
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)
    answer_until_stopped(seats[0])
    next_seat = Seat.taken(database, study_id)
    assert len(next_seat.question_ids) == 4  # without the checks


def test_the_owner_sees_the_rule_and_its_counts(database: Database, database_url: str) -> None:
    study_id = study_with(database, "exclude", 0)
    answer_until_stopped(Seat.taken(database, study_id))
    cause = "failed checks: 1, limit 0"
    with database.reading() as session:
        (row,) = participants_of(session, session.get_one(Study, study_id))
        assert (row.status, row.status_cause) == ("excluded", cause)
    printed = hsfiq("participant", "list", "--database", database_url).out
    row = printed.splitlines()[1]
    assert row.startswith("p1")
    assert f"excluded ({cause})" in row
    assert row.split()[-4:-2] == ["3", "6"]


def test_releases_name_the_rule_that_dropped_an_answer(database: Database) -> None:
    study_id = study_with(database, "exclude", 0)
    careful, careless = (Seat.taken(database, study_id) for _ in range(2))
    for question in careful.question_ids[:2]:
        careful.submit(question)
    answer_until_stopped(careless)
    dropped = {
        (row["question_id"].partition(".")[0], row["rule"], row["value"])
        for row in rows(release_of(database), "exclusions")
        if row["rule"] == "excluded"
    }
    assert dropped == {("p2", "excluded", "participant excluded: failed checks: 1, limit 0")}


def test_forgetting_deletes_the_changes(database: Database) -> None:
    study_id = study_with(database, "pause", 0)
    answer_until_stopped(Seat.taken(database, study_id))
    resume(database, "Ann asked")
    with database.writing() as session:
        participant = session.scalars(select(Participant)).one()
        perform(session, prepare(participant.study, "forget", participant), OWNER)
    assert changes(database) == []


def test_the_rule_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    head = '[study]\nname = "a"\ntitle = "T"\n[checks]\non_failure = "pause"\n'
    for text, message in (
        ("gold = 1\n", "line 5: checks.on_failure: needs recruitment.max_failed_checks"),
        ("[recruitment]\nmax_failed_checks = 1\n", "line 5: checks.on_failure: needs gold or"),
    ):
        path.write_text(head + text, encoding="utf-8")
        with pytest.raises(ConfigErrors) as raised:
            read_config(path)
        (line,) = raised.value.lines
        assert line.removeprefix(f"{path}: ").startswith(message)


def test_the_time_of_a_change_is_recorded(database: Database) -> None:
    seat = Seat.taken(database, study_with(database, "pause", 0), NOW)
    before = datetime.now(UTC)
    answer_until_stopped(seat)
    with database.reading() as session:
        assert before <= session.scalars(select(StatusChange.changed_at)).one() <= datetime.now(UTC)
