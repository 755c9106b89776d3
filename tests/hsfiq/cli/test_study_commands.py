"""`hsfiq study` and `hsfiq participant`: their output and their effect."""

from __future__ import annotations

import csv
import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import func, select, update

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import CheckAnswer, Dataset, Form, Participant, Question, Response, Study
from tests.hsfiq.samples import HPFIQ, CommandResult, hsfiq, on_sqlite
from tests.studies import GOOD, NOW, SHOWN, SKIP, SMALL, Seat, make_queries

CONFIG = """\
[study]
name = "autumn"
title = "Which shop understood you?"
guidelines = "guidelines.md"

[design]
k = 2
questions_per_form = 2

[queries]
dataset = "small"
"""


@pytest.fixture(autouse=True)
def owners_folder(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a study's file, a database with queries, and images that are not empty."""
    folder = tmp_path / "owner"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    make_queries(database)
    (tmp_path / "images").mkdir()
    for number in range(8):
        (tmp_path / "images" / f"image-{number}.png").write_bytes(b"not decoded here")
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=str(tmp_path / "images")))
    Path("study.toml").write_text(CONFIG, encoding="utf-8")
    Path("guidelines.md").write_text("# Look twice", encoding="utf-8")


def output_of(*arguments: str | Path) -> str:
    """The output of a command that succeeds without warnings."""
    command = hsfiq(*arguments)
    assert (command.code, command.err) == (0, "")
    return command.out


def complaint(command: CommandResult, code: int = 2) -> str:
    """The error line of a refused command."""
    assert (command.code, command.out) == (code, "")
    assert command.err.startswith("hsfiq: ")
    assert command.err.count("\n") == 1
    return command.err.removeprefix("hsfiq: ").rstrip("\n")


def the_study(database: Database) -> Study:
    with database.reading() as session:
        return session.scalars(select(Study)).one()


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


# -------------------------------------------------------------------------------------- creating


def test_a_study_is_drawn_from_its_file(database: Database) -> None:
    assert output_of("study", "create", "study.toml") == (
        "study autumn: 8 questions about 8 queries in 4 forms for 2 participants; it is open\n"
    )
    study = the_study(database)
    assert (study.title, study.guidelines) == ("Which shop understood you?", "# Look twice")
    assert (study.status, study.origin, study.k) == ("open", "collected", 2)


@on_sqlite
def test_a_study_as_json_and_as_a_draft(database: Database) -> None:
    created = json.loads(output_of("study", "create", "study.toml", "--draft", "--json"))
    assert (created.pop("places"), created.pop("warnings")) == (2, [])
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


def test_the_status_counts_the_answers_by_their_images(database: Database) -> None:
    (seat,) = seats(database, 1)
    seen, unseen, unknown, skipped = seat.question_ids
    seat.submit(seen, replace(GOOD, images=replace(SHOWN, reference="loaded")))
    seat.submit(seen, replace(GOOD, images=SHOWN), revision=1)  # the latest revision counts
    seat.submit(unseen, replace(GOOD, images=replace(SHOWN, reference="missing")))
    seat.answer_until(3)
    seat.submit(unknown)
    seat.submit(skipped, SKIP)
    status = json.loads(output_of("study", "status", "--json"))
    assert [status[key] for key in IMAGE_COUNTS] == [4, 1, 1, 1, 1]
    assert "images_not_painted: 1\n" in output_of("study", "status")
    seat.set_status("excluded")
    status = json.loads(output_of("study", "status", "--json"))
    assert [status[key] for key in IMAGE_COUNTS] == [0] * 5


@on_sqlite
def test_the_images_of_imported_answers_are_unknown() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    status = json.loads(output_of("study", "status", "--json"))
    assert status["answered"] > 0
    assert [status[key] for key in IMAGE_COUNTS[1:]] == [0, 0, status["answered"], 0]


