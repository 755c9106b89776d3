"""The second answers to repeated questions, in a release's table `repeats`."""

from __future__ import annotations

from dataclasses import replace

from hsfiq.db.engine import Database
from hsfiq.study.config import Checks
from hsfiq.study.filters import Filters
from tests.hsfiq.collect.test_checks import answer, checks_of, make_seat
from tests.hsfiq.samples import on_sqlite, release_of, rows
from tests.studies import GOOD, SKIP


def test_second_answers_have_the_sides_of_the_first(database: Database) -> None:
    seat = make_seat(database, Checks(repeated=1))
    first_form, second_form = checks_of(database, seat, "repeat")
    assert first_form.question_id is not None
    assert second_form.question_id is not None
    answer(seat, {first_form.question_id: 2, second_form.question_id: 1})
    release = release_of(database)
    repeats = rows(release, "repeats")
    kept = {row["question_id"]: row for row in rows(release, "preferences")}
    assert [row["repeated_id"] in kept for row in repeats] == [True, True]
    assert not {row["question_id"] for row in repeats} & set(kept)
    for row, preferred in zip(repeats, (1, 2), strict=True):  # a repeat shows the sides swapped
        assert (row["score_1"], row["score_2"]) == (2, 4)
        assert row["preferred"] == preferred
        assert kept[row["repeated_id"]]["preferred"] == 1
        assert row["query_id"] == kept[row["repeated_id"]]["query_id"]
    assert b"repeats.parquet" in release.files["croissant.json"]
    assert "repeats.parquet" in release.files


@on_sqlite
def test_only_answered_repeats_of_kept_questions_are_released(database: Database) -> None:
    seat = make_seat(database, Checks(repeated=1))
    repeats = checks_of(database, seat, "repeat")
    answer(seat, {})
    assert repeats[0].question_id is not None
    seat.submit(repeats[0].question_id, SKIP, revision=1)
    assert len(rows(release_of(database), "repeats")) == 1
    assert repeats[1].repeats_id is not None
    seat.submit(repeats[1].repeats_id, replace(GOOD, irrelevant=True), revision=1)
    release = release_of(database, "hs", Filters(invalid=True))
    assert not [name for name in release.files if name.startswith("repeats")]
