"""The content of a release: rows, funnel, and the same bytes for the same state.

Golden files have the manifests, cards and names of files, which `release verify` compares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import Any

import pytest

from hsfiq.answer_rules import Answer, Times
from hsfiq.collect.answers import Skip
from hsfiq.db.engine import Database
from hsfiq.errors import NothingToDo
from hsfiq.releases.content import Release
from hsfiq.study.config import Design
from hsfiq.study.filters import Filters
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import (
    hsfiq,
    import_fashioniq,
    import_hpfiq,
    new_database,
    on_sqlite,
    release_of,
    rows,
)
from tests.studies import NOW, Seat, draw, images_shown, make_queries, own_environment, pair_answer

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


def excluded(release: Release) -> dict[str, tuple[str, str]]:
    return {row["question_id"]: (row["rule"], row["value"]) for row in rows(release, "exclusions")}


# ------------------------------------------------------------------------------------- the funnel


UNUSABLE = {
    "p2.form_2.1": ("unanswered", "no response"),
    "p2.form_1.1": ("skipped", "missing-image"),
}
FLAGGED = {"p1.form_1.1": ("irrelevant", "flagged")}
CONTRADICTION = {"p1.form_2.0": ("contradicts", "prefers set 1, scores 2 and 4")}


@on_sqlite
@pytest.mark.parametrize(
    ("kind_of_release", "filters", "dropped", "expected"),
    [
        ("hs", Filters(), [1, 1], UNUSABLE),
        ("hs", Filters(invalid=True), [1, 1, 1], UNUSABLE | FLAGGED),
        # Equal scores do not contradict a preference.
        ("hp", Filters(invalid=True), [1, 1, 1, 1], UNUSABLE | FLAGGED | CONTRADICTION),
        (
            "hp",
            EVERYTHING,
            [1, 1, 1, 1, 1, 0],
            UNUSABLE | FLAGGED | CONTRADICTION | {"p2.form_2.0": ("failed-checks", "1 failed")},
        ),
        (
            "hp",
            Filters(min_seconds=3.0),
            [1, 1, 1],
            UNUSABLE | {"p2.form_2.0": ("too-fast(seconds=3)", "2.5 seconds")},
        ),
    ],
)
def test_the_funnel_and_the_exclusions_name_what_each_rule_dropped(
    study: Database,
    kind_of_release: str,
    filters: Filters,
    dropped: list[int],
    expected: dict[str, tuple[str, str]],
) -> None:
    release = release_of(study, kind_of_release, filters)
    assert release.funnel.n_assigned == 8
    left = list(accumulate(dropped, sub, initial=8))[1:]
    assert [(each.dropped, each.left) for each in release.funnel.steps] == list(
        zip(dropped, left, strict=True)
    )
    assert excluded(release) == expected


@on_sqlite
def test_kept_and_excluded_add_up_to_all_assigned_questions(study: Database) -> None:
    for kind in ("hs", "hp"):
        release = release_of(study, kind, EVERYTHING)
        kept = [row["question_id"] for row in rows(release, "preferences")]
        assert sorted([*kept, *excluded(release)]) == [
            f"p{p}.form_{f}.{place}" for p in (1, 2) for f in (1, 2) for place in (0, 1)
        ]


# --------------------------------------------------------------------------------------- the rows


def test_rows_have_flags_latest_revisions_and_results_of_checks(study: Database) -> None:
    release = release_of(study)
    by_question = {row["question_id"]: row for row in rows(release, "preferences")}
    flagged, revised = by_question["p1.form_1.1"], by_question["p2.form_2.0"]
    assert (flagged["score_1"], flagged["score_2"], flagged["preferred"]) == (1, 2, 2)
    assert flagged["irrelevant"] is True
    assert rows(release, "reasons") == [
        {"question_id": "p1.form_1.1", "participant_id": "p1", "reason": "two dogs"}
    ]
    assert (revised["score_1"], revised["preferred"], revised["revision"]) == (5, 1, 2)
    assert revised["active_seconds"] == 2.5  # of both revisions
    assert revised["submitted_at"] == NOW.isoformat()
    assert (revised["failed_checks"], by_question["p1.form_2.0"]["failed_checks"]) == (1, 0)


# ----------------------------------------------------------------------- the published layout


@on_sqlite
def test_ties_cannot_be_written_in_the_published_layout(study: Database) -> None:
    release = release_of(study)
    assert "hpfiq.json" not in release.files
    (note,) = release.notes
    assert "1 of 6 preferences are ties" in note
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
def test_a_study_without_answers_or_categories(database: Database) -> None:
    """Nothing is exported, or not in the published layout."""
    queries = make_queries(database, {"": 2}, length=5)
    key = draw(database, queries, Design(questions_per_form=2, forms_per_participant=1))
    with pytest.raises(NothingToDo, match=r"nothing to export: .* 2 questions"):
        release_of(database)
    Seat.taken(database, key).answer_all()
    release = release_of(database)
    assert "hpfiq.json" not in release.files
    assert "no category" in release.notes[0]


# ------------------------------------------------------------------------------------ determinism


def test_another_database_gives_the_same_bytes(database: Database, tmp_path: Path) -> None:
    """For any keys and tokens, and any kind of database."""
    other = new_database(tmp_path / "other.db")
    import_fashioniq(other)
    for each in (other, database):
        import_hpfiq(each)
    import_fashioniq(database)
    assert release_of(database).files == release_of(other).files
    other.close()


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
    assert first == second
    assert {Path(f"hpfiq-{kind}-1.0.0", "splits.parquet") for kind in ("hs", "hp")} <= set(first)