@on_sqlite
def test_every_mistake_has_its_own_line(database: Database) -> None:
    Path("study.toml").write_text(CONFIG.replace("k = 2", "k = 0").replace("title", "titel"))
    command = hsfiq("study", "create", "study.toml")
    assert (command.code, command.out) == (2, "")
    first, second, third = command.err.splitlines()
    assert first == "hsfiq: study.toml: line 1: study.title: is missing"
    assert second.startswith("hsfiq: study.toml: line 3: study.titel: is not a key here; there are")
    assert third == "hsfiq: study.toml: line 7: design.k: 0 is not from 1 to 100"
    assert count(database, Study) == 0


@on_sqlite
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"small"', '"big"'), "line 11: queries.dataset: no dataset is called 'big'; there are s"),
        (('"small"', '"small"\nsample = 9'), "line 12: queries.sample: asks for 9 queries of 8"),
        (("k = 2", "k = 4"), "line 10: queries: 8 queries have lists of at least 4 images"),
        (('"small"', '"small"\n[checks]\ngold = 9'), "line 13: checks.gold: no query of shirt is"),
        (("guidelines.md", "no.md"), "line 4: study.guidelines: no.md: there is no such file"),
        (("k = 2", "k = two"), "line 7, column 5: broken TOML (Invalid value)"),
    ],
)
def test_missing_database_entries_are_named_with_their_line(
    database: Database, change: tuple[str, str], message: str
) -> None:
    Path("study.toml").write_text(CONFIG.replace(*change))
    line = complaint(hsfiq("study", "create", "study.toml"))
    assert line.startswith(f"study.toml: {message}")
    assert (count(database, Study), count(database, Form)) == (0, 0)


@on_sqlite
def test_a_cap_beyond_the_forms_is_refused(database: Database) -> None:
    Path("study.toml").write_text(CONFIG + "[recruitment]\nparticipants = 3\n")
    assert complaint(hsfiq("study", "create", "study.toml")).startswith(
        "study.toml: line 13: recruitment.participants: 3 participants, but there are questions "
        "for 2; set it to 2 or less"
    )
    assert (count(database, Study), count(database, Form)) == (0, 0)
    Path("study.toml").write_text(CONFIG + "[recruitment]\nparticipants = 2\n")
    output_of("study", "create", "study.toml")


@on_sqlite
def test_unequal_numbers_of_questions_are_said() -> None:
    Path("study.toml").write_text(CONFIG.replace("form = 2", "form = 3"))
    created = hsfiq("study", "create", "study.toml", "--json")
    (warning,) = created.result["warnings"]
    assert "(1 of 6, 1 of 2)" in warning
    assert created.err == f"hsfiq: warning: {warning}\n"
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


@on_sqlite
def test_a_study_name_is_unique() -> None:
    output_of("study", "create", "study.toml")
    assert complaint(hsfiq("study", "create", "study.toml")) == (
        "study.toml: line 2: study.name: a study called 'autumn' already exists; choose another"
    )
    assert complaint(hsfiq("study", "create", "no.toml")) == "no.toml: there is no such file"


# ---------------------------------------------------------------------------- opening and closing


@on_sqlite
def test_a_study_opens_pauses_and_closes(database: Database) -> None:
    output_of("study", "create", "study.toml", "--draft")
    outputs = [output_of("study", *words) for words in (["open"], ["pause"], ["open"])]
    assert outputs == [
        "study autumn: draft -> open\n",
        "study autumn: open -> paused\n",
        "study autumn: paused -> open\n",
    ]
    result = json.loads(output_of("study", "close", "--json"))
    assert result == {"study": "autumn", "before": "open", "status": "closed"}
    assert the_study(database).status == "closed"


@on_sqlite
@pytest.mark.parametrize(
    "words", [["open"], ["pause"], ["close"], ["invite", "--count", "2"], ["assign", "user_1"]]
)
def test_an_imported_study_takes_no_answers(words: list[str]) -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    line = complaint(hsfiq("study", *words))
    assert line == "study hpfiq holds imported answers and cannot take more"
    assert not Path("invitations.csv").exists()


