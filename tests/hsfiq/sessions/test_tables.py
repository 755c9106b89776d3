"""Sessions as the tables that are measured: names of systems, ranks from lists, notes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.sessions.record import Corpus, Round, Session
from hsfiq.sessions.tables import deviations, system_names, tables_of

ROUND = Round(round=1, reference="r", text="is red", shown=("a", "t", "b"), scores=(2, 2, 2))
SESSION = Session(
    session_id="s",
    query_id="dress.val.0~",
    system="sprc",
    simulator="drawn-full",
    history="mean",
    chooser="top1",
    max_rounds=5,
    targets=("t",),
    rounds=(ROUND,),
)


def test_a_rank_that_is_not_recorded_is_taken_from_the_list() -> None:
    (row,) = tables_of([SESSION]).rounds
    assert (row["rank"], row["depth"], row["earlier_ties"], row["words"]) == (2, 3, 1, 2)
    (row,) = tables_of([replace(SESSION, targets=("absent",))]).rounds
    assert (row["rank"], row["depth"]) == (None, 3)


def test_queries_of_one_triplet_are_one_cluster() -> None:
    assert tables_of([SESSION]).triplets == {"dress.val.0~": "dress.val.0"}


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
    with pytest.raises(UnreadableInput, match="no system"):
        tables_of([script])


def test_texts_of_a_script_may_be_peoples() -> None:
    script = replace(SESSION, simulator="scripted")
    assert tables_of([SESSION]).simulated
    assert not tables_of([script]).simulated
    assert tables_of([replace(script, is_simulated=True)]).simulated


def test_a_session_twice_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="session s of sprc is given twice"):
        tables_of([SESSION, SESSION])


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
