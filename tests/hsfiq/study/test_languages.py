"""Language files beside study.toml: reading, errors, what falls back, and stored studies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.annotate.texts import study_texts
from hsfiq.collect.participant_row import StudyRow
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigErrors
from hsfiq.study.config import Presentation, StudyConfig, Translation, config_of
from hsfiq.study.config_file import read_config
from hsfiq.study.design import draw_study
from hsfiq.study.languages import (
    LANGUAGES,
    OVERLAYS,
    direction,
    fallbacks_of,
    is_tag,
    leaves,
    missing_texts,
    nested,
    overlaid,
    preferred,
    standard_texts,
    worded_texts,
)
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import SMALL, make_queries

STUDY = """\
[study]
name = "autumn"
title = "Which set fits?"
languages = ["en", "de"]

[study.de]
title = "Welche Auswahl passt?"
set_names = ["Laden 1", "Laden 2"]

[design]
k = 2
questions_per_form = 2

[queries]
dataset = "small"
"""

OWN_WORDS = """
[wording]
score = "How similar?"

[questionnaire]
note = "Voluntary."

[[questionnaire.after_each]]
name = "sure"
type = "scale"
text = "Are you sure?"
options = ["No", "", "Yes"]

[[questionnaire.at_end]]
name = "age"
type = "number"
text = "How old are you?"
"""
SURE = "questionnaire.after_each.sure.options"

GERMAN: dict[str, Any] = {
    "name": "Deutsch",
    "page": {"next": "Weiter", "image_of": "Bild {number} von {total}, {set}"},
    "entry": {"begin": "Beginnen"},
}


def written(folder: Path, german: Any = GERMAN, study: str = STUDY) -> Path:
    (folder / "study.toml").write_text(study, encoding="utf-8")
    text = german if isinstance(german, str) else json.dumps(german)
    (folder / "de.json").write_text(text, encoding="utf-8")
    return folder / "study.toml"


def faults(path: Path) -> list[str]:
    with pytest.raises(ConfigErrors) as refused:
        read_config(path)
    return [line.removeprefix(f"{path.parent}/") for line in refused.value.lines]


def stored(database: Database, config: StudyConfig) -> Study:
    queries = make_queries(database)
    with database.writing() as session:
        return draw_study(session, config, queries)


# --------------------------------------------------------------------------------------- reading


def test_a_study_has_the_texts_of_its_languages(tmp_path: Path, database: Database) -> None:
    (tmp_path / "consent.de.md").write_text("Ich nehme teil.", encoding="utf-8")
    config = read_config(written(tmp_path))
    assert config.study.languages == ("en", "de")
    assert config.study.translations == {
        "de": Translation(
            title="Welche Auswahl passt?",
            consent="Ich nehme teil.",
            set_names=("Laden 1", "Laden 2"),
            texts=GERMAN,
        )
    }
    stored(database, config)
    (tmp_path / "de.json").unlink()  # which is not read again
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        assert config_of(study) == config
        german, english = (study_texts(session, StudyRow.of(study), tag) for tag in ("de", "en"))
        fallbacks = fallbacks_of(session, study)
    assert (german.title, german.set_names) == ("Welche Auswahl passt?", ("Laden 1", "Laden 2"))
    assert (german.page["next"], german.entry["begin"]) == ("Weiter", "Beginnen")
    assert german.page["back"] == english.page["back"] == "Back"
    assert german.own_consent == "Ich nehme teil."
    assert "Laden 1 and Laden 2" in german.guidelines
    assert (english.title, english.own_consent) == ("Which set fits?", "")
    assert fallbacks["en"] == []
    assert {"page.back", "page.anchors", "guidelines.de.md"} < set(fallbacks["de"])
    assert not {"page.next", "entry.begin", "name", "consent.de.md"} & set(fallbacks["de"])
    assert not {"study.de.title", "study.de.set_names"} & set(fallbacks["de"])


def test_own_guidelines_and_consent_stand_in_for_missing_ones(
    tmp_path: Path, database: Database
) -> None:
    study = STUDY.replace('["en", "de"]', '["en", "de", "ko"]\nguidelines = "# Look"')
    (tmp_path / "guidelines.de.md").write_text("# Schauen", encoding="utf-8")
    stored(database, read_config(written(tmp_path, study=study)))
    with database.reading() as session:
        row = session.scalars(select(Study)).one()
        texts = {tag: study_texts(session, StudyRow.of(row), tag) for tag in ("en", "de", "ko")}
        fallbacks = fallbacks_of(session, row)
    assert {tag: each.guidelines for tag, each in texts.items()} == {
        "en": "# Look", "de": "# Schauen", "ko": "# Look",
    }  # fmt: skip
    assert texts["ko"].standard_consent != texts["de"].standard_consent
    assert texts["ko"].page["next"] == standard_texts("ko")["page"]["next"]
    assert fallbacks["ko"] == ["study.ko.title", "guidelines.ko.md"]


def test_a_single_language_may_be_the_owners(tmp_path: Path, database: Database) -> None:
    path = tmp_path / "study.toml"
    path.write_text('[study]\nname = "a"\ntitle = "Hallo"\nlanguage = "de"\n', encoding="utf-8")
    (tmp_path / "de.json").write_text(json.dumps(GERMAN), encoding="utf-8")
    (tmp_path / "guidelines.de.md").write_text("# Schauen", encoding="utf-8")
    config = read_config(path)
    assert (config.study.languages, config.study.guidelines) == (("de",), "# Schauen")
    assert config.study.translations == {"de": Translation(texts=GERMAN)}


def test_a_stored_study_of_one_language_keeps_it(database: Database) -> None:
    study = stored(database, StudyConfig(Presentation("small", "S"), SMALL))
    with database.writing() as session:
        row = session.get_one(Study, study.id)
        presentation = {**row.design["study"], "language": "ko"}
        del presentation["languages"], presentation["translations"]
        row.design = row.design | {"study": presentation}
    with database.reading() as session:
        row = session.get_one(Study, study.id)
        assert config_of(row).study.languages == ("ko",)
        assert study_texts(session, StudyRow.of(row)).language == "ko"


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("german", "lines"),
    [
        ({"page": {"nexxt": "Weiter"}}, ["page.nexxt: is not a key here; there are those of"]),
        ({"sites": {}}, ["sites: is not a key here; there are"]),
        ({"page": {"next": 3}}, ["page.next: must be a text"]),
        ({"page": {"next": " "}}, ["page.next: is empty"]),
        ({"page": []}, ["page: must be an object"]),
        ([], ["must be an object"]),
        ({"page": {"anchors": ["a", "b"]}}, ["page.anchors: must be 5 texts, not 2"]),
        ({"page": {"anchors": "a"}}, ["page.anchors: must be a list of texts"]),
        (
            {"page": {"anchors": ["a", "b", "a ", "c", "d"], "relevance_levels": {"2": ["x"] * 2}}},
            ["page.anchors: two of them have", "page.relevance_levels.2: two of them have"],
        ),
        ({"page": {"position": "Frage {number}"}}, ["page.position: the placeholder {total} is"]),
        ({"page": {"next": "{number}"}}, ["page.next: the placeholder {number} is unknown; this"]),
        ({"page": {"check_prompt": "{sum} {sun}"}}, ["page.check_prompt: the placeholder {sun}"]),
        ({"page": {"next": "a } b"}}, ["page.next: has a brace that is not part of a placeholder"]),
        # As an escape, which JSON allows.
        ({"page": {"next": "\ud800"}}, ["page.next: contains characters that cannot be stored"]),
        ({"text_queries": {"page": {"next": "Weiter"}}}, ["text_queries.page.next: is not a key"]),
        ('{"page": {}, "page": {}}', ["the key 'page' occurs twice"]),
        ('{"page": {', ["line 1, column 11: invalid JSON"]),
        ({"page": {"next": "", "back": 1}}, ["page.back: must be a text", "page.next: is empty"]),
        ({"questionnaire": {"after_all": {}}}, ["questionnaire.after_all: is not a key here"]),
        (
            {"questionnaire": {"after_each": {"sure": {"options": ["Nein", "Ja"]}, "sicher": {}}}},
            ["questionnaire.after_each.sicher: is not a key", f"{SURE}: must be"],
        ),
        (
            {"questionnaire": {"after_each": {"sure": {"options": ["Ja", "", "Ja"]}}}},
            [f"{SURE}: two of them have the same text"],
        ),
        (
            {"questionnaire": {"at_end": {"age": {"options": []}}}},
            ["questionnaire.at_end.age.options: is not a key here"],
        ),
    ],
)
def test_every_fault_of_a_language_file_has_its_line(
    tmp_path: Path, german: Any, lines: list[str]
) -> None:
    found = sorted(faults(written(tmp_path, german, STUDY + OWN_WORDS)))
    for line, expected in zip(found, sorted(lines), strict=True):
        assert line.startswith(f"de.json: {expected}")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (('["en", "de"]', '["en", "de", "fr"]'), "line 4: study.languages: fr.json is missing"),
        (('["en", "de"]', '["en", "../de"]'), "line 4: study.languages: '../de' is not a language"),
        (('["en", "de"]', '["en", "DE"]'), "line 4: study.languages: 'DE' is not a language tag"),
        (('["en", "de"]', '["de", "de"]'), "line 4: study.languages: must name each language once"),
        (('["en", "de"]', "[]"), "line 4: study.languages: must name each language once"),
        (('["en", "de"]', '"de"'), "line 4: study.languages: 'de' is not a list of texts"),
        (("[study.de]", "[study.fr]"), "line 6: study.fr: is not one of the study's further"),
        (("[study.de]", "[study.en]"), "line 6: study.en: is not one of the study's further"),
        (("title = \"Wel", "titel = \"Wel"), "line 7: study.de.titel: is not a key here; there"),
        (('["Laden 1", "Laden 2"]', '["a"]'), "line 8: study.de.set_names: must be two different"),
        (("languages", "language = 'en'\nlanguages"), "line 4: study.language: leave it out"),
        (('languages = ["en", "de"]', "language = 3"), "line 4: study.language: 3 is not text"),
    ],
)  # fmt: skip
def test_what_study_toml_says_of_languages_is_checked(
    tmp_path: Path, change: tuple[str, str], line: str
) -> None:
    lines = faults(written(tmp_path, study=STUDY.replace(*change)))
    assert any(each.startswith(f"study.toml: {line}") for each in lines), lines


SEVEN = ["Not at all", "", "", "Partly", "", "", "Completely"]
SEVEN_POINTS = f"{STUDY}\n[wording]\nanchors = {json.dumps(SEVEN)}\n"


def test_the_scale_has_as_many_points_in_every_language(tmp_path: Path) -> None:
    five = {"page": {"anchors": ["a", "b", "c", "d", "e"]}}
    assert faults(written(tmp_path, five, SEVEN_POINTS)) == [
        "de.json: page.anchors: must be 7 texts, not 5"
    ]
    seven = {"page": {"anchors": ["Gar nicht", "", "", "Zum Teil", "", "", "Ganz"]}}
    config = read_config(written(tmp_path, seven, SEVEN_POINTS))
    assert config.study.translations["de"].texts == seven
    seven["page"]["anchors"][3] = ""
    assert faults(written(tmp_path, seven, SEVEN_POINTS)) == ["de.json: page.anchors.3: is empty"]


def test_a_language_file_translates_the_owners_questions(
    tmp_path: Path, database: Database
) -> None:
    sure = {"text": "Sind Sie sicher?", "options": ["Nein", "", "Ja"]}
    german = {"questionnaire": {"note": "Freiwillig.", "after_each": {"sure": sure}}}
    study = STUDY.replace('["en", "de"]', '["en", "de", "ko"]') + OWN_WORDS
    stored(database, read_config(written(tmp_path, german, study)))
    with database.reading() as session:
        row = session.scalars(select(Study)).one()
        texts = {
            tag: study_texts(session, StudyRow.of(row), tag).questionnaire
            for tag in ("en", "de", "ko")
        }
        fallbacks = fallbacks_of(session, row)
        shown = study_texts(session, StudyRow.of(row), "ko").page["how_well"]
    assert texts["en"] == texts["ko"] == config_of(row).questionnaire
    assert texts["de"].note == "Freiwillig."
    assert texts["de"].after_each[0].text == "Sind Sie sicher?"
    assert texts["de"].after_each[0].options == ("Nein", "", "Ja")
    assert texts["de"].at_end[0].text == "How old are you?"
    assert shown == "How similar?"
    assert fallbacks["en"] == []
    assert fallbacks["ko"][1:] == [
        "page.how_well",
        "questionnaire.note",
        "questionnaire.after_each.sure.text",
        "questionnaire.after_each.sure.options",
        "questionnaire.at_end.age.text",
    ]
    assert {"page.how_well", "questionnaire.at_end.age.text"} < set(fallbacks["de"])
    assert "questionnaire.note" not in fallbacks["de"]


# ------------------------------------------------------------------------------------ the texts


def test_an_overlay_falls_back_to_its_own_english_text() -> None:
    """A translated text for usual queries must not be shown for queries of another form."""
    own = {"page": {"user_text": "Text: wie das Bild anders sein soll", "next": "Weiter"}}
    english = worded_texts("en", "text")["page"]
    german = worded_texts("de", "text", "pair", own)["page"]
    assert (german["user_text"], german["next"]) == (english["user_text"], "Weiter")
    assert "text_queries.page.user_text" in missing_texts("de", "text", "pair", own)
    assert "page.user_text" not in missing_texts("de", "text", "pair", {})
    translated = overlaid(own, {"text_queries": {"page": {"user_text": "Suchtext"}}})
    assert worded_texts("de", "text", "pair", translated)["page"]["user_text"] == "Suchtext"
    assert "text_queries.page.user_text" not in missing_texts("de", "text", "pair", translated)


def test_the_standard_texts_are_complete() -> None:
    for language in LANGUAGES:
        for kind in ("pair", "single", "images", "ranking", "query"):
            for form in ("composed", "text", "image"):
                assert missing_texts(language, form, kind, {}) == {}  # type: ignore[arg-type]
        assert set(OVERLAYS) < standard_texts(language).keys()
    assert nested(dict(leaves(standard_texts("ko")))) == standard_texts("ko")


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", "en"), ("de-AT,de;q=0.9", "de"), ("fr, pt;q=0.5", "pt-BR"), ("pt-BR", "pt-BR"),
        ("en;q=0.2, de;q=0.8", "de"), ("de;q=0, ko", "en"), ("de;q=bad", "en"), ("*", "en"),
    ],
)  # fmt: skip
def test_the_browsers_preference_is_followed(header: str, chosen: str) -> None:
    assert preferred(header, ("en", "de", "pt-BR")) == chosen


def test_tags_and_their_directions() -> None:
    assert all(map(is_tag, ("de", "pt-BR", "zh-Hant", "zh-Hant-TW", "es-419", "gsw", "de-1996")))
    assert not any(map(is_tag, ("", "DE", "de_AT", "pt-br", "german", "de.json", "../de", "d")))
    assert [direction(tag) for tag in ("ar", "he-IL", "ur", "az-Arab", "ar-Latn", "de")] == [
        "rtl", "rtl", "rtl", "rtl", "ltr", "ltr",
    ]  # fmt: skip


# -------------------------------------------------------------------------------------- commands


@pytest.fixture
def folder(
    tmp_path: Path, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with a study's file and a database with its queries."""
    make_queries(database)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    return tmp_path