@on_sqlite
def test_a_study_is_bound_to_a_study_on_prolific(database: Database) -> None:
    recruitment = '[recruitment]\nmode = "prolific"\ncompletion_code = "C"\n'
    Path("study.toml").write_text(CONFIG + recruitment + 'platform_study_id = "64ab"\n')
    output_of("study", "create", "study.toml")
    assert the_study(database).platform_study_id == "64ab"
    Path("second.toml").write_text(Path("study.toml").read_text().replace("autumn", "winter"))
    line = complaint(hsfiq("study", "create", "second.toml"))
    assert line.startswith("second.toml: line 15: recruitment.platform_study_id: '64ab' already be")
    Path("second.toml").write_text(CONFIG.replace("autumn", "winter") + recruitment)
    output_of("study", "create", "second.toml")
    line = complaint(hsfiq("study", "bind", "64ab", "--study", "winter"))
    assert line == "study autumn is already bound to 64ab"
    bound = json.loads(output_of("study", "bind", "64cd", "--study", "autumn", "--json"))
    assert bound == {"study": "autumn", "before": "64ab", "platform_study_id": "64cd"}
    output_of("study", "bind", "64ab", "--study", "winter")
    status = json.loads(output_of("study", "status", "--study", "winter", "--json"))
    assert status["platform_study_id"] == "64ab"
    assert "not an id" in complaint(hsfiq("study", "bind", "6 4", "--study", "winter"))


@on_sqlite
def test_only_a_study_on_prolific_is_bound() -> None:
    Path("study.toml").write_text(CONFIG + '[recruitment]\nplatform_study_id = "64ab"\n')
    assert 'needs mode = "prolific"' in complaint(hsfiq("study", "create", "study.toml"))
    Path("study.toml").write_text(CONFIG)
    output_of("study", "create", "study.toml")
    assert "does not recruit on Prolific" in complaint(hsfiq("study", "bind", "64ab"))


# ----------------------------------------------------------------------------------- invitations


def test_invitations_are_links_that_only_their_owner_can_read(database: Database) -> None:
    output_of("study", "create", "study.toml")
    invited = hsfiq("study", "invite", "--count", "3", "--url", "https://study.example.org/")
    assert "has places for 2 more participants, and 3 invitations wait" in invited.err
    assert invited.out == "study autumn: 3 invitations in invitations.csv\n"
    path = Path("invitations.csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["participant"] for row in rows] == ["p1", "p2", "p3"]
    with database.reading() as session:
        for row in rows:
            match = re.fullmatch(r"https://study\.example\.org/start/(\S+)", row["link"])
            assert match is not None
            person = participants.by_token(session, match[1])
            assert person is not None
            assert (person.name, person.source) == (row["participant"], "invitation")


@on_sqlite
def test_more_invitations_go_to_another_file() -> None:
    output_of("study", "create", "study.toml")
    result = json.loads(output_of("study", "invite", "--count", "1", "--json"))
    assert result == {
        "study": "autumn", "invitations": 1, "file": "invitations.csv", "free_places": 2,
    }  # fmt: skip
    before = Path("invitations.csv").read_bytes()
    assert complaint(hsfiq("study", "invite", "--count", "1")) == (
        "invitations.csv: already exists; name another file with --out"
    )
    assert Path("invitations.csv").read_bytes() == before
    output_of("study", "invite", "--count", "1", "--out", "more.csv")
    assert "p2,http://127.0.0.1:7860/start/" in Path("more.csv").read_text()


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

    monkeypatch.setattr("hsfiq.collect.invitations.csv.writer", full_disk)
    assert "No space left" in complaint(hsfiq("study", "invite", "--count", "2"))
    assert count(database, Participant) == 0
    assert not Path("invitations.csv").exists()


@on_sqlite
def test_a_link_to_a_file_is_not_followed() -> None:
    output_of("study", "create", "study.toml")
    Path("invitations.csv").symlink_to("elsewhere.csv")
    complaint(hsfiq("study", "invite", "--count", "1"))
    assert not Path("elsewhere.csv").exists()


# ---------------------------------------------------------------------------------- participants


def seats(database: Database, number: int) -> list[Seat]:
    output_of("study", "create", "study.toml")
    study = the_study(database)
    return [Seat.taken(database, study.id) for _ in range(number)]


@on_sqlite
def test_abandoned_questions_are_reassigned(database: Database) -> None:
    first, second = seats(database, 2)
    second.answer_all()
    first.submit(first.question_ids[0])
    assert output_of("study", "assign", "p1") == (
        "study autumn: the next participant gets the questions that p1 has not answered\n"
    )
    assert Seat.taken(database, the_study(database).id).standing().total == 3
    assert complaint(hsfiq("study", "assign", "p9")) == "study autumn has no participant 'p9'"


@on_sqlite
def test_participants_are_listed(database: Database) -> None:
    output_of("study", "create", "study.toml")
    assert output_of("participant", "list") == "no participant yet\n"
    seat = Seat.taken(database, the_study(database).id)
    seat.answer_until(4)
    assert output_of("participant", "list").startswith("p1: active, 3 of 4 answered")
    (row,) = json.loads(output_of("participant", "list", "--json"))["participants"]
    assert (row["participant"], row["status"], row["answered"]) == ("p1", "active", 3)


@on_sqlite
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("pause", "paused"),
        ("exclude", "excluded"),
        ("returned", "returned"),
        ("screened-out", "screened-out"),
    ],
)
def test_a_participants_status_can_be_changed_and_restored(
    database: Database, command: str, status: str
) -> None:
    (seat,) = seats(database, 1)
    assert output_of("participant", command, "p1") == f"participant p1: active -> {status}\n"
    assert seat.participant().status == status
    assert output_of("participant", "resume", "p1") == f"participant p1: {status} -> active\n"
    assert "has no participant 'p2'" in complaint(hsfiq("participant", command, "p2"))


