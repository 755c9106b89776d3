"""Warnings of personal data and of participants alone with their answers; leaving texts out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from hsfiq.releases.privacy import Uniqueness, WrittenTexts, personal_data, uniqueness
from hsfiq.study.config import Questionnaire
from hsfiq.study.instrument import ExtraQuestion
from tests.hsfiq.releases.small_releases import small_study_at
from tests.hsfiq.samples import hsfiq

ADDRESS, PHONE, PLATFORM = (
    "an e-mail address",
    "a phone number",
    "the id of a recruitment platform",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail kim.lee+a@example.co.kr please", [ADDRESS]),
        ("call +82 10-1234-5678", [PHONE]),
        ("(030) 901820 12", [PHONE]),
        ("I am 5f2c8a1be9d04c0012ab34cd", [PLATFORM]),
        ("worker A1B2C3D4E5F6G7", [PLATFORM]),
        ("both are red @ the top, 3 of 5", []),
        ("ABSOLUTELY NOT", []),
        ("sizes 36-38, 2023 and 100 percent", []),
        ("0.25 to 0.75", []),
        ("", []),
    ],
)
def test_what_a_text_seems_to_hold(text: str, expected: list[str]) -> None:
    assert list(personal_data(text)) == expected


def rows(answers: Iterable[tuple[str, str, str | None]]) -> list[dict[str, str | None]]:
    return [
        {"participant_id": person, "field": field, "number": None, "value": value}
        for person, field, value in answers
    ]


def test_uniqueness_counts_those_who_are_alone() -> None:
    answers = rows(
        [
            *(("p1", "age", "30"), ("p1", "shops", "online"), ("p1", "shops", "in town")),
            *(("p2", "shops", "in town"), ("p2", "age", "30"), ("p2", "shops", "online")),
            *(("p3", "age", "30"), ("p3", "shops", "online")),
            *(("p1", "why", "a"), ("p2", "why", "b")),
        ]
    )
    asked = ("age", "shops")
    alike = uniqueness(answers, asked)
    assert alike == Uniqueness(asked, participants=3, k=1, unique=1)
    assert alike.facts() == {
        "table": "participant_answers", "fields": ["age", "shops"], "participants": 3, "k": 1,
        "unique": 1,
    }  # fmt: skip
    every = (*asked, "why")
    assert uniqueness(answers, every) == Uniqueness(every, participants=3, k=1, unique=3)
    (warning,) = alike.warnings()
    assert "1 of 3 participants" in warning
    of_one_age = uniqueness(rows((f"p{n}", "age", "30") for n in range(5)), ["age"])
    assert of_one_age == Uniqueness(("age",), participants=5, k=5, unique=0)
    assert of_one_age.warnings() == []
    assert uniqueness([], ["age"]) is None
    assert uniqueness(answers, ()) is None


QUESTIONNAIRE = Questionnaire(
    after_each=(ExtraQuestion("why", "text", "Why?"),),
    at_end=(ExtraQuestion("age", "number", "How old?"),),
)


def test_texts_and_answers_at_the_end_can_be_left_out() -> None:
    tables = {
        "extra_answers": rows([("p1", "why", "call 0123 456789")]),
        "participant_answers": rows([("p1", "age", None)]),
    }
    everything = WrittenTexts(QUESTIONNAIRE, ())
    assert everything.answers(tables) == tables
    assert everything.notes() == []
    phone, alone = everything.warnings()
    assert "why of p1" in phone
    assert "k = 1" in alone
    nothing = WrittenTexts(QUESTIONNAIRE, ("texts", "participant-answers"))
    assert nothing.answers(tables) == {"extra_answers": []}
    assert nothing.notes() == ["left out by the owner: 1 answer and 1 answer at the end"]
    assert nothing.warnings() == []


def test_the_texts_of_other_answers_are_looked_at_and_left_out() -> None:
    asked = ExtraQuestion("from", "choices", "From where?", ("ads", "friends"), other=True)
    chosen = [
        {"participant_id": "p1", "field": "from", "number": number, "value": value}
        for number, value in ((1.0, "ads"), (3.0, "ask me@example.org"))
    ]
    questionnaire = Questionnaire(after_each=(asked,))
    written = WrittenTexts(questionnaire, ())
    written.answers({"extra_answers": chosen})
    (warning,) = written.warnings()
    assert "e-mail address (from of p1)" in warning
    without = WrittenTexts(questionnaire, ("texts",))
    assert without.answers({"extra_answers": chosen}) == {
        "extra_answers": [chosen[0], {**chosen[1], "value": None}]
    }
    assert without.notes() == ["left out by the owner: 1 answer"]


def test_the_command_leaves_reasons_out(tmp_path: Path) -> None:
    small_study_at(tmp_path / "it.db", "pair")[0].close()
    words = ("export", "--database", f"sqlite:///{tmp_path / 'it.db'}", "--release", "hs", "--out")
    assert hsfiq(*words, tmp_path / "all").code == 0
    assert (tmp_path / "all" / "reasons.parquet").is_file()
    done = hsfiq(*words, tmp_path / "less", "--without", "texts")
    assert (done.code, "left out by the owner: 1 reason" in done.out) == (0, True)
    assert not (tmp_path / "less" / "reasons.parquet").exists()
    assert not [p for p in (tmp_path / "less").iterdir() if b"too dark" in p.read_bytes()]
    assert hsfiq("release", "verify", tmp_path / "less").code == 0
