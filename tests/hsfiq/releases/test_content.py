"""The content of a release: files, rows, funnel, and the same bytes for the same state."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hsfiq.answer_rules import Answer, Times
from hsfiq.collect.answers import Skip
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo
from hsfiq.kinds.pair import HP
from hsfiq.releases.content import Release
from hsfiq.releases.filters import Filters
from hsfiq.study.config import Design
from tests.databases import migrated_sqlite
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import (
    hsfiq,
    import_fashioniq,
    import_hpfiq,
    on_sqlite,
    release_of,
    rows,
)
from tests.studies import NOW, Seat, draw, images_shown, make_queries, own_environment, pair_answer

TABLES = ("queries", "sets", "preferences", "exclusions")
FILES = {
    "README.md",
    "manifest.json",
    "croissant.json",
    *(f"{table}.{suffix}" for table in TABLES for suffix in ("parquet", "jsonl")),
}

EVERYTHING = Filters(invalid=True, failed_checks=True, min_seconds=2.0)


def answer(score_1: int, score_2: int, preferred: int, seconds: float = 9, **fields: Any) -> Answer:
    times = Times(NOW, NOW, NOW, seconds)
    return pair_answer(score_1, score_2, preferred, times=times, **fields)


@pytest.fixture
def study(database: Database) -> Database:
    """Two participants of two forms with two questions; the answers differ in every way.

    p1: form_1 fine, flagged; form_2 contradicting, equal scores
    p2: form_1 tied, skipped; form_2 (a check answered wrongly) revised and hasty, unanswered
    """
    queries = make_queries(database, length=5)
    design = Design(questions_per_form=2, forms_per_participant=2, preference_ties=True, seed=1)
    key = draw(database, queries, design)
    first_seat, second_seat = Seat.taken(database, key), Seat.taken(database, key)
    first = first_seat.question_ids
    first_seat.submit(first[0], answer(4, 2, 1))
    first_seat.submit(first[1], answer(1, 2, 2, irrelevant=True, reason="two dogs"))
    first_seat.answer_until(3)
    first_seat.submit(first[2], answer(2, 4, 1))
    first_seat.submit(first[3], answer(3, 3, 2))
    second = second_seat.question_ids
    second_seat.submit(second[0], answer(5, 5, 0))
    second_seat.submit(second[1], Skip(images_shown(5, "missing")))
    check = second_seat.standing().current
    assert check is not None
    assert check.check_id is not None
    assert not second_seat.try_check(check.check_id, "no idea")
    second_seat.pass_check(check.check_id)
    second_seat.submit(second[2], answer(1, 5, 1, seconds=1.0))
    second_seat.submit(second[2], answer(5, 1, 1, seconds=1.5), revision=1)
    return database


def funnel(release: Release) -> list[tuple[str, int, int]]:
    return [(step.rule, step.dropped, step.left) for step in release.funnel.steps]


def excluded(release: Release) -> dict[str, tuple[str, str]]:
    return {row["question_id"]: (row["rule"], row["value"]) for row in rows(release, "exclusions")}


# ------------------------------------------------------------------------------------- the funnel


@on_sqlite
def test_hs_drops_questions_without_scores(study: Database) -> None:
    release = release_of(study, "hs")
    assert release.funnel.n_assigned == 8
    assert funnel(release) == [("unanswered", 1, 7), ("skipped", 1, 6)]
    assert excluded(release) == {
        "p2.form_2.1": ("unanswered", "no response"),
        "p2.form_1.1": ("skipped", "missing-image"),
    }


@on_sqlite
def test_filtered_hs_drops_flagged_questions(study: Database) -> None:
    release = release_of(study, "hs", Filters(invalid=True))
    assert funnel(release)[2:] == [("irrelevant", 1, 5)]
    assert excluded(release)["p1.form_1.1"] == ("irrelevant", "flagged")


def test_filtered_hp_also_drops_contradictions_but_not_equal_scores(study: Database) -> None:
    release = release_of(study, "hp", Filters(invalid=True))
    assert funnel(release)[2:] == [("irrelevant", 1, 5), ("contradicts", 1, 4)]
    assert excluded(release)["p1.form_2.0"] == ("contradicts", "prefers set 1, scores 2 and 4")
    assert "p1.form_2.1" in {row["question_id"] for row in rows(release, "preferences")}


@on_sqlite
def test_every_filter_is_in_the_funnel_and_names_its_value(study: Database) -> None:
    release = release_of(study, "hp", EVERYTHING)
    assert funnel(release)[4:] == [("failed-checks", 1, 3), ("too-fast(seconds=2)", 0, 3)]
    assert excluded(release)["p2.form_2.0"] == ("failed-checks", "1 failed")
    hasty = release_of(study, "hp", Filters(min_seconds=3.0))
    assert excluded(hasty)["p2.form_2.0"] == ("too-fast(seconds=3)", "2.5 seconds")


@on_sqlite
def test_kept_and_excluded_add_up_to_all_assigned_questions(study: Database) -> None:
    for kind in ("hs", "hp"):
        release = release_of(study, kind, EVERYTHING)
        kept = [row["question_id"] for row in rows(release, "preferences")]
        question_ids = {
            f"p{p}.form_{f}.{place}" for p in (1, 2) for f in (1, 2) for place in (0, 1)
        }
        assert {*kept, *excluded(release)} == question_ids
        assert len(kept) + len(excluded(release)) == 8


# --------------------------------------------------------------------------------------- the rows


@on_sqlite
def test_flagged_questions_carry_scores_and_preference(study: Database) -> None:
    release = release_of(study)
    flagged = rows(release, "preferences")[1]
    assert (flagged["score_1"], flagged["score_2"], flagged["preferred"]) == (1, 2, 2)
    assert flagged["irrelevant"] is True
    assert rows(release, "reasons") == [
        {"question_id": "p1.form_1.1", "participant_id": "p1", "reason": "two dogs"}
    ]


def test_the_latest_revision_counts(study: Database) -> None:
    by_question = {row["question_id"]: row for row in rows(release_of(study), "preferences")}
    revised = by_question["p2.form_2.0"]
    assert (revised["score_1"], revised["preferred"], revised["revision"]) == (5, 1, 2)
    assert revised["active_seconds"] == 2.5  # of both revisions
    assert revised["submitted_at"] == NOW.isoformat()


@on_sqlite
def test_questions_record_the_check_results_of_their_form(study: Database) -> None:
    failed_checks = {
        row["question_id"]: row["failed_checks"] for row in rows(release_of(study), "preferences")
    }
    assert failed_checks["p2.form_2.0"] == 1
    assert failed_checks["p1.form_2.0"] == 0


@on_sqlite
def test_each_question_has_two_sets_in_their_shown_positions(study: Database) -> None:
    release = release_of(study)
    sets = {row["set_id"]: row for row in rows(release, "sets")}
    for row in rows(release, "preferences"):
        for side in (1, 2):
            set_row = sets.pop(row[f"set_{side}"])
            assert set_row["question_id"] == row["question_id"]
            assert (set_row["side"], set_row["score"]) == (side, row[f"score_{side}"])
            assert set_row["system"] == row[f"system_{side}"]
            assert len(set_row["image_ids"]) == 5
        assert row["system_1"] != row["system_2"]
    assert sets == {}


@on_sqlite
def test_the_queries_are_those_of_the_kept_questions(study: Database) -> None:
    release = release_of(study, "hp", EVERYTHING)
    query_ids = {row["query_id"] for row in rows(release, "preferences")}
    assert {row["query_id"] for row in rows(release, "queries")} == query_ids


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in row.items()
    }


@on_sqlite
def test_parquet_and_jsonl_hold_the_same_rows(study: Database) -> None:
    release = release_of(study, "hp", Filters(invalid=True))
    for table in TABLES:
        parquet = pq.read_table(io.BytesIO(release.files[f"{table}.parquet"])).to_pylist()
        assert parquet
        assert [comparable(row) for row in parquet] == rows(release, table)


# -------------------------------------------------------------------------------------- the files


@on_sqlite
def test_rows_have_the_columns_of_their_schema_in_order(study: Database) -> None:
    release = release_of(study, "hp")
    for name in TABLES:
        assert {tuple(row) for row in rows(release, name)} == {tuple(HP.schemas()[name].names)}


@on_sqlite
def test_every_file_is_listed_with_its_digest(database: Database) -> None:
    import_hpfiq(database)
    for kind, extra_files in (("hs", set()), ("hp", {"hpfiq.json"})):
        release = release_of(database, kind)
        assert set(release.files) == FILES | extra_files
        manifest = json.loads(release.files["manifest.json"])
        assert set(manifest["files"]) == FILES - {"manifest.json"} | extra_files
        for name, facts in manifest["files"].items():
            data = release.files[name]
            assert facts == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


@on_sqlite
def test_the_manifest(study: Database) -> None:
    manifest = json.loads(release_of(study, "hp", Filters(invalid=True)).files["manifest.json"])
    facts = ("name", "version", "kind", "study", "simulated", "schema_revision")
    assert [manifest[key] for key in facts] == ["small-hp", "1.0.0", "hp", "small", False, "test"]
    assert manifest["filters"] == [{"name": "invalid", "parameters": {}}]
    assert manifest["funnel"]["steps"][-1] == {
        "rule": "contradicts", "dropped": 1, "left": 4, "broken_by": 1
    }  # fmt: skip
    assert manifest["ties_allowed"] is True
    assert manifest["counts"] == {"questions": 4, "sets": 8, "queries": 4, "participants": 2}


@on_sqlite
def test_croissant_describes_every_table_and_column(study: Database) -> None:
    release = release_of(study)
    croissant = json.loads(release.files["croissant.json"])
    digests = {file["name"]: file["sha256"] for file in croissant["distribution"]}
    assert set(digests) == {f"{table}.parquet" for table in (*TABLES, "reasons")}
    for name, digest in digests.items():
        assert digest == hashlib.sha256(release.files[name]).hexdigest()
    for record_set in croissant["recordSet"]:
        schema = pq.read_schema(io.BytesIO(release.files[f"{record_set['name']}.parquet"]))
        assert [field["name"] for field in record_set["field"]] == schema.names


def front_matter(release: Release) -> str:
    return release.files["README.md"].decode().split("---\n")[1]


@on_sqlite
def test_the_card_names_each_table_that_has_rows(database: Database) -> None:
    import_hpfiq(database)
    unfiltered, filtered = release_of(database), release_of(database, "hp", Filters(invalid=True))
    # `datasets.load_dataset` fails on a configuration without rows.
    assert "exclusions" not in front_matter(unfiltered)
    assert "data_files: exclusions.parquet" in front_matter(filtered)
    for table in ("queries", "sets", "preferences"):
        assert f"- config_name: {table}\n  data_files: {table}.parquet\n" in front_matter(
            unfiltered
        )
    assert "| contradicts | 1 | 4 |" in filtered.files["README.md"].decode()


@on_sqlite
def test_simulated_answers_are_marked(study: Database) -> None:
    assert "simulated" not in release_of(study).files["README.md"].decode()
    with study.writing() as session:
        session.get_one(Study, 1).origin = "simulated"
    release = release_of(study)
    assert "**simulated annotators**" in release.files["README.md"].decode()
    assert json.loads(release.files["manifest.json"])["simulated"] is True


# ----------------------------------------------------------------------- the published layout


@on_sqlite
def test_ties_cannot_be_written_in_the_published_layout(study: Database) -> None:
    release = release_of(study)
    assert "hpfiq.json" not in release.files
    (note,) = release.notes
    assert note == ("no hpfiq.json: 1 of 6 preferences are ties, and the published layout has none")
    assert note in release.files["README.md"].decode()


@on_sqlite
def test_a_filtered_file_keeps_the_remaining_questions_of_each_form(database: Database) -> None:
    import_hpfiq(database)
    value = json.loads(release_of(database, "hp", Filters(invalid=True)).files["hpfiq.json"])
    kept = {
        user: {name: len(form["sentences"]) for name, form in value[user].items()} for user in value
    }
    # user_1's second form held the contradicting answer alone; user_2's never held any.
    assert kept == {
        "user_1": {"question_set_1": 2},
        "user_2": {"question_set_1": 2, "question_set_2": 0},
    }


@on_sqlite
def test_a_study_without_categories_cannot_be_written_in_the_published_layout(
    database: Database,
) -> None:
    queries = make_queries(database, {"": 2}, length=5)
    key = draw(database, queries, Design(questions_per_form=2, forms_per_participant=1))
    Seat.taken(database, key).answer_all()
    release = release_of(database)
    assert "hpfiq.json" not in release.files
    assert "no category" in release.notes[0]


@on_sqlite
def test_nothing_to_export(database: Database) -> None:
    queries = make_queries(database, length=5)
    draw(database, queries, Design(questions_per_form=2, forms_per_participant=1))
    what = "study small: nothing to export: no participant has one of its 8 questions yet"
    with pytest.raises(NothingToDo, match=what):
        release_of(database)


# ------------------------------------------------------------------------------------ determinism


def test_another_database_gives_the_same_bytes(database: Database, tmp_path: Path) -> None:
    """For any keys and tokens, and any kind of database."""
    (tmp_path / "other.db").write_bytes(migrated_sqlite())
    second_database = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    import_fashioniq(second_database)
    import_hpfiq(second_database)
    import_fashioniq(database)
    import_hpfiq(database)
    assert release_of(database).files == release_of(second_database).files
    second_database.close()


def test_every_process_gives_the_same_bytes(tmp_path: Path) -> None:
    """They have different hashes, and each draws the split."""
    other_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    write_imported_answers(tmp_path / "it.db")
    export = ("export", "--split", "triplet", "--test-share", "0.5")
    arguments = (*export, "--database", f"sqlite:///{tmp_path / 'it.db'}", "--out")
    subprocess.run(
        [sys.executable, "-m", "hsfiq", *arguments, tmp_path / "there"],
        env=own_environment(PYTHONHASHSEED=other_seed),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert hsfiq(*arguments, tmp_path / "here").code == 0
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.glob("*/*")}
        for folder in (tmp_path / "there", tmp_path / "here")
    )
    for folder in ("hpfiq-hs-1.0.0", "hpfiq-hp-1.0.0"):
        assert {Path(folder, name) for name in (*FILES, "splits.parquet")} <= set(first)
    assert first == second