def platform_participant(database: Database, external_id: str) -> str:
    """Enrol somebody who came from Prolific; return their name."""
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        person = participants.enrol(
            session, study.id, now=NOW, source="prolific", external_id=external_id
        )
        return person.name


def test_platform_ids_are_listed_and_accepted(database: Database) -> None:
    seats(database, 1)
    assert platform_participant(database, "5f8e0c1d") == "p2"
    listed = output_of("participant", "list").splitlines()
    assert [line.partition(":")[0] for line in listed] == ["p1", "p2 (5f8e0c1d)"]
    rows = json.loads(output_of("participant", "list", "--json"))["participants"]
    assert [row["platform_id"] for row in rows] == [None, "5f8e0c1d"]
    for command, status in (("pause", "paused"), ("resume", "active"), ("returned", "returned")):
        line = output_of("participant", command, "5f8e0c1d")
        assert line.startswith("participant p2 (5f8e0c1d): ")
        assert line.endswith(f"-> {status}\n")
    assert "p2 (5f8e0c1d) has not" in output_of("study", "assign", "5f8e0c1d")
    forgotten = output_of("participant", "forget", "5f8e0c1d", "--yes")
    assert forgotten == "participant p2 (5f8e0c1d) of study autumn: 0 answers deleted\n"
    assert "no participant '5f8e0c1d'" in complaint(hsfiq("participant", "pause", "5f8e0c1d"))


@on_sqlite
def test_a_name_that_is_another_participants_platform_id_is_ambiguous(database: Database) -> None:
    (seat,) = seats(database, 1)
    platform_participant(database, "p1")
    for command in (["participant", "exclude"], ["participant", "forget", "--yes"]):
        assert complaint(hsfiq(*command, "p1")) == (
            "study autumn: 'p1' is a participant's name and the platform id of p2; "
            "write name:p1 or id:p1"
        )
    assert seat.participant().status == "active"
    assert output_of("participant", "pause", "id:p1") == "participant p2 (p1): active -> paused\n"
    assert output_of("participant", "pause", "name:p1") == "participant p1: active -> paused\n"
    assert "no participant 'id:p2'" in complaint(hsfiq("participant", "pause", "id:p2"))


