"""Scales of 3 to 7 points and questions in the owner's words, from study.toml to the release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.annotate.texts import study_texts
from hsfiq.collect.studies import find_study
from hsfiq.errors import ConfigErrors
from hsfiq.releases.card import instrument_section
from hsfiq.study.config import config_of
from hsfiq.study.config_file import read_config
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue

SEVEN = ["Not at all", "", "", "Somewhat", "", "", "Completely"]
ANCHORS = '[wording]\nanchors = ["Not at all", "", "", "Somewhat", "", "", "Completely"]\n'
QUESTION = "How *elegant* is this set?"


def test_seven_points_reach_release_and_report(catalogue: Catalogue, tmp_path: Path) -> None:
    study = catalogue.answered(
        "single", name="seven", queries=ANCHORS + f'score = "{QUESTION}"\ntext = "Wish"\n'
    )
    release = catalogue.release(study, "single")
    about = json.loads(release.files["manifest.json"])
    assert about["scale"] == {"points": 7, "anchors": SEVEN}
    assert about["wording"] == {"score": QUESTION, "text": "Wish"}
    assert {row["score"] for row in rows(release, "scores")} <= set(range(1, 8))
    card = release.files["README.md"].decode()
    assert f"- score: {QUESTION}\n" in card
    assert "- score 7: Completely\n" in card

    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "single", "--out", folder)
    command = hsfiq("analyze", folder, "--resamples", "50", "--json")
    assert command.code == 0, command.err
    with catalogue.database.reading() as session:
        row = find_study(session, study)
        assert row is not None
        assert study_texts(session, row).page["anchors"] == SEVEN
        text = study_texts(session, row).guidelines
    assert r"How \*elegant\* is this set\?" in text
    assert "- 7: Completely\n" in text
    assert "**Wish**" in text


def test_pairs_on_three_points_have_no_published_layout(catalogue: Catalogue) -> None:
    study = catalogue.answered(
        "pair", name="three", queries='[wording]\nanchors = ["a", "b", "c"]\n'
    )
    release = catalogue.release(study, "hp")
    scores = {row[name] for row in rows(release, "preferences") for name in ("score_1", "score_2")}
    assert scores <= {1, 2, 3}
    assert "hpfiq.json" not in release.files
    assert "scores are from 1 to 3" in release.notes[0]


def test_levels_of_images_have_the_owners_names(catalogue: Catalogue) -> None:
    wording = '[wording]\nlevels = ["No", "Nearly", "Yes"]\nimage = "Would you buy it?"\n'
    name = catalogue.create("images", name="worded-levels", design="levels = 3\n", queries=wording)
    with catalogue.database.reading() as session:
        row = find_study(session, name)
        assert row is not None
        page = study_texts(session, row).page
        assert page["relevance_levels"]["3"] == ["No", "Nearly", "Yes"]
        assert page["how_well_image"] == "Would you buy it?"
        assert "- 3: Yes\n" in study_texts(session, row).guidelines
        assert config_of(row).wording.points == 5
    catalogue.hsfiq("study", "close", "--study", name)


def test_a_standard_study_has_no_section_about_wording() -> None:
    about = {"scale": {"points": 5, "anchors": None}, "languages": ["en"], "wording": {}}
    assert instrument_section(about) == ""


@pytest.mark.parametrize(
    ("wording", "kind", "expected"),
    [
        ('anchors = ["a", "b"]', "pair", "names 2 points; name 3 to 7"),
        ('anchors = ["a", "b", ""]', "pair", "the first and the last point need a text"),
        ('anchors = ["a", "b", "a"]', "single", "two of them have the same text"),
        ('anchors = ["a", "b", "c"]', "ranking", 'cannot be used with kind = "ranking"'),
        ('levels = ["a", "b", "c"]', "images", "names 3 levels; name 2, as design.levels"),
        ('levels = ["a", " "]', "images", "each level needs a text"),
        ('score = " "', "pair", "must be one line of at most 300 characters, not blank"),
        ('score = "a\\nb"', "pair", "must be one line"),
    ],
)
def test_wrong_wordings_are_refused(tmp_path: Path, wording: str, kind: str, expected: str) -> None:
    path = tmp_path / "study.toml"
    head = f'[study]\nname = "a"\ntitle = "A"\n[design]\nkind = "{kind}"\n[wording]\n'
    path.write_text(head + wording, encoding="utf-8")
    with pytest.raises(ConfigErrors) as error_info:
        read_config(path)
    (line,) = error_info.value.lines
    assert f"line 7: wording.{wording.split(maxsplit=1)[0]}: " in line
    assert expected in line


EXTRA = """
[[questionnaire.after_each]]
name = "sure"
type = "scale"
text = "How sure are you?"
options = ["Not at all", "", "Very"]
required = true

[[questionnaire.after_each]]
name = "words"
type = "text"
text = "In your words?"

[[questionnaire.at_end]]
name = "age"
type = "number"
text = "How old are you?"
required = true
"""


def test_extra_answers_reach_the_release(catalogue: Catalogue) -> None:
    study = catalogue.answered("single", name="extra", queries=EXTRA)
    release = catalogue.release(study, "single")
    assert [(row["field"], row["type"], row["options"]) for row in rows(release, "fields")] == [
        ("sure", "scale", ["Not at all", "", "Very"]),
        ("words", "text", None),
        ("age", "number", None),
    ]
    answers = rows(release, "extra_answers")
    asked = {row["question_id"] for row in rows(release, "scores")}
    assert {(row["question_id"], row["field"]) for row in answers} == {
        (question, field) for question in asked for field in ("sure", "words")
    }
    assert {row["number"] for row in answers if row["field"] == "sure"} <= {1.0, 2.0, 3.0}
    assert {row["value"] for row in answers if row["field"] == "words"} <= {
        "written by a simulated annotator",
        None,
    }
    participants = {row["participant_id"] for row in rows(release, "scores")}
    at_end = rows(release, "participant_answers")
    assert {row["participant_id"] for row in at_end} == participants
    assert all(18 <= row["number"] <= 80 for row in at_end)
    described = json.loads(release.files["croissant.json"])["recordSet"]
    assert {"fields", "extra_answers", "participant_answers"} <= {
        table["name"] for table in described
    }
    assert "### extra_answers" in release.files["README.md"].decode()
    plain = catalogue.release(catalogue.answered("single", name="plain"), "single")
    assert "extra_answers.parquet" not in plain.files
