"""Studies for simulated annotators: how they are made, and when they end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hsfiq.db.engine import Database, open_database
from hsfiq.demo.study import database_url, make_study, served_design
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import make_queries

CONFIG = """\
[study]
name = "{name}"
title = "Which shop understood you?"

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
    """A folder with two studies' files and a database with queries."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    make_queries(database)
    for name in ("people", "simulated"):
        Path(f"{name}.toml").write_text(CONFIG.format(name=name), encoding="utf-8")


def test_a_study_is_for_simulated_annotators_only_on_request() -> None:
    """It works like others until it is closed."""
    assert hsfiq("study", "create", "people.toml").code == 0
    assert hsfiq("study", "create", "simulated.toml", "--simulated", "--draft").code == 0
    listed = json.loads(hsfiq("study", "list", "--json").out)["studies"]
    assert [row["origin"] for row in listed] == ["collected", "simulated"]
    for command in ("open", "pause", "open"):
        assert hsfiq("study", command, "simulated").code == 0
    assert hsfiq("study", "invite", "simulated", "--count", "2").code == 0
    assert hsfiq("study", "close", "simulated").out == "study simulated: open -> closed\n"
    repeated = hsfiq("study", "open", "simulated")
    assert (repeated.code, "has simulated answers" in repeated.err) == (2, True)


@on_sqlite
@pytest.mark.parametrize("simulated", [True, False])
def test_a_demo_is_served_to_its_intended_annotators(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, simulated: bool
) -> None:
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 10)
    monkeypatch.setattr("hsfiq.drawn.pictures.write_images", lambda *_: None)
    folder = tmp_path / "demo"
    folder.mkdir()
    database = open_database(database_url(folder))
    design = replace(served_design(0), questions_per_form=2)
    make_study(database, folder, design, 3, simulated=simulated)
    database.close()
    command = hsfiq("demo", "--dir", "demo", *([] if simulated else ["--simulated"]))
    origin = "simulated" if simulated else "collected"
    assert command.code == 2
    assert command.err.startswith(f"hsfiq: demo: holds a demo whose answers are {origin}; name")
