"""Every command is listed here: what the audit log has of it, or that it changes nothing."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture
from sqlalchemy import select, update
from typer.main import get_command

from hsfiq.actors import OWNER, Action, Actor, command_line
from hsfiq.audit import Selection, entries, facts, record
from hsfiq.cli import app
from hsfiq.collect import participants
from hsfiq.db.engine import Database, open_database
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Response, Study
from hsfiq.jobs import add_job
from hsfiq.study.recruiting import Recruitment
from tests.arenas import TEXT, Voter, draw_arena
from tests.hsfiq.cli.owner_commands import CONFIG
from tests.hsfiq.samples import CIRR, FASHIONIQ, HPFIQ, RUNS, hsfiq, on_sqlite
from tests.prolific_server import TOKEN, prolific_server
from tests.studies import NOW, Seat, draw, make_queries, small_study

READING = {
    "account list", "audit list", "db check", "db current", "doctor",
    "draft list", "draft rehearse", "draft show", "images warm", "participant list",
    "release list", "serve", "show", "study hit", "study jobs", "study list", "study status",
    "study texts",
}  # fmt: skip
"""Commands that change nothing in a database and write no study data to a file."""

WITHOUT_DATABASE = {
    "analyze", "evaluate circo", "evaluate cirr", "evaluate drawn", "evaluate fashioniq",
    "evaluate fisd", "evaluate icir", "evaluate judged", "images draw-fisd", "init",
    "power", "rehearse",
    "release diff", "release merge", "release push", "release verify", "retrieve",
    "retriever check", "retriever serve", "score", "sessions measure", "sessions play",
    "simulate", "train", "weights convert", "weights import",
}  # fmt: skip
"""Commands that open no database of a study, or a new one (`tests/hsfiq/test_project.py`)."""

IN_BROWSER = {"draft draw", "study copy"}
"""Commands about drafts, whose tokens are random (`tests/annotate/studio/test_setup.py`)."""

PERSON, REASON, PASSWORD = "5f8e0c1d2e3f405162738495", "was in a hurry", "correct horse battery"
CIRCO = {
    "reference_img_id": 4, "relative_caption": "is red", "shared_concept": "dog", "id": 0,
    "target_img_id": 7, "gt_img_ids": [9, 7], "semantic_aspects": [],
}  # fmt: skip

Line = tuple[str, str, str | None, str]
"""A command, and the action, the study and what it is about in the entry."""

IMPORTS: list[Line] = [
    ("import queries queries.csv --images images --dataset shop",
     "data.import", None, "queries of dataset shop"),
    (f"import fashioniq {FASHIONIQ}", "data.import", None, "triplets of dataset fashioniq"),
    (f"import cirr {CIRR}", "data.import", None, "triplets of dataset cirr"),
    ("import circo circo", "data.import", None, "triplets of dataset circo"),
    (f"import runs {RUNS / 'sprc.json'} --system S --dataset fashioniq", "data.import", None,
     "ranked lists of dataset fashioniq"),
]  # fmt: skip

STUDIES: list[Line] = [
    ("study create study.toml", "study.create", "autumn", ""),
    ("study edit autumn corrected.toml", "study.edit", "autumn", "text version 2"),
    ("study pause --study autumn", "study.pause", "autumn", ""),
    ("study open --study autumn", "study.open", "autumn", ""),
    ("study extend autumn --annotators 6", "study.extend", "autumn", "20 forms"),
    ("study quota autumn shirt=10", "study.quota", "autumn", "shirt=10"),
    ("study enrolment autumn --per-address 60", "study.enrolment", "autumn",
     "enrolments_per_address=60"),
    ("study preview autumn", "study.preview", "autumn", ""),
    (f"study bind {'a' * 24} --study autumn", "study.bind", "autumn", ""),
    ("study invite --count 2 --study autumn", "study.invite", "autumn", "2 invitations"),
    ("participant allow ids.txt --study autumn", "participant.allow", "autumn", "2 ids"),
    ("participant links ids.txt --study autumn", "participant.links", "autumn", "2 links"),
    ("study next --n 2 --strategy random --study autumn --name chosen", "study.create",
     "chosen", ""),
]  # fmt: skip

PEOPLE: list[Line] = [
    ("images check --study autumn --accept", "images.accept", "autumn",
     "1 changed and 0 new images"),
    ("study message autumn hurry --participant p3", "study.message", "autumn", "p3"),
    ("study message autumn hurry", "study.message", "autumn", "everybody"),
    ("participant pause p3 --reason 'was in a hurry' --study autumn", "participant.pause",
     "autumn", "p3"),
    (f"participant resume {PERSON} --study autumn", "participant.resume", "autumn", "p3"),
    ("study assign p3 --study autumn", "participant.reassign", "autumn", "p3"),
    ("participant note p3 'was in a hurry' --study autumn", "participant.note", "autumn", "p3"),
    ("participant review p4.form_1.0 --study autumn", "participant.review", "autumn",
     "p4.form_1.0"),
    ("study unblind autumn", "study.unblind", "autumn", ""),
    ("study share autumn", "report.share", "autumn", "link 1"),
    ("study share autumn --revoke 1", "report.revoke", "autumn", "link 1"),
    ("participant returned p3 --study autumn", "participant.return", "autumn", "p3"),
    ("participant screened-out p3 --study autumn", "participant.screen-out", "autumn", "p3"),
    ("participant exclude p3 --study autumn", "participant.exclude", "autumn", "p3"),
    ("participant release --study autumn --minutes 5", "participant.release", "autumn", "p5"),
    ("participant payout --study autumn --out payout", "participant.payout", "autumn",
     "prolific"),
    ("export --study autumn --release hp --out hp", "data.export", "autumn", "autumn-hp 1.0.0"),
    (f"import hpfiq {HPFIQ} --study published", "data.import", "published", ""),
    ("import release hp --study again", "data.import", "again", ""),
    (f"participant forget {PERSON} --yes --study autumn", "participant.forget", "autumn", "p3"),
    ("study close --study autumn", "study.close", "autumn", ""),
]  # fmt: skip

STRIKE: Line = ("study strike p1.form_1.0 1 --study arena", "study.strike", "arena",
                "p1.form_1.0 turn 1")  # fmt: skip

PROLIFIC: list[Line] = [
    ("prolific draft --pay-per-hour 12 --url https://study.example.org", "prolific.draft",
     "small", ""),
    ("prolific publish --yes", "prolific.publish", "small", ""),
    ("prolific pause", "prolific.pause", "small", ""),
    ("prolific sync", "participant.return", "small", "p2"),
    ("participant decide p1 approve", "participant.decide", "small", "p1: approve"),
    ("prolific approve --yes", "prolific.approve", "small", "p1: 1.00 GBP"),
    ("prolific bonus --bonus-per-question 0.05 --yes", "prolific.bonus", "small", "p1: 0.20 GBP"),
    ("participant exclude-by-rule --seconds 999", "participant.exclude", "small", "p1"),
]  # fmt: skip

WHOLE: list[Line] = [
    ("account invite Kim --role analyst", "account.invite", None, "kim: analyst"),
    ("account role kim helper", "account.role", None, "kim: helper"),
    ("account disable kim", "account.disable", None, "kim"),
    ("account reset kim", "account.reset", None, "kim"),
    ("account password --from-file password.txt", "password.set", None, "owner"),
    ("secret create secret", "secret.create", None, ""),
    ("secret rotate secret --forget", "secret.rotate", None, "the previous key is no longer valid"),
    ("db backup backup", "db.backup", None, ""),
    ("db copy $DATABASE sqlite:///copied.db", "db.copy", None, "to another database"),
    ("audit export log.jsonl --study autumn", "audit.export", "autumn", "31 entries"),
    ("audit prune --before 2020-01-01", "audit.prune", None,
     "0 entries before 2020-01-01T00:00:00Z"),
]  # fmt: skip

ELSEWHERE: dict[str, Line] = {
    "sqlite:///restored.db": (
        "db restore backup --database sqlite:///restored.db", "db.restore", None, ""
    ),
    "sqlite:///new.db": (
        "db upgrade --database sqlite:///new.db", "db.upgrade", None, f"empty -> {head_revision()}"
    ),
    "sqlite:///copied.db": (
        "study delete autumn --yes --database sqlite:///copied.db", "study.delete", "autumn",
        "4 answers by 5 participants",
    ),
    "sqlite:///demo/hsfiq.db": ("demo --answers 2 --dir demo", "study.create", "drawn", ""),
    "sqlite:///sample.db": (
        "study sample --database sqlite:///sample.db", "study.create", "drawn", ""
    ),
}  # fmt: skip
"""Commands that make a database of their own, by its URL."""


def leaves(command: Any, name: str = "") -> Iterator[str]:
    """The names of all commands, without `hsfiq`."""
    if not hasattr(command, "commands"):
        yield name
        return
    for part, below in command.commands.items():
        yield from leaves(below, f"{name} {part}".strip())


def name_of(line: str, names: Sequence[str]) -> str:
    """The command of a line, without its arguments."""
    longest_first = sorted(names, key=len, reverse=True)
    return next(name for name in longest_first if f"{line} ".startswith(f"{name} "))


def test_every_command_is_listed() -> None:
    recorded = [*IMPORTS, *STUDIES, *PEOPLE, STRIKE, *PROLIFIC, *WHOLE, *ELSEWHERE.values()]
    names = list(leaves(get_command(app)))
    listed = {name_of(line, names) for line, *_ in recorded}
    assert sorted(names) == sorted(listed | READING | WITHOUT_DATABASE | IN_BROWSER)
    assert not listed & (READING | WITHOUT_DATABASE)


def log(database: Database) -> list[dict[str, Any]]:
    with database.reading() as session:
        return [facts(entry) for entry in entries(session, Selection())]


def run(command: str, database: Database) -> None:
    url = database.engine.url.render_as_string()
    result = hsfiq(*shlex.split(command.replace("$DATABASE", url)))
    assert result.code == 0, f"{command}\n{result.err}"


def require_recorded(lines: Sequence[Line], database: Database) -> None:
    """Run the commands, each of which adds the one entry that is listed."""
    for command, action, study, about in lines:
        before = log(database)
        run(command, database)
        (entry,) = log(database)[len(before) :]
        assert entry.pop("at") > NOW.isoformat()
        assert entry == {
            "actor": command_line().name, "action": action, "study": study, "about": about,
            "outcome": "done",
        }, command  # fmt: skip


def write_files() -> None:
    recruitment = (
        '[recruitment]\nmode = "prolific"\ncompletion_code = "C"\nsigned_links = true\n'
        "quotas = { shirt = 2 }\n"
    )
    study = CONFIG + recruitment
    Path("study.toml").write_text(study, encoding="utf-8")
    Path("corrected.toml").write_text(study.replace("understood", "helped"), encoding="utf-8")
    Path("queries.csv").write_text("query_id,text\nq1,is red\n", encoding="utf-8")
    Path("ids.txt").write_text(f"{PERSON}\n{'b' * 24}\n", encoding="utf-8")
    Path("password.txt").write_text(f"{PASSWORD}\n", encoding="utf-8")
    Path("images").mkdir()
    Path("circo").mkdir()
    Path("circo/val.json").write_text(json.dumps([CIRCO]), encoding="utf-8")
    for image in Path("../images").iterdir():
        Picture.new("RGB", (6, 8), "red").save(image)


def seat_people(database: Database) -> str:
    """p3 and p4, who answers all, and p5, who has not begun; the token of p3."""
    now = datetime.now(UTC)
    with database.writing() as session:
        study = session.scalars(select(Study.id).where(Study.name == "autumn")).one()
        person = participants.enrol(session, study, now=now, source="prolific", external_id=PERSON)
        participants.consent(person, now=now)
    Seat.taken(database, study, now).answer_all()
    with database.writing() as session:
        participants.enrol(session, study, now=now - timedelta(hours=1))
        report = add_job(session, OWNER, "report", "A report", [], study_id=study)
        report.state, report.ended_at = "done", now
    Picture.new("RGB", (6, 8), "blue").save(Path("../images/image-0.png"))
    assert person.token
    return person.token


@on_sqlite
@pytest.mark.usefixtures("owners_folder")
def test_every_command_that_changes_or_takes_out_data_is_recorded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40)
    write_files()
    require_recorded([*IMPORTS, *STUDIES], database)
    token = seat_people(database)
    require_recorded([*PEOPLE, *WHOLE], database)
    text = json.dumps(log(database))
    for private in (PERSON, "b" * 24, REASON, "hurry", PASSWORD, token, "a" * 24):
        assert private not in text
    for url, (command, *expected) in ELSEWHERE.items():
        run(command, database)
        made = open_database(url, create=False)
        *_, entry = log(made)
        made.close()
        assert [entry[key] for key in ("action", "study", "about")] == expected, command


def test_a_struck_text_is_recorded_without_the_text(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    voter = Voter.enrolled(database, draw_arena(database))
    voter.vote(voter.question_ids()[0], 1)
    require_recorded([STRIKE], database)
    assert TEXT not in json.dumps(log(database))
    run(STRIKE[0], database)
    assert len(log(database)) == 1  # it changed nothing


@on_sqlite
def test_what_is_sent_to_prolific_is_recorded_without_ids(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    recruitment = Recruitment(mode="prolific", completion_code="C")
    study = draw(database, make_queries(database), recruitment=recruitment)
    with prolific_server() as prolific:
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", prolific.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        require_recorded(PROLIFIC[:1], database)
        for person in ("stays", "leaves"):
            with database.writing() as session:
                who = participants.enrol(
                    session, study, now=NOW, source="prolific", external_id=person
                )
                participants.consent(who, now=NOW)
            prolific.add(person, "AWAITING REVIEW" if person == "stays" else "RETURNED", "0" * 24)
            if person == "stays":
                Seat(database, who.id).answer_all()
        with database.writing() as session:
            session.execute(update(Response).values(active_seconds=2.0))
        require_recorded(PROLIFIC[1:], database)
    text = json.dumps(log(database))
    assert not [private for private in ("stays", "leaves", TOKEN, "0" * 24) if private in text]


@on_sqlite
def test_what_is_refused_or_changes_nothing_is_not_recorded(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    Seat.taken(database, small_study(database))
    for command, code in (
        ("participant pause p9", 2),
        ("study extend small --annotators 9 --dry-run", 0),
        ("participant release", 0),
        ("export --explain", 0),
        ("study enrolment small", 0),
    ):
        assert hsfiq(*command.split()).code == code, command
    assert log(database) == []


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_data_can_leave_a_database_that_can_only_be_read(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    Seat.taken(database, small_study(database)).answer_all()
    read_only = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    for command, action in (
        (f"db backup {tmp_path / 'backup'}", Action.DB_BACKUP),
        (f"participant payout --out {tmp_path / 'payout'}", Action.PARTICIPANT_PAYOUT),
    ):
        result = hsfiq(*command.split(), "--database", read_only)
        assert result.code == 0, result.err
        warning = f"hsfiq: warning: {action} is not in the audit log (the database can only be"
        assert result.err.startswith(warning)
    assert log(database) == []


@on_sqlite
def test_a_database_of_an_earlier_version_is_backed_up_with_a_warning(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    with database.writing() as session:
        session.connection().exec_driver_sql("DROP TABLE audit_entries")
    result = hsfiq("db", "backup", tmp_path / "backup", "--database", database_url)
    assert result.code == 0
    assert result.err.endswith("(this database has none yet: run `hsfiq db upgrade`)\n")


@on_sqlite
@pytest.mark.usefixtures("owners_folder")
def test_the_log_is_listed_and_exported(database: Database) -> None:
    run("study create study.toml", database)
    run("study pause", database)
    with database.writing() as session:
        record(session, Actor("=1+1"), Action.STUDY_OPEN, study="autumn", about='-a,"b')
    listed = hsfiq("audit", "list", "--study", "autumn")
    assert listed.code == 0
    actions = [line.split("  ")[2] for line in listed.out.splitlines()]
    assert actions == ["study.create", "study.pause", "study.open"]
    mine = hsfiq("audit", "list", "--actor", command_line().name, "--json").result["entries"]
    assert [entry["action"] for entry in mine] == ["study.create", "study.pause"]
    assert hsfiq("audit", "list", "--since", "2999-01-01").out == "no entry\n"
    run("audit export log.csv", database)
    with Path("log.csv").open(encoding="utf-8", newline="") as file:
        *_, last = csv.DictReader(file)
    assert (last["actor"], last["about"]) == ("'=1+1", "'-a,\"b")
    run("audit export log.jsonl", database)
    lines = Path("log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == log(database)[:-1]


@on_sqlite
def test_bad_input_is_refused_in_one_line(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    for command, message in (
        ("audit list --since yesterday", "--since: 'yesterday' is not a date; write 2026-03-01"),
        ("audit prune --before 2999-01-01", "--before: 2999-01-01 is in the future"),
        ("audit export log.txt", "log.txt: has neither the extension .csv nor .jsonl"),
        ("audit export no/log.csv", "no/log.csv: "),
    ):
        result = hsfiq(*command.split())
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert result.err.startswith(f"hsfiq: {message}")
    assert log(database) == []


@on_sqlite
def test_a_copy_of_a_study_is_recorded_once(database: Database) -> None:
    small_study(database)
    result = hsfiq("--database", str(database.engine.url), "study", "copy", "small")
    (entry,) = log(database)
    assert result.out.startswith(f"{entry['about']}: a copy of study ")
    assert entry["action"] == "draft.create"
