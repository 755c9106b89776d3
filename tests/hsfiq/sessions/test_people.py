"""People's sessions beside simulated ones of the same systems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.sessions.record import Round, Session
from hsfiq.sessions.tables import sides_of

PERSON = Session(
    session_id="p1.form_1.0",
    query_id="q1",
    rounds=(Round(round=1, text="is red", shown=("a", "t"), rank=2),),
    system="SPRC",
    system_version="abc",
    participant="p1",
    targets=("t",),
    history="mean",
    chooser="nearest",
    max_rounds=5,
)
SIMULATED = replace(
    PERSON,
    session_id="q1/0",
    system="sprc",
    system_version=None,
    participant=None,
    simulator="drawn-full",
    chooser="top1",
    max_rounds=3,
)


def test_systems_are_matched_by_version_and_by_name() -> None:
    renamed = replace(SIMULATED, system="my run", system_version="abc", chooser="unseen")
    other = replace(SIMULATED, system="clip4cir", simulator="same-text")
    sides = sides_of([PERSON, replace(PERSON, query_id="q2")], [SIMULATED, renamed, other])
    assert sides.sides == {
        "people: SPRC": (None, "SPRC"),
        "drawn-full, top1: SPRC": ("drawn-full, top1", "SPRC"),
        "drawn-full, unseen: SPRC": ("drawn-full, unseen", "SPRC"),
    }
    assert [row["system"] for row in sides.sessions] == [
        "people: SPRC", "people: SPRC", "drawn-full, top1: SPRC", "drawn-full, unseen: SPRC"
    ]  # fmt: skip
    notes = "\n".join(sides.notes)
    assert "1 session of systems that people did not search with" in notes
    assert "drawn-full, top1: 1 of the people's 2 queries not played" in notes
    assert "drawn-full, top1: chooser top1, people nearest" in notes
    assert "drawn-full, top1: rounds 3, people 5" in notes
    assert "goes on after a hit" in notes
    assert "simulated participants" not in notes


def test_a_version_of_several_systems_does_not_tell_them_apart() -> None:
    people = [
        replace(PERSON, system="SPRC", system_version="1"),
        replace(PERSON, system="CoVR", system_version="1"),
    ]
    simulated = [replace(SIMULATED, system=name, system_version="1") for name in ("sprc", "covr")]
    sides = sides_of(people, simulated)
    assert [row["system"] for row in sides.sessions[2:]] == [
        "drawn-full: SPRC", "drawn-full: CoVR"
    ]  # fmt: skip


def test_simulated_participants_are_named_as_such() -> None:
    sides = sides_of([replace(PERSON, is_simulated=True)], [SIMULATED])
    assert any("simulated participants" in note for note in sides.notes)


@pytest.mark.parametrize(
    ("person", "simulated", "message"),
    [
        (replace(PERSON, targets=()), SIMULATED, "holds no search of people for a target"),
        (replace(PERSON, participant=None), SIMULATED, "holds no search of people for a target"),
        (
            replace(PERSON, rounds=(Round(round=1, text="is red"),)),
            SIMULATED,
            "holds no list that people saw",
        ),
        (PERSON, replace(SIMULATED, system="other"), "people searched with SPRC, and the sessions"),
    ],
)
def test_what_cannot_be_compared(person: Session, simulated: Session, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        sides_of([person], [simulated])
