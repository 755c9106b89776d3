"""The texts of a study as the fields of a form, and the config that they give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hsfiq.study.config import Design, Presentation, Questionnaire, StudyConfig, Translation
from hsfiq.study.instrument import ExtraQuestion, Wording
from hsfiq.study.recruiting import Panel, Recruitment
from hsfiq.study.texts import WrongTexts, changes_between, corrected, text_fields, texts_of

STUDY = StudyConfig(
    study=Presentation(
        "autumn",
        "Which fits?",
        guidelines="Look *twice*.\r\n\n",
        minutes=12,
        languages=("en", "de", "ko"),
        translations={"de": Translation(title="Was passt?", texts={"page": {"next": "Weiter"}})},
    ),
    recruitment=Recruitment(completion_code="DONE"),
    wording=Wording(anchors=("no", "", "maybe", "", "yes")),
    questionnaire=Questionnaire(
        after_each=(ExtraQuestion("sure", "scale", "Sure?", ("No", "", "Yes")),),
        at_end=(ExtraQuestion("age", "number", "How old?"),),
    ),
)


def fields(config: StudyConfig) -> dict[str, str]:
    return {field.key: field.value for field in text_fields(config)}


def changed(config: StudyConfig, **given: str) -> dict[str, object]:
    """What a form with these fields changes; the other fields are sent as a browser does."""
    sent = {key: value.replace("\n", "\r\n") for key, value in fields(config).items()}
    wanted = corrected(config, sent | {key.replace("__", "."): v for key, v in given.items()})
    changes = changes_between(texts_of(config), texts_of(wanted))
    return {change.key: change.after for change in changes}


def faults(config: StudyConfig, **given: str) -> list[str]:
    with pytest.raises(WrongTexts) as refused:
        changed(config, **given)
    return list(map(str, refused.value.errors))


def test_a_form_that_is_sent_back_changes_nothing() -> None:
    for kind in ("pair", "single", "images", "ranking", "query"):
        wording = STUDY.wording if kind in ("pair", "single") else Wording()
        config = replace(STUDY, design=Design(kind=kind), wording=wording)
        sent = {key: value.replace("\n", "\r\n") for key, value in fields(config).items()}
        assert corrected(config, sent) == config
        assert corrected(config, {}) == config


def test_the_addresses_of_a_panel_may_change_and_nothing_else_of_it() -> None:
    panel = Panel("Pool", "who", complete="https://pool.test/{person}")
    config = replace(STUDY, recruitment=Recruitment(mode="panel", panel=panel))
    keys = {key for key in fields(config) if key.startswith("recruitment.panel.")}
    ends = ("complete", "screen_out", "quota_full")
    assert keys == {f"recruitment.panel.{end}" for end in ends}
    assert "recruitment.completion_url" not in fields(config)
    assert not any(key.startswith("recruitment.panel") for key in fields(STUDY))
    given = {"recruitment__panel__quota_full": "https://pool.test/full"}
    assert changed(config, **given) == {"recruitment.panel.quota_full": "https://pool.test/full"}
    wrong = faults(config, recruitment__panel__complete="http://pool.test/")
    assert wrong[0].startswith("recruitment.panel.complete: 'http://pool.test/' is not an https")


def test_fields_are_those_that_the_study_uses() -> None:
    keys = fields(STUDY).keys()
    assert {"study.title", "wording.tie", "questionnaire.after_each.1.options"} < keys
    assert {"study.translations.de.title", "study.translations.en.texts"} < keys
    unused = {
        *("wording.rank", "wording.levels", "practice.explanation"),
        *("questionnaire.at_end.1.options", "recruitment.failed_checks_code"),
        "study.translations.en.title",
    }
    assert not unused & keys
    ranking = fields(replace(STUDY, design=Design(kind="ranking"), wording=Wording()))
    assert (ranking["study.set_names"], "wording.rank" in ranking) == ("", True)


def test_each_type_of_field_is_read() -> None:
    assert changed(STUDY, study__title=" Which one? ") == {"study.title": "Which one?"}
    assert changed(STUDY, study__minutes="9") == {"study.minutes": 9}
    assert changed(STUDY, study__guidelines="# A\r\nb") == {"study.guidelines": "# A\nb"}
    assert changed(STUDY, wording__anchors="no\r\n\r\n\r\n\r\nyes\r\n") == {
        "wording.anchors": ["no", "", "", "", "yes"]
    }
    assert changed(STUDY, questionnaire__after_each__1__options="Nope\n\nYes") == {
        "questionnaire.after_each.1.options": ["Nope", "", "Yes"]
    }
    assert changed(STUDY, study__translations__de__texts='{"page": {"next": "Vor"}}') == {
        "study.translations.de.texts.page.next": "Vor"
    }
    korean = changed(STUDY, study__translations__ko__title="어느 쪽?")
    assert korean["study.translations.ko.title"] == "어느 쪽?"


def test_texts_that_study_toml_could_not_have_are_refused() -> None:
    assert faults(STUDY, study__title=" ") == ["study.title: is empty"]
    assert faults(STUDY, study__title="\0") == ["study.title: has characters that cannot be stored"]
    assert faults(STUDY, study__minutes="-1")[0].startswith("study.minutes: '-1' is not a whole")
    assert faults(STUDY, study__set_names="a\na") == [
        "study.set_names: must be two different names"
    ]
    assert faults(STUDY, recruitment__completion_url="x")[0].startswith(
        "recruitment.completion_url: 'x' is not an http(s) address"
    )
    (line,) = faults(STUDY, study__translations__de__texts='{"page": {"nexxt": "Vor"}}')
    assert line.startswith("study.translations.de.texts: page.nexxt: is not a key here")
    (line,) = faults(STUDY, study__translations__de__texts="{")
    assert line.startswith("study.translations.de.texts: is not JSON")


def test_a_text_that_names_a_file_is_a_text() -> None:
    assert changed(STUDY, study__guidelines="guidelines.md") == {
        "study.guidelines": "guidelines.md"
    }