@on_sqlite
def test_commands_list_what_falls_back(folder: Path) -> None:
    dry_run = hsfiq("study", "create", "study.toml", "--dry-run", "--json")
    created = hsfiq("study", "create", "study.toml", "--json")
    assert (dry_run.code, created.code) == (0, 0)
    fallbacks = json.loads(created.out)["fallbacks"]
    assert fallbacks["en"] == []
    assert {"guidelines.de.md", "page.back"} < set(fallbacks["de"])
    assert json.loads(dry_run.out)["fallbacks"] == fallbacks
    number = len(fallbacks["de"])
    assert f"warning: language de: {number} texts are missing" in created.err
    assert "`hsfiq study texts study.toml --language de` writes the rest" in dry_run.err
    status = hsfiq("study", "status", "--json")
    assert json.loads(status.out)["fallbacks"] == fallbacks
    assert f"language de: {number} texts missing\n" in hsfiq("study", "status").out


@on_sqlite
def test_a_template_holds_what_is_missing(folder: Path) -> None:
    (folder / "de.json").unlink()
    whole = hsfiq("study", "texts", "study.toml", "--language", "de")
    assert whole.code == 0
    # `hsfiq study texts study.toml --language de > de.json` begins with an empty file.
    (folder / "de.json").write_text("")
    assert hsfiq("study", "texts", "study.toml", "--language", "de").out == whole.out
    texts = json.loads(whole.out)
    assert (texts["name"], texts["page"]["next"]) == ("de", "Next")
    (folder / "de.json").write_text(whole.out, encoding="utf-8")
    assert hsfiq("study", "texts", "study.toml", "--language", "de").out == "{}\n"
    config = read_config(folder / "study.toml")
    assert config.study.translations["de"].texts == texts
    del texts["page"]["next"]
    (folder / "de.json").write_text(json.dumps(texts), encoding="utf-8")
    rest = hsfiq("study", "texts", "study.toml", "--language", "de")
    assert json.loads(rest.out) == {"page": {"next": "Next"}}
    overlay = hsfiq("study", "texts", "study.toml", "--language", "de", "--queries", "text")
    assert set(json.loads(overlay.out)) == {"page", "text_queries"}


