"""Sessions of people and simulated ones as the tables that are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.sessions.record import Corpus, Round, Session
from hsfiq.sessions.tables import deviations, sides_of, system_names, tables_of

ROUND = Round(round=1, reference="r", text="is red", shown=("a", "t", "b"), scores=(2, 2, 2))
SESSION = Session(
    session_id="s", query_id="dress.val.0~", system="sprc", simulator="drawn-full",
    history="mean", chooser="top1", max_rounds=5, targets=("t",), rounds=(ROUND,),
)  # fmt: skip


def test_a_rank_that_is_not_recorded_is_taken_from_the_list() -> None:
    """Queries of one triplet are one cluster."""
    tables = tables_of([SESSION])
    (row,) = tables.rounds
    assert (row["rank"], row["depth"], row["earlier_ties"], row["words"]) == (2, 3, 1, 2)
    assert tables.triplets == {"dress.val.0~": "dress.val.0"}
    (row,) = tables_of([replace(SESSION, targets=("absent",))]).rounds
    assert (row["rank"], row["depth"]) == (None, 3)


def test_names_have_the_settings_that_differ() -> None:
    other = replace(SESSION, system="clip4cir")
    by_people = replace(SESSION, simulator=None, participant="p1")
    assert system_names([SESSION]) == ["sprc"]
    assert system_names([SESSION, other]) == ["sprc", "clip4cir"]
    assert system_names([SESSION, by_people]) == ["drawn-full", "people"]
    both = [SESSION, replace(other, history="last"), replace(SESSION, stop_at=10)]
    assert system_names(both) == ["sprc, mean", "clip4cir, last", "sprc, mean, stop at 10"]
    assert system_names([replace(SESSION, category="dress")], by_category=True) == ["sprc"]


def test_practice_and_scripts_are_left_out() -> None:
    practice = replace(SESSION, session_id="p", is_practice=True)
    script = replace(SESSION, session_id="x", system=None)
    tables = tables_of([SESSION, practice, script])
    assert [row["session_id"] for row in tables.sessions] == ["s"]
    assert "2 sessions" in tables.notes[0]
    with pytest.raises(UnreadableInput, match="no session with a system"):
        tables_of([script])
    with pytest.raises(UnreadableInput, match="session s of sprc is given twice"):
        tables_of([SESSION, SESSION])


def test_texts_of_a_script_may_be_peoples() -> None:
    script = replace(SESSION, simulator="scripted")
    assert tables_of([SESSION]).simulated
    assert not tables_of([script]).simulated
    assert tables_of([replace(script, is_simulated=True)]).simulated


def test_notes_name_what_cannot_be_compared() -> None:
    other = replace(
        SESSION, session_id="s2", system_version="b", corpus=Corpus(name="x", sha256="1")
    )
    notes = " ".join(tables_of([SESSION, other]).notes)
    assert "sprc: sessions of 2 versions" in notes
    assert "1 query searched in different corpora" in notes


def test_what_is_not_as_fisd_is_named() -> None:
    assert list(deviations([SESSION])) == []
    other = replace(SESSION, history="last", stop_at=10, max_rounds=None)
    assert list(deviations([other, other])) == [
        "not as FISD: 2 sessions with history last (FISD: mean)",
        "not as FISD: 2 sessions with max_rounds unknown (FISD: 5)",
        "not as FISD: 2 sessions with stop_at 10 (FISD: none)",
    ]


PERSON = Session(
    session_id="p1.form_1.0", query_id="q1", participant="p1", targets=("t",), history="mean",
    rounds=(Round(round=1, text="is red", shown=("a", "t"), rank=2),), system="SPRC",
    system_version="abc", chooser="nearest", max_rounds=5,
)  # fmt: skip
SIMULATED = replace(
    PERSON, session_id="q1/0", system="sprc", system_version=None, participant=None,
    simulator="drawn-full", chooser="top1", max_rounds=3,
)  # fmt: skip


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
