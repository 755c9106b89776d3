"""A participant's figures, with values counted by hand."""

from __future__ import annotations

from dataclasses import replace

from hsfiq.collect.progress import AnswerRow
from hsfiq.collect.review.patterns import Patterns, patterns_of

A, B, C = (1, 2), (3, 4), (5, 6)


def answer(place: int, participant: str = "p1", **values: object) -> AnswerRow:
    row = AnswerRow(
        question_id=f"{participant}.form_1.{place}",
        position=(1, 1, place),
        participant=participant,
        triplet=place,
        sets=(A, B),
        scores=(4, 2),
        preferred=1,
        judgement=None,
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
        answer(2, scores=(1, 5), preferred=1),  # contradicts
        answer(3, scores=(3, 3), preferred=0, active_seconds=None),
        answer(4, skipped="image missing", scores=None, preferred=None),
        answer(5, check="gold", scores=(3, 3), preferred=0),
    ]
    others = [
        answer(0, "p2", sets=(B, A), preferred=2),  # the same set, on the other side
        answer(1, "p2", preferred=2),
        answer(2, "p2", sets=(A, C)),  # other sets
        answer(3, "p2", preferred=0),
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
    rows = [answer(0, sets=(A, A)), answer(0, "p2", sets=(A, A), preferred=2)]
    assert patterns_of(rows, "p1").n_compared == 0


def test_judgements_of_other_kinds_count_in_runs_only() -> None:
    rows = [
        answer(place, scores=None, preferred=None, sets=(A,), judgement=f"score {score}")
        for place, score in enumerate((4, 4, 4, 2))
    ]
    patterns = patterns_of(rows, "p1")
    assert (patterns.n_answers, patterns.longest_run, patterns.n_compared) == (4, 3, 0)
    assert patterns.preferred == (0, 0, 0)


def test_without_answers_nothing_is_known() -> None:
    assert patterns_of([answer(0, "p2")], "p1") == Patterns(0, None, None, 0, (0, 0, 0), 0, 0, 0)
