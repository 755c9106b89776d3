"""A participant's figures, with values counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from hsfiq.answer_rules import pair_values
from hsfiq.collect.progress import AnswerRow, answers_of
from hsfiq.collect.review import (
    FAST_SECONDS,
    FEWEST_FAST,
    LONG_RUN,
    Patterns,
    flags_of,
    patterns_of,
    reasons_to_look,
)
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Response, Study
from hsfiq.releases.filters import DEFAULT_RUN
from tests.studies import OTHER, Seat

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
    assert reasons_to_look(seconds, [(choice,) for choice in choices]) == reasons


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
        assert flags_of(session, row) == {key: said for key, said in by_loop.items() if said}
        assert flags_of(session, row, [slow.participant_id]) == {
            slow.participant_id: ("4 equal answers in a row",)
        }
    fast.set_status("excluded")
    with database.reading() as session:
        assert list(flags_of(session, session.get_one(Study, study))) == [slow.participant_id]
