"""Queries that are a text or an image alone: nulls in releases, and who needs both parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.history import question_history
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.next_study import candidates
from hsfiq.releases.export import export_releases
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import read_queries, read_sets
from tests.hsfiq.samples import hsfiq, on_sqlite, release_of, rows
from tests.studies import SMALL, Seat, draw, make_queries, pair_answer

STATES = ImageStates(None, (("shown",) * SMALL.k, ("shown", *["loaded"] * (SMALL.k - 1))))


def remove_references(database: Database) -> None:
    with database.writing() as session:
        session.execute(update(Triplet).values(reference_id=None, target_id=None))


def remove_texts(database: Database) -> None:
    with database.writing() as session:
        session.execute(update(Triplet).values(captions=[]))
        session.execute(update(Query).values(text=""))


def judged(database: Database, remove: Callable[[Database], None]) -> None:
    """A study of eight queries that lack a part, one of them answered."""
    key = draw(database, make_queries(database), SMALL)
    remove(database)
    seat = Seat.taken(database, key)
    seat.submit(seat.question_ids[0], pair_answer(4, 2, 1, images=STATES))


def test_a_query_without_reference_is_null_in_a_release(database: Database) -> None:
    judged(database, remove_references)
    release = release_of(database)
    assert {row["reference_id"] for row in rows(release, "queries")} == {None}
    assert {row["text"] for row in rows(release, "queries")} == {"is red"}
    preference = rows(release, "preferences")[0]
    assert (preference["reference_state"], preference["images_painted"]) == (None, False)
    assert rows(release, "sets")[1]["image_states"] == list(STATES.sets[1])
    assert "hpfiq.json" not in release.files


@on_sqlite
@pytest.mark.parametrize(
    ("remove", "part"), [(remove_references, "reference"), (remove_texts, "text")]
)
def test_the_published_layout_and_scorers_need_both_parts(
    database: Database, tmp_path: Path, remove: Callable[[Database], None], part: str
) -> None:
    key = draw(database, make_queries(database, length=5), replace(SMALL, k=5))
    remove(database)
    seat = Seat.taken(database, key)
    seat.answer_all()
    release = release_of(database)
    assert f"a query has no {part}" in release.notes[0]
    folder = tmp_path / "release"
    with database.reading() as session:
        (study,) = list_studies(session)
        export_releases(session, study, ["hp"], Filters(), folder=folder)
    assert len(read_queries(folder)) == 4
    with pytest.raises(UnreadableInput, match=f"has no {part}.*a scorer needs both"):
        read_sets(folder)
    with database.reading() as session:
        possible = candidates(session, [1, 2], k=2, systems=())
        with pytest.raises(UnreadableInput, match="a scorer needs both"):
            possible.sets[0].scorer_query  # noqa: B018
    analysed = hsfiq("analyze", folder, "--metric", "recall@5", "--resamples", "50")
    assert analysed.code == 0, analysed.err


@on_sqlite
def test_the_history_of_a_question_without_reference(database: Database) -> None:
    judged(database, remove_references)
    with database.reading() as session:
        (study,) = list_studies(session)
        name = rows(release_of(database), "preferences")[0]["question_id"]
        history = question_history(session, study, name)
    assert history is not None
    assert (history.reference, history.target) == (None, None)


def test_states_without_a_reference_are_stored_and_read() -> None:
    assert STATES.letters == " " + " ".join(["s" * SMALL.k, "s" + "l" * (SMALL.k - 1)])
    assert ImageStates.from_letters(STATES.letters) == STATES
    assert len(STATES) == len(list(STATES)) == 2 * SMALL.k
    assert STATES.including(STATES) == STATES
    assert not STATES.are_painted
