"""Which images were seen before an answer: the columns of a release, and dropping unseen ones."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.steps import load_question
from hsfiq.db.engine import Database
from hsfiq.releases.filters import Filters
from hsfiq.study.config import Design
from tests.hsfiq.samples import hsfiq, release_of, rows
from tests.studies import GOOD, SHOWN, SKIP, Seat, draw, make_queries

UNSCROLLED = ImageStates("shown", (("shown", "enlarged"), ("missing", "loaded")))
UNSEEN = Filters(unseen=True)


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


def test_preferences_say_what_was_seen_and_enlarged(study: Database) -> None:
    columns = [
        (row["images_painted"], row["images_enlarged"], row["reference_state"])
        for row in rows(release_of(study), "preferences")
    ]
    assert columns == [(True, 1, "enlarged"), (False, 1, "shown"), (None, None, None)]


def test_states_follow_the_order_of_the_image_ids(study: Database) -> None:
    sets = {row["set_id"]: row for row in rows(release_of(study), "sets")}
    for side in (1, 2):
        row = sets[f"p1.form_1.1.{side}"]
        shown = [row["image_states"][place] for place in row["shown_order"]]
        assert tuple(shown) == UNSCROLLED.sets[side - 1]
        assert sets[f"p1.form_1.2.{side}"]["image_states"] is None


def test_the_shuffled_study_has_a_set_shown_in_another_order(study: Database) -> None:
    with study.reading() as session:
        orders = {
            tuple(order or ())
            for key in (1, 2, 3, 4)
            for order in (load_question(session, key).order_1, load_question(session, key).order_2)
        }
    assert orders == {(0, 1), (1, 0)}


def test_parquet_holds_null_for_unknown_states(study: Database) -> None:
    release = release_of(study)
    preferences = pq.read_table(io.BytesIO(release.files["preferences.parquet"]))
    sets = pq.read_table(io.BytesIO(release.files["sets.parquet"]))
    assert preferences["images_painted"].to_pylist() == [True, False, None]
    assert sets["image_states"].null_count == 2


@pytest.mark.parametrize("kind_of_release", ["hs", "hp"])
def test_unseen_answers_can_be_dropped_and_unknown_ones_stay(
    study: Database, kind_of_release: str
) -> None:
    release = release_of(study, kind_of_release, UNSEEN)  # type: ignore[arg-type]
    steps = [(step.rule, step.dropped, step.left) for step in release.funnel.steps]
    assert steps == [("unanswered", 0, 4), ("skipped", 1, 3), ("unseen", 1, 2)]
    kept = [row["question_id"] for row in rows(release, "preferences")]
    assert kept == ["p1.form_1.0", "p1.form_1.2"]
    excluded = [
        (row["question_id"], row["rule"], row["value"]) for row in rows(release, "exclusions")
    ]
    assert ("p1.form_1.1", "unseen", "3 of 5 images painted") in excluded
    assert json.loads(release.files["manifest.json"])["filters"] == [
        {"name": "unseen", "parameters": {}}
    ]
    assert "| unseen | 1 | 2 |" in release.files["README.md"].decode()


def test_the_same_state_and_options_give_the_same_bytes(study: Database) -> None:
    for filters in (Filters(), UNSEEN):
        assert release_of(study, "hp", filters).files == release_of(study, "hp", filters).files


def test_card_and_croissant_describe_the_columns(study: Database) -> None:
    release = release_of(study)
    card = release.files["README.md"].decode()
    record_sets = json.loads(release.files["croissant.json"])["recordSet"]
    fields = {field["@id"]: field for table in record_sets for field in table["field"]}
    for table, column in (
        ("preferences", "images_painted"),
        ("preferences", "images_enlarged"),
        ("preferences", "reference_state"),
        ("sets", "image_states"),
    ):
        meaning, null = fields[f"{table}/{column}"]["description"].split("; null if ")
        assert "it is unknown" in null
        assert f" | {meaning.removesuffix(' (in images)')} | {null} |\n" in card


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_command_drops_unseen_answers(
    study: Database, database_url: str, tmp_path: Path
) -> None:
    done = hsfiq(
        *("export", "--database", database_url, "--release", "hp"),
        *("--drop-unseen", "--out", tmp_path / "seen", "--json"),
    )
    assert done.code == 0, done.err
    (release,) = done.result["releases"]
    assert release["funnel"][-1] == {
        "rule": "unseen", "dropped": 1, "left": 2, "broken_by": 2
    }  # fmt: skip
    assert (tmp_path / "seen" / "preferences.parquet").is_file()