@on_sqlite
def test_a_name_that_is_ones_own_platform_id_is_not_ambiguous(database: Database) -> None:
    output_of("study", "create", "study.toml")
    platform_participant(database, "p1")
    assert output_of("participant", "pause", "p1") == "participant p1 (p1): active -> paused\n"


# -------------------------------------------------------------------------------------- forgetting


@on_sqlite
@pytest.mark.parametrize("identified_by", ["token", "name"])
def test_forgetting_names_the_releases_and_alters_none(
    database: Database, identified_by: str
) -> None:
    for seat in seats(database, 2):
        seat.answer_all()
    output_of("export")
    output_of("export", "--out", "elsewhere", "--release", "hs")
    before = contents()
    token = seat.participant().token
    name = seat.participant().name
    output = output_of(
        "participant", "forget", token if identified_by == "token" else name, "--yes"
    )
    assert output.splitlines() == [
        f"participant {name} of study autumn: 4 answers deleted",
        f"releases/autumn-hp-1.0.0 still holds answers of {name}; it was not altered",
        f"releases/autumn-hs-1.0.0 still holds answers of {name}; it was not altered",
    ]
    assert contents() == before
    with database.reading() as session:
        assert session.scalar(select(func.count(Response.id))) == 4
        assert session.scalar(select(func.count(CheckAnswer.id))) == 1
        assert participants.by_token(session, token) is None
    repeated = json.loads(
        output_of("participant", "forget", name, "--yes", "--json", "--releases", ".")
    )
    assert repeated == {
        "participant": name, "study": "autumn", "deleted": 0, "erased": True,
        "releases": ["elsewhere"],
    }  # fmt: skip
    assert "has no participant" in complaint(hsfiq("participant", "forget", token, "--yes"))


def contents() -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for folder in ("releases", "elsewhere")
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


@on_sqlite
def test_a_release_that_dropped_the_answers_holds_them_too(database: Database) -> None:
    first, second = seats(database, 2)
    for seat in (first, second):
        seat.submit(seat.question_ids[0])
    first.set_status("excluded")
    output_of("export", "--release", "hp")
    lines = output_of("participant", "forget", "p1", "--yes").splitlines()
    assert lines[1:] == ["releases/autumn-hp-1.0.0 still holds answers of p1; it was not altered"]


@on_sqlite
def test_a_participant_without_answers_is_in_no_release(database: Database) -> None:
    seat, _ = seats(database, 2)
    seat.submit(seat.question_ids[0])
    output_of("export", "--release", "hp")
    Path("releases/autumn-hp-1.0.0/preferences.jsonl").chmod(0o600)
    assert output_of("participant", "forget", "p2", "--yes").splitlines() == [
        "participant p2 of study autumn: 0 answers deleted"
    ]


@on_sqlite
def test_broken_releases_do_not_stop_forgetting(database: Database) -> None:
    (seat,) = seats(database, 1)
    seat.answer_all()
    output_of("export")
    Path("releases/autumn-hp-1.0.0/preferences.jsonl").unlink()
    Path("releases/autumn-hs-1.0.0/preferences.jsonl").write_bytes(b"\xff{")
    Path("releases/other").mkdir()
    assert "4 answers deleted" in output_of("participant", "forget", "p1", "--yes")


@on_sqlite
@pytest.mark.parametrize("answer", [False, True])
def test_forgetting_asks_for_confirmation(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, answer: bool
) -> None:
    (seat,) = seats(database, 1)
    seat.answer_all()

    def confirm(question: str, **_: Any) -> bool:
        assert question == "Delete all answers of p1?"
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    command = hsfiq("participant", "forget", "p1")
    assert command.code == (0 if answer else 2)
    assert count(database, Response) == (0 if answer else 4)
    assert count(database, Question) == 8


def test_the_file_has_the_design_of_small_studies() -> None:
    assert (SMALL.k, SMALL.questions_per_form, SMALL.forms_per_participant) == (2, 2, 2)


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
