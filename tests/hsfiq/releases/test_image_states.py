"""Which images were seen before an answer: the columns of a release, and dropping unseen ones.

Golden files have the descriptions of the columns, and the command's option.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hsfiq.answer_rules import ImageStates
from hsfiq.db.engine import Database
from hsfiq.releases.searches import image_names
from hsfiq.study.config import Design
from hsfiq.study.filters import Filters
from tests.hsfiq.samples import on_sqlite, release_of, rows
from tests.studies import GOOD, SHOWN, SKIP, Seat, draw, make_queries

UNSCROLLED = ImageStates("shown", (("shown", "enlarged"), ("missing", "loaded")))


@pytest.fixture
def study(database: Database) -> Database:
    """Four questions of p1: seen, not seen completely, unknown and skipped."""
    design = Design(
        k=2, questions_per_form=4, forms_per_participant=1, image_order="shuffled", seed=1
    )
    seat = Seat.taken(database, draw(database, make_queries(database), design))
    seen, unscrolled, unknown, skipped = seat.question_ids
    seat.submit(seen, replace(GOOD, images=replace(SHOWN, reference="enlarged")))
    seat.submit(unscrolled, replace(GOOD, images=UNSCROLLED))
    seat.submit(unknown, GOOD)
    seat.submit(skipped, SKIP)
    return database


def test_rows_say_what_was_seen_in_the_order_of_the_image_ids(study: Database) -> None:
    release = release_of(study)
    columns = [
        (row["images_painted"], row["images_enlarged"], row["reference_state"])
        for row in rows(release, "preferences")
    ]
    assert columns == [(True, 1, "enlarged"), (False, 1, "shown"), (None, None, None)]
    sets = {row["set_id"]: row for row in rows(release, "sets")}
    assert {tuple(row["shown_order"]) for row in sets.values()} == {(0, 1), (1, 0)}
    for side in (1, 2):
        row = sets[f"p1.form_1.1.{side}"]
        shown = [row["image_states"][place] for place in row["shown_order"]]
        assert tuple(shown) == UNSCROLLED.sets[side - 1]
        assert sets[f"p1.form_1.2.{side}"]["image_states"] is None


@on_sqlite
@pytest.mark.parametrize("kind_of_release", ["hs", "hp"])
def test_unseen_answers_can_be_dropped_and_unknown_ones_stay(
    study: Database, kind_of_release: str
) -> None:
    release = release_of(study, kind_of_release, Filters(unseen=True))
    steps = [(step.rule, step.dropped, step.left) for step in release.funnel.steps]
    assert steps == [("unanswered", 0, 4), ("skipped", 1, 3), ("unseen", 1, 2)]
    kept = [row["question_id"] for row in rows(release, "preferences")]
    assert kept == ["p1.form_1.0", "p1.form_1.2"]
    excluded = {
        row["question_id"]: (row["rule"], row["value"]) for row in rows(release, "exclusions")
    }
    assert excluded["p1.form_1.1"] == ("unseen", "3 of 5 images painted")


def test_more_images_than_a_statement_of_postgresql_takes(database: Database) -> None:
    with database.reading() as session:
        assert image_names(session, set(range(70_000))) == {}
