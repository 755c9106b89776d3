"""Editing a study's texts: what may change, versions, and the version of each answer."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import delete, select

from hsfiq.collect.owner import Edit, ForbiddenEdit, perform_edit, prepare_edit
from hsfiq.db.engine import Database
from hsfiq.db.tables import Response, Study, TextVersion
from hsfiq.errors import Conflict, Refused
from hsfiq.releases.content import build
from hsfiq.study.config import Questionnaire, StudyConfig, config_of
from hsfiq.study.filters import Filters
from hsfiq.study.instrument import ExtraQuestion
from hsfiq.study.texts import difference, version_notes
from tests.hsfiq.samples import rows
from tests.studies import NOW, Seat


def edited(config: StudyConfig, table: str = "study", **values: Any) -> StudyConfig:
    return replace(config, **{table: replace(getattr(config, table), **values)})


def prepared(database: Database, study_id: int, table: str = "study", **values: Any) -> Edit:
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        return prepare_edit(study, edited(config_of(study), table, **values), study.text_version)


def edit(database: Database, study_id: int, table: str = "study", **values: Any) -> int:
    change = prepared(database, study_id, table, **values)
    with database.writing() as session:
        return perform_edit(session, change, NOW).number


def test_an_edit_is_a_new_version_and_the_earlier_one_is_kept(
    database: Database, study: int
) -> None:
    assert edit(database, study, guidelines="Look three times.") == 2
    assert edit(database, study, "recruitment", completion_code="NEW") == 3
    with database.reading() as session:
        row = session.get_one(Study, study)
        assert (row.guidelines, row.text_version) == ("Look three times.", 3)
        assert config_of(row).recruitment.completion_code == "NEW"
        versions = session.scalars(select(TextVersion).order_by(TextVersion.number)).all()
        guidelines = [version.texts["study.guidelines"] for version in versions]
        assert guidelines == ["Look twice.", "Look three times.", "Look three times."]
        codes = [version.texts["recruitment.completion_code"] for version in versions]
        assert codes == ["", "", "NEW"]
        notes = version_notes(session, row)
    assert [note.difference for note in notes] == [
        (),
        ("study.guidelines:", "  -Look twice.", "  +Look three times."),
        ("recruitment.completion_code:", "  +NEW"),
    ]


def test_the_owners_words_can_change_but_not_the_number_of_points(
    database: Database, study: int
) -> None:
    assert edit(database, study, "wording", preference="Which set fits better?") == 2
    with database.reading() as session:
        row = session.get_one(Study, study)
        assert config_of(row).wording.preference == "Which set fits better?"
        assert version_notes(session, row)[1].difference == (
            "wording.preference:",
            "  +Which set fits better?",
        )
    with pytest.raises(ForbiddenEdit) as refused:
        prepared(database, study, "wording", anchors=("no", "partly", "yes"))
    (error,) = refused.value.errors
    assert error.where == "wording.anchors"
    assert "it has 5 points" in str(error)
    assert edit(database, study, "wording", anchors=("no", "", "", "", "yes")) == 3


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("study", {"name": "other"}),
        ("design", {"questions_per_form": 3}),
        ("design", {"reason_every": 2}),
        ("checks", {"gold": 1}),
        ("queries", {"sample": 3}),
        ("recruitment", {"participants": 1}),
        ("analysis", {"question": "systems"}),
    ],
)
def test_other_keys_cannot_change(
    database: Database, study: int, table: str, values: dict[str, Any]
) -> None:
    with pytest.raises(ForbiddenEdit) as refused:
        prepared(database, study, table, **values)
    (error,) = refused.value.errors
    (key,) = values
    assert error.where == f"{table}.{key}"
    assert "cannot change after the study was made" in str(error)


SURE = ExtraQuestion("sure", "choice", "Are you shure?", ("Yes", "Noo"), required=True)
AGE = ExtraQuestion("age", "number", "How old?")


@pytest.fixture
def asking(database: Database, study: int) -> int:
    """The study with an extra question and one at the end."""
    with database.writing() as session:
        row = session.get_one(Study, study)
        asked = Questionnaire(after_each=(SURE,), note="Thanks", at_end=(AGE,))
        row.design = row.design | {"questionnaire": json.loads(json.dumps(asdict(asked)))}
    return study


def test_the_words_of_extra_questions_can_change_with_a_history(
    database: Database, asking: int
) -> None:
    right = replace(SURE, text="Are you sure?", options=("Yes", "No"))
    assert edit(database, asking, "questionnaire", after_each=(right,), note="Thank you") == 2
    with database.reading() as session:
        row = session.get_one(Study, asking)
        questionnaire = config_of(row).questionnaire
        assert questionnaire == Questionnaire((right,), "Thank you", (AGE,))
        note = version_notes(session, row)[1].difference
    assert edit(database, asking, "questionnaire", at_end=(replace(AGE, text="Your age?"),)) == 3
    with database.reading() as session:
        last = version_notes(session, session.get_one(Study, asking))[2].difference
    assert last == ("questionnaire.at_end.1.text:", "  -How old?", "  +Your age?")
    # The first version was recorded without the questions, so only the note is known to differ.
    assert note == ("questionnaire.note:", "  +Thank you")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"after_each": ()}, "after_each"),
        ({"at_end": (AGE, replace(AGE, name="more"))}, "at_end"),
        ({"after_each": (replace(SURE, options=("Yes", "No", "?")),)}, "after_each.1.options"),
        ({"after_each": (replace(SURE, name="shure"),)}, "after_each.1.name"),
        ({"after_each": (replace(SURE, type="scale"),)}, "after_each.1.type"),
        ({"at_end": (replace(AGE, required=True),)}, "at_end.1.required"),
    ],
)
def test_the_structure_of_extra_questions_cannot_change(
    database: Database, asking: int, values: dict[str, Any], key: str
) -> None:
    with pytest.raises(ForbiddenEdit) as refused:
        prepared(database, asking, "questionnaire", **values)
    (error,) = refused.value.errors
    assert error.where == f"questionnaire.{key}"
    assert "cannot change" in str(error)


def test_the_study_of_a_platform_need_not_be_in_the_file(database: Database, study: int) -> None:
    with database.writing() as session:
        session.get_one(Study, study).platform_study_id = "abc123"
    change = prepared(database, study, "recruitment", platform_study_id="")
    assert change.changes == ()
    with pytest.raises(ForbiddenEdit):
        prepared(database, study, "recruitment", platform_study_id="other")


def test_an_edit_of_texts_that_have_changed_since_is_a_conflict(
    database: Database, study: int
) -> None:
    first = prepared(database, study, title="First")
    edit(database, study, title="Second")
    with database.writing() as session, pytest.raises(Conflict):
        perform_edit(session, first, NOW)
    with database.reading() as session:
        assert session.get_one(Study, study).title == "Second"
        assert len(session.scalars(select(TextVersion)).all()) == 2


def test_imported_answers_keep_their_texts(database: Database, study: int) -> None:
    with database.writing() as session:
        session.get_one(Study, study).origin = "imported"
    with pytest.raises(Refused, match="imported"):
        prepared(database, study, title="Another")


def test_texts_from_before_versions_were_recorded_become_the_first_version(
    database: Database, study: int
) -> None:
    with database.writing() as session:
        session.execute(delete(TextVersion))
        session.get_one(Study, study).text_version = None
    assert edit(database, study, title="Corrected") == 2
    with database.reading() as session:
        versions = session.scalars(select(TextVersion).order_by(TextVersion.number)).all()
    assert [(v.number, v.texts["study.title"]) for v in versions] == [
        (1, "Which set fits?"),
        (2, "Corrected"),
    ]
    assert (versions[0].created_at, versions[1].created_at) == (None, NOW)


def test_a_release_has_the_version_of_each_answer_and_all_texts_but_codes(
    database: Database, study: int
) -> None:
    seat = Seat.taken(database, study)
    seat.answer_all()
    with database.writing() as session:
        for response in session.scalars(select(Response)):
            response.text_version = 1 + response.question_id % 2
    edit(database, study, title="Corrected")
    edit(database, study, "recruitment", completion_code="SECRET")
    with database.reading() as session:
        release = build(session, session.get_one(Study, study), "hs", Filters(), schema_revision="")
    versions = {row["text_version"] for row in rows(release, "preferences")}
    assert versions == {1, 2}
    published = release.files["text_versions.json"].decode()
    assert '"study.title": "Corrected"' in published
    assert '"study.title": "Which set fits?"' in published
    assert all(b"SECRET" not in data for data in release.files.values())


def test_a_difference_shows_changed_lines_with_one_around(database: Database, study: int) -> None:
    edit(database, study, guidelines="one\ntwo\nthree\nfour")
    change = prepared(database, study, guidelines="one\ntwo\nthree!\nfour", minutes=7)
    assert difference(change.changes) == [
        *("study.guidelines:", "   two", "  -three", "  +three!", "   four"),
        *("study.minutes:", "  -0", "  +7"),
    ]
