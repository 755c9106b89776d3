"""Ids of platforms: a list of those that are let in, and signed links."""

from __future__ import annotations

import csv
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from hsfiq import cli
from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.db.engine import Database
from tests.annotate.enrolment.visits import PERSON, PROLIFIC, Visit, count
from tests.in_process import run_command

TEXT = entry_texts("en")


def address_of(database: Database) -> tuple[str, str]:
    return "--database", str(database.engine.url)


def written(folder: Path, *lines: str) -> str:
    (folder / "ids.txt").write_text("\n".join(lines) + "\n")
    return str(folder / "ids.txt")


def links_of(folder: Path, database: Database, *people: str) -> dict[str, dict[str, str]]:
    """The parameters of the signed link of each person."""
    ids, out = written(folder, *people), folder / "links.csv"
    out.unlink(missing_ok=True)
    options = ("--url", "https://study.example.org", "--out", str(out))
    run_command(folder, "participant", "links", ids, *options, *address_of(database))
    assert out.stat().st_mode & 0o777 == 0o600
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    parts = {row["platform_id"]: urlsplit(row["link"]) for row in rows}
    assert {(part.netloc, part.path) for part in parts.values()} == {
        ("study.example.org", "/start")
    }
    return {
        person: {name: values[0] for name, values in parse_qs(part.query).items()}
        for person, part in parts.items()
    }


def test_only_people_on_the_list_enrol(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(queries=24, recruitment={"mode": "prolific"})
    before = PROLIFIC | {"PROLIFIC_PID": "before"}
    assert client.get("/start", params=before).status_code == 303
    allow = ("participant", "allow", written(tmp_path, PERSON, "", PERSON, "other"))
    printed = run_command(tmp_path, *allow, *address_of(database))
    assert printed == "study telltale-study: 2 ids added; 2 ids may enrol\n"
    assert "0 ids added" in run_command(tmp_path, *allow, *address_of(database))
    statuses = {}
    for person in (PERSON, "made-up", "before"):
        client.cookies.clear()
        answer = client.get("/start", params=PROLIFIC | {"PROLIFIC_PID": person})
        statuses[person] = answer.status_code
        if answer.status_code == 403:
            assert TEXT["not_invited"] in answer.text
            assert COOKIE not in client.cookies
    assert statuses == {PERSON: 303, "made-up": 403, "before": 303}
    assert count(database) == 2
    run_command(tmp_path, "participant", "allow", "--everybody", *address_of(database))
    client.cookies.clear()
    link = PROLIFIC | {"PROLIFIC_PID": "made-up"}
    assert client.get("/start", params=link).status_code == 303


def test_only_signed_links_are_accepted(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific", "signed_links": True})
    person, link = PERSON, PROLIFIC
    signed = links_of(tmp_path, database, person, "other")
    forged = [
        link,
        link | {"signature": ""},
        link | {"signature": "0" * 64},
        link | {"signature": signed["other"]["signature"]},
    ]
    for parameters in forged:
        answer = client.get("/start", params=parameters)
        assert answer.status_code == 403
        assert TEXT["not_invited_title"] in answer.text
    assert count(database) == 0
    assert client.get("/start", params=signed[person]).status_code == 303
    client.cookies.clear()
    # Not even somebody who has enrolled is continued by a link that anybody can make.
    assert client.get("/start", params=link).status_code == 403
    assert client.get("/start", params=signed[person]).status_code == 303
    assert count(database) == 1


def test_signed_links_are_switched_on_while_a_study_runs(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    change = ("study", "enrolment", "telltale-study")
    run_command(tmp_path, *change, "--signed-links", *address_of(database))
    assert client.get("/start", params=PROLIFIC).status_code == 403
    run_command(tmp_path, *change, "--any-links", *address_of(database))
    assert client.get("/start", params=PROLIFIC).status_code == 303


def test_files_that_hold_no_ids_change_nothing(
    visit: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for lines, message in ((["a", "b c"], "line 2: 'b c' is no id"), ([""], "holds no id")):
        ids = written(tmp_path, *lines)
        assert cli.run(["participant", "allow", ids, *address_of(database)]) == 2
        assert message in capsys.readouterr().err
    assert cli.run(["participant", "allow", *address_of(database)]) == 2
    assert "needs a file of ids or --everybody" in capsys.readouterr().err
    assert client.get("/start", params=PROLIFIC).status_code == 303


def test_open_studies_have_no_list(
    visit: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, database = visit()
    ids = written(tmp_path, "a")
    for command, platform in (("allow", "a platform"), ("links", "Prolific")):
        assert cli.run(["participant", command, ids, *address_of(database)]) == 2
        assert f"does not recruit on {platform}" in capsys.readouterr().err


def test_links_for_mechanical_turk_are_not_signed(
    visit: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All workers get the same address from it."""
    _, database = visit(recruitment={"mode": "mturk"})
    command = ["study", "enrolment", "telltale-study", "--signed-links"]
    assert cli.run([*command, *address_of(database)]) == 2
    assert "shows all workers the same address" in capsys.readouterr().err