@on_sqlite
def test_a_template_holds_the_owners_wording(folder: Path) -> None:
    (folder / "de.json").unlink()
    written_study = SEVEN_POINTS + OWN_WORDS.replace("[wording]\n", "")
    (folder / "study.toml").write_text(written_study, encoding="utf-8")
    template = json.loads(hsfiq("study", "texts", "study.toml", "--language", "de").out)
    assert template["page"]["anchors"] == SEVEN
    assert template["page"]["how_well"] == "How similar?"
    assert template["questionnaire"]["after_each"]["sure"]["options"] == ["No", "", "Yes"]
    (folder / "de.json").write_text(json.dumps(template), encoding="utf-8")
    assert hsfiq("study", "create", "study.toml", "--dry-run").code == 0


def test_long_texts_to_translate(folder: Path) -> None:
    command = ("study", "texts", "study.toml", "--language", "de", "--part")
    assert "each contains 2 images" in hsfiq(*command, "guidelines").out
    assert "You are invited to take part" in hsfiq(*command, "consent").out
    written(folder, study=STUDY.replace("languages", 'consent = "I do."\nlanguages'))
    assert hsfiq(*command, "consent").out == "I do.\n"


@on_sqlite
def test_a_wrong_tag_or_file_is_refused(folder: Path) -> None:
    refused = hsfiq("study", "texts", "study.toml", "--language", "German")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("hsfiq: --language: 'German' is not a tag")
    (folder / "de.json").write_text('{"page": 1}', encoding="utf-8")
    refused = hsfiq("study", "create", "study.toml")
    assert (refused.code, refused.err) == (2, "hsfiq: de.json: page: must be an object\n")
    assert hsfiq("study", "texts", "study.toml", "--language", "de").code == 2
    assert hsfiq("study", "list").out.startswith("no study yet: ")
