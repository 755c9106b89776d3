"""Queries that are a text or an image alone: nulls in releases, and who needs both parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.question_history import question_history
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.next_study import candidates
from hsfiq.releases.folder import read_queries, read_sets
from tests.hsfiq.releases.small_releases import write_release
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


def test_a_query_without_reference_is_null_in_a_release_and_in_the_history(
    database: Database,
) -> None:
    key = draw(database, make_queries(database), SMALL)
    remove_references(database)
    seat = Seat.taken(database, key)
    seat.submit(seat.question_ids[0], pair_answer(4, 2, 1, images=STATES))
    release = release_of(database)
    assert {row["reference_id"] for row in rows(release, "queries")} == {None}
    assert {row["text"] for row in rows(release, "queries")} == {"is red"}
    preference = rows(release, "preferences")[0]
    assert (preference["reference_state"], preference["images_painted"]) == (None, False)
    assert rows(release, "sets")[1]["image_states"] == list(STATES.sets[1])
    assert "hpfiq.json" not in release.files
    with database.reading() as session:
        (study,) = list_studies(session)
        history = question_history(session, study, preference["question_id"])
    assert history is not None
    assert (history.reference, history.target) == (None, None)


@on_sqlite
@pytest.mark.parametrize(
    ("remove", "part"), [(remove_references, "reference"), (remove_texts, "text")]
)
def test_the_published_layout_and_scorers_need_both_parts(
    database: Database, tmp_path: Path, remove: Callable[[Database], None], part: str
) -> None:
    key = draw(database, make_queries(database, length=5), replace(SMALL, k=5))
    remove(database)
    Seat.taken(database, key).answer_all()
    assert f"a query has no {part}" in release_of(database).notes[0]
    folder = write_release(database, key, "hp", tmp_path / "release")
    assert len(read_queries(folder)) == 4
    with pytest.raises(UnreadableInput, match=f"has no {part}.*a scorer needs both"):
        read_sets(folder)
    with database.reading() as session:
        possible = candidates(session, [1, 2], k=2, systems=())
        with pytest.raises(UnreadableInput, match="a scorer needs both"):
            possible.sets[0].scorer_query  # noqa: B018
    analyzed = hsfiq("analyze", folder, "--metric", "recall@5", "--resamples", "50")
    assert analyzed.code == 0, analyzed.err
