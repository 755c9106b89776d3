"""`hsfiq study`: its output and its effect."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import func, select

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Study
from tests.hsfiq.cli.owner_commands import (
    CONFIG,
    MISSED,
    complaint,
    count,
    output_of,
    seats,
    the_study,
)
from tests.hsfiq.samples import HPFIQ, hsfiq, on_sqlite
from tests.studies import GOOD, SHOWN, SKIP

pytestmark = pytest.mark.usefixtures("owners_folder")


# -------------------------------------------------------------------------------------- creating


def test_a_study_is_drawn_from_its_file_once(database: Database) -> None:
    assert output_of("study", "create", "study.toml") == (
        "study autumn: 8 questions about 8 queries in 4 forms for 2 participants; it is open\n"
    )
    study = the_study(database)
    assert (study.title, study.guidelines) == ("Which shop understood you?", "# Look twice")
    assert (study.status, study.origin, study.k) == ("open", "collected", 2)
    again = complaint(hsfiq("study", "create", "study.toml"))
    assert again.startswith("study.toml: line 2: study.name: a study called 'autumn'")
    assert complaint(hsfiq("study", "create", "no.toml")) == "no.toml: there is no such file"


@on_sqlite
def test_a_study_as_json_and_as_a_draft(database: Database) -> None:
    created = json.loads(output_of("study", "create", "study.toml", "--draft", "--json"))
    assert (created.pop("places"), len(created.pop("warnings"))) == (2, 2)
    assert created["fallbacks"] == {"en": []}
    assert created == {
        "study": "autumn", "title": "Which shop understood you?", "status": "draft",
        "origin": "collected", "forms": 4, "forms_taken": 0, "participants": 0, "questions": 8,
        "answered": 0, "images_painted": 0, "images_not_painted": 0, "images_unknown": 0,
        "skipped": 0, "platform_study_id": None, "fallbacks": {"en": []},
    }  # fmt: skip
    status = json.loads(output_of("study", "status", "--json"))
    assert [version["number"] for version in status.pop("text_versions")] == [1]
    assert (status.pop("quotas"), status.pop("standings")) == ([], {})
    assert [pair["n_participants"] for pair in status.pop("preferences")["pairs"]] == [0] * 3
    assert status == created


IMAGE_COUNTS = ("answered", "images_painted", "images_not_painted", "images_unknown", "skipped")


def image_counts() -> list[int]:
    status = json.loads(output_of("study", "status", "--json"))
    return [status[key] for key in IMAGE_COUNTS]


def test_the_status_counts_the_answers_by_their_images(database: Database) -> None:
    (seat,) = seats(database, 1)
    seen, unseen, unknown, skipped = seat.question_ids
    seat.submit(seen, replace(GOOD, images=replace(SHOWN, reference="loaded")))
    seat.submit(seen, replace(GOOD, images=SHOWN), revision=1)  # the latest revision counts
    seat.submit(unseen, replace(GOOD, images=replace(SHOWN, reference="missing")))
    seat.answer_until(3)
    seat.submit(unknown)
    seat.submit(skipped, SKIP)
    assert image_counts() == [4, 1, 1, 1, 1]
    assert "images_not_painted: 1\n" in output_of("study", "status")
    seat.set_status("excluded")
    assert image_counts() == [0] * 5


@on_sqlite
def test_the_images_of_imported_answers_are_unknown() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    assert image_counts() == [5, 0, 0, 5, 0]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            lambda text: text.replace("k = 2", "k = 0").replace("title", "titel"),
            ["line 1: study.title: is missing", "line 3: study.titel", "line 7: design.k: 0"],
        ),
        (lambda text: text.replace('"small"', '"big"'), ["line 11: queries.dataset: no dataset"]),
        (
            lambda text: f"{text}sample = 9\n",
            ["line 12: queries.sample: 9 queries requested, but only 8 exist"],
        ),
        (lambda text: text.replace("k = 2", "k = 4"), ["line 10: queries: 8 queries have lists"]),
        (lambda text: f"{text}[checks]\ngold = 9\n", ["line 13: checks.gold: no query of shirt"]),
        (
            lambda text: f"{text}[recruitment]\nparticipants = 3\n",
            ["line 13: recruitment.participants: 3 participants, but questions are available for"],
        ),
        (
            lambda text: f'{text}[recruitment]\nplatform_study_id = "64ab"\n',
            ["line 13: recruitment.platform_study_id"],
        ),
    ],
)  # fmt: skip
def test_every_mistake_has_its_own_line(
    database: Database, change: Callable[[str], str], lines: list[str]
) -> None:
    Path("study.toml").write_text(change(CONFIG))
    command = hsfiq("study", "create", "study.toml")
    assert (command.code, command.out) == (2, "")
    for found, line in zip(command.err.splitlines(), lines, strict=True):
        assert found.startswith(f"hsfiq: study.toml: {line}")
    assert (count(database, Study), count(database, Form)) == (0, 0)


@on_sqlite
def test_unequal_numbers_of_questions_are_said() -> None:
    Path("study.toml").write_text(CONFIG.replace("form = 2", "form = 3"))
    created = hsfiq("study", "create", "study.toml", "--json")
    warning, *missed = created.result["warnings"]
    assert "(1 of 6, 1 of 2)" in warning
    assert len(missed) == 2
    assert created.err == f"hsfiq: warning: {warning}\n{MISSED}"
    assert (created.code, created.result["places"]) == (0, 2)


def test_a_dry_run_says_what_a_study_needs_and_stores_nothing(database: Database) -> None:
    Path("study.toml").write_text(
        CONFIG.replace("[queries]", "annotators_per_query = 2\n[queries]")
    )
    dry_run = ("study", "create", "study.toml", "--dry-run")
    budget = json.loads(output_of(*dry_run, "--pay-per-hour", "12", "--json"))
    assert set(budget.pop("interval_widths")) == {"rho", "tie_half"}
    assert budget == {
        "study": "autumn", "participants": 4, "questions_each": 4, "minutes_each": 5,
        "minutes_are": "estimated", "overlap": 2.0, "cost": 4.0, "interval_widths_reason": None,
        "fallbacks": {"en": []}, "warnings": [],
    }  # fmt: skip
    assert "cost" not in output_of(*dry_run)
    assert (count(database, Study), count(database, Form), count(database, Question)) == (0, 0, 0)
    output_of("study", "create", "study.toml")
    assert complaint(hsfiq(*dry_run)).endswith("already exists; choose another")
    assert "needs --dry-run" in complaint(
        hsfiq("study", "create", "study.toml", "--pay-per-hour", "12")
    )


# ---------------------------------------------------------------------------- opening and closing


@on_sqlite
def test_a_study_opens_pauses_and_closes(database: Database) -> None:
    output_of("study", "create", "study.toml", "--draft")
    steps = (("open", "draft -> open"), ("pause", "open -> paused"), ("open", "paused -> open"))
    for command, change in steps:
        assert output_of("study", command) == f"study autumn: {change}\n"
    result = json.loads(output_of("study", "close", "--json"))
    assert result == {"study": "autumn", "before": "open", "status": "closed"}
    assert the_study(database).status == "closed"


@on_sqlite
def test_an_imported_study_takes_no_answers() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    for words in ("open", "pause", "close", "invite --count 2", "assign user_1"):
        line = complaint(hsfiq("study", *words.split()))
        assert line.startswith("study hpfiq has imported answers")
    assert not Path("invitations.csv").exists()


PROLIFIC = '[recruitment]\nmode = "prolific"\ncompletion_code = "C"\n'


@on_sqlite
def test_a_study_is_bound_to_a_study_on_prolific(database: Database) -> None:
    bound = f'{CONFIG}{PROLIFIC}platform_study_id = "64ab"\n'
    Path("study.toml").write_text(bound)
    output_of("study", "create", "study.toml")
    assert the_study(database).platform_study_id == "64ab"
    Path("second.toml").write_text(bound.replace("autumn", "winter"))
    line = complaint(hsfiq("study", "create", "second.toml"))
    assert line.startswith("second.toml: line 15: recruitment.platform_study_id: '64ab' already be")
    Path("second.toml").write_text(CONFIG.replace("autumn", "winter") + PROLIFIC)
    output_of("study", "create", "second.toml", "--draft")
    line = complaint(hsfiq("study", "bind", "64ab", "--study", "winter"))
    assert line == "study autumn is already bound to 64ab"
    result = json.loads(output_of("study", "bind", "64cd", "--study", "autumn", "--json"))
    assert result == {"study": "autumn", "before": "64ab", "platform_study_id": "64cd"}
    output_of("study", "bind", "64ab", "--study", "winter")
    status = json.loads(output_of("study", "status", "--study", "winter", "--json"))
    assert status["platform_study_id"] == "64ab"
    assert "not a Prolific study" in complaint(hsfiq("study", "bind", "6 4", "--study", "winter"))


@on_sqlite
def test_an_unbound_study_on_prolific_is_warned_of_until_it_is_bound() -> None:
    Path("study.toml").write_text(CONFIG + PROLIFIC)
    words = "is not bound to a study on Prolific"
    assert words not in hsfiq("study", "create", "study.toml", "--draft").err
    opened = hsfiq("study", "open", "--study", "autumn")
    assert (opened.code, words in opened.err, "hsfiq study bind" in opened.err) == (0, True, True)
    output_of("study", "bind", "64ab", "--study", "autumn")
    output_of("study", "pause", "--study", "autumn")
    assert words not in hsfiq("study", "open", "--study", "autumn").err
    Path("study.toml").write_text((CONFIG + PROLIFIC).replace("autumn", "winter"))
    assert words in hsfiq("study", "create", "study.toml").err


@on_sqlite
def test_a_new_study_on_mechanical_turk_is_made_with_a_warning() -> None:
    Path("study.toml").write_text(f'{CONFIG}\n[recruitment]\nmode = "mturk"\n')
    made = hsfiq("study", "create", "study.toml", "--json")
    words = "no new requesters since 2026-07-30"
    assert (made.code, words in made.err) == (0, True)
    assert any(words in warning for warning in json.loads(made.out)["warnings"])


@on_sqlite
def test_a_study_with_a_panel_is_made_from_its_file() -> None:
    panel = '[recruitment]\nmode = "panel"\n[recruitment.panel]\nname = "Pool"\nperson = "who"\n'
    Path("study.toml").write_text(f'{CONFIG}\n{panel}complete = "https://{{person}}.test/"\n')
    line = complaint(hsfiq("study", "create", "study.toml"))
    assert "recruitment.panel.complete: 'https://{person}.test/' is not an https address" in line
    assert "holds no study" in complaint(hsfiq("study", "open", "--study", "autumn"), 1)
    Path("study.toml").write_text(f'{CONFIG}\n{panel}complete = "https://pool.test/{{person}}"\n')
    assert "2026-07-30" not in hsfiq("study", "create", "study.toml").err
    assert "does not recruit on Prolific" in complaint(hsfiq("study", "bind", "64ab"))
    invited = hsfiq("study", "invite", "autumn", "--count", "1", "--url", "https://study.test")
    assert "are not in the platform's payment lists" in invited.err


@on_sqlite
def test_a_study_that_recruits_elsewhere_is_on_no_platform() -> None:
    output_of("study", "create", "study.toml")
    assert "does not recruit on Prolific" in complaint(hsfiq("study", "bind", "64ab"))
    line = complaint(hsfiq("study", "hit", "autumn", "--url", "https://example.org"))
    assert "mode = 'open'" in line
    assert 'set mode = "mturk"' in line


@on_sqlite
def test_a_study_is_named_by_an_argument_or_an_option() -> None:
    output_of("study", "create", "study.toml")
    assert output_of("study", "pause", "autumn") == "study autumn: open -> paused\n"
    assert output_of("study", "open", "autumn", "--study", "autumn").endswith("-> open\n")
    assert "study: autumn" in output_of("study", "status", "autumn")
    invited = hsfiq("study", "invite", "autumn", "--count", "1")
    assert invited.out == "study autumn: 1 invitation in invitations.csv\n"
    assert "which only this machine can reach: give --url" in invited.err
    assert "anybody who knows the address can take part, not only invited people" in invited.err
    assert "'winter'" in complaint(hsfiq("study", "close", "winter"))
    assert "name one study" in complaint(hsfiq("study", "close", "winter", "--study", "autumn"))


# ----------------------------------------------------------------------------------- invitations


def test_invitations_are_links_that_only_their_owner_can_read(database: Database) -> None:
    output_of("study", "create", "study.toml")
    invited = hsfiq("study", "invite", "--count", "3", "--url", "https://study.example.org/")
    assert "has places for 2 more participants, and 3 invitations are unused" in invited.err
    assert invited.out == "study autumn: 3 invitations in invitations.csv\n"
    path = Path("invitations.csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["participant"] for row in rows] == ["p1", "p2", "p3"]
    with database.reading() as session:
        for row in rows:
            address, _, token = row["link"].rpartition("/")
            assert address == "https://study.example.org/start"
            person = participants.by_token(session, token)
            assert person is not None
            assert (person.name, person.source) == (row["participant"], "invitation")


@on_sqlite
def test_more_invitations_go_to_another_file() -> None:
    output_of("study", "create", "study.toml")
    assert hsfiq("study", "invite", "--count", "1", "--json").result == {
        "study": "autumn", "invitations": 1, "file": "invitations.csv", "free_places": 2,
    }  # fmt: skip
    before = Path("invitations.csv").read_bytes()
    refused = complaint(hsfiq("study", "invite", "--count", "1"))
    assert refused.startswith("invitations.csv: already exists")
    assert Path("invitations.csv").read_bytes() == before
    assert hsfiq("study", "invite", "--count", "1", "--out", "more.csv").code == 0
    assert "p2,http://127.0.0.1:7860/start/" in Path("more.csv").read_text()
    Path("invitations.csv").unlink()
    Path("invitations.csv").symlink_to("elsewhere.csv")
    complaint(hsfiq("study", "invite", "--count", "1"))
    assert not Path("elsewhere.csv").exists()


@on_sqlite
def test_no_invitation_is_made_if_its_file_cannot_be_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    output_of("study", "create", "study.toml")
    assert "No such file" in complaint(hsfiq("study", "invite", "--count", "2", "--out", "no/it"))
    assert "http(s)" in complaint(hsfiq("study", "invite", "--count", "2", "--url", "x.org"))
    assert complaint(hsfiq("study", "invite", "--count", "0")).startswith("Invalid value")
    assert count(database, Participant) == 0

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device", "invitations.csv")

    monkeypatch.setattr("hsfiq.collect.participants.csv.writer", full_disk)
    assert "No space left" in complaint(hsfiq("study", "invite", "--count", "2"))
    assert count(database, Participant) == 0
    assert not Path("invitations.csv").exists()


def test_study_preview_prints_a_link_and_stores_nothing(database: Database) -> None:
    output_of("study", "create", "study.toml", "--draft")
    printed = hsfiq("study", "preview", "autumn", "--url", "https://study.example.org/", "--json")
    assert printed.code == 0, printed.err
    assert printed.result["link"].startswith("https://study.example.org/preview/open/")
    with database.reading() as session:
        assert session.scalar(select(func.count(Participant.id))) == 0
        assert session.scalars(select(Study.status)).one() == "draft"
    unknown = hsfiq("study", "preview", "spring")
    assert (unknown.code, "spring" in unknown.err) == (2, True)


# ------------------------------------------------------------------------------- Mechanical Turk


NAMESPACE = (
    "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/"
    "ExternalQuestion.xsd"
)


@on_sqlite
def test_the_external_question_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("study.toml").open("a", encoding="utf-8") as file:
        file.write('\n[recruitment]\nmode = "mturk"\n')
    assert hsfiq("study", "create", "study.toml").code == 0
    words = ("study", "hit", "autumn", "--height", "900")
    root = ET.fromstring(output_of(*words, "--url", "https://example.org/hsfiq/"))
    assert root.tag == f"{{{NAMESPACE}}}ExternalQuestion"
    assert [(each.tag.partition("}")[2], each.text) for each in root] == [
        ("ExternalURL", "https://example.org/hsfiq/start?study=autumn"),
        ("FrameHeight", "900"),
    ]
    for url in ((), ("--url", "http://example.org")):
        assert "only pages that are served over https" in complaint(hsfiq(*words, *url))
    monkeypatch.setenv("HSFIQ_PUBLIC_URL", "https://study.example.org")
    assert "https://study.example.org/start?study=autumn" in output_of(*words)
