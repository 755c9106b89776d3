"""From own data to an answer: `hsfiq init`, `rehearse`, `serve`, `export` and `analyze`."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.actors import command_line
from hsfiq.collect.participants import enrol
from hsfiq.collect.studies import find_study, list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.sqlite import sqlite_url
from hsfiq.db.tables import Participant, Question, Study, StudyCreation
from hsfiq.errors import UnreadableInput
from hsfiq.project import (
    INVITATIONS_FILE,
    Pay,
    invited_links,
    project_in,
    redraw_if_changed,
    size_for,
    usual_overlap,
)
from hsfiq.rehearsal import START, answer_study
from hsfiq.study.config import config_of
from hsfiq.study.config_file import read_config
from hsfiq.study.publication import AnalysisPlan
from tests.hsfiq.own_data import IMAGES, write_own_data
from tests.hsfiq.samples import CommandResult, dump, hsfiq


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_own_data(folder)
    return folder


def init(data: Path, folder: Path, *options: str) -> CommandResult:
    """`hsfiq init` with what `data` holds; later options replace earlier ones."""
    return hsfiq(
        *("init", folder, "--images", data / "photos", "--queries", data / "queries.csv"),
        *("--run", f"mine={data / 'mine.jsonl'}", "--run", data / "clip4cir.xlsx"),
        *options,
    )


@pytest.fixture
def project(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of 20 participants; commands run in its folder."""
    assert init(data, tmp_path / "my-study", "--yes").code == 0
    monkeypatch.chdir(tmp_path / "my-study")
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    return tmp_path / "my-study"


@pytest.fixture
def database(project: Path) -> Iterator[Database]:
    opened = open_database(project_in(project).database_url, create=False)
    yield opened
    opened.close()


def serve_once(folder: Path) -> list[str]:
    """What `hsfiq serve` prints once it serves, up to the line about the studio."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "hsfiq", "serve", "--port", str(port)]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = []
        for line in server.stderr:
            lines.append(line.rstrip())
            if line.startswith("the studio"):
                break
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as reply:
            assert reply.status == 200
        server.terminate()
    return lines


def test_five_commands_from_own_images_to_a_verdict(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = init(data, Path("my-study"), "--yes", "--pay", "12 EUR")
    assert made.code == 0, made.err
    for words in (
        "40 with an image and a text",
        "20 participants, 26 questions each",
        "64.00 EUR",
        "mine against clip4cir: half-width 0.09 with 20 people; 87 people for a difference of 0.10",
        "hsfiq rehearse my-study",
    ):
        assert words in made.out
    assert "no license" in made.err
    assert "institution, contact, ethics approval" in made.err
    before = dump(tmp_path / "my-study" / "hsfiq.db")
    rehearsed = hsfiq("rehearse", "my-study", "--strength", "mine=2", "--strength", "clip4cir=0")
    assert rehearsed.code == 0, rehearsed.err
    assert rehearsed.out.startswith("SIMULATED")
    assert "People PREFER mine to clip4cir\n  win rate" in rehearsed.out
    assert dump(tmp_path / "my-study" / "hsfiq.db") == before
    rehearsal = tmp_path / "my-study" / "rehearsal"
    report = (rehearsal / "report" / "report.html").read_text("utf-8")
    assert "simulat" in report.lower()
    for release in (rehearsal / "releases").iterdir():
        assert json.loads((release / "manifest.json").read_text("utf-8"))["simulated"] is True
    payments = (rehearsal / "payments.csv").read_text("utf-8")
    paid = list(csv.DictReader(io.StringIO(payments)))
    assert len(paid) == 20
    assert {row["simulated"] for row in paid} == {"true"}
    assert {row["currency"] for row in paid} == {"EUR"}

    monkeypatch.chdir(tmp_path / "my-study")
    lines = serve_once(Path())
    assert "20 personal links in invitations.csv" in lines[1]
    opened = open_database(project_in(Path()).database_url, create=False)
    with opened.writing() as session:  # people answer
        answer_study(session, "my-study", {"mine": 2.0, "clip4cir": 0.0}, 1, iter)
    opened.close()
    exported = hsfiq("export", "--filter-invalid")
    assert exported.code == 0, exported.err
    analyzed = hsfiq("analyze", "--json")
    assert analyzed.code == 0, analyzed.err
    verdict = json.loads(analyzed.out)["verdicts"][0]
    assert (verdict["a"], verdict["b"], verdict["verdict"]) == ("mine", "clip4cir", "better")
    assert verdict["simulated"] is False
    monkeypatch.chdir(tmp_path / "my-study" / "releases")  # deeper in the project
    assert hsfiq("study", "list").out.splitlines()[1].split()[:2] == ["my-study", "closed"]
    assert "my-study-hp-1.0.0" in hsfiq("analyze", "--resamples", "50").err


def test_it_asks_what_it_is_not_told(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that cannot be used are asked again; empty ones take the default."""
    answers = ["many", "10", "11", "", "a lot", "9,50 gbp", "prolific", "perhaps", "no"]
    answers += ["CC BY", "CC-BY-4.0", "Lab of Ships", "", "board 3"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, ""])))
    result = init(data, tmp_path / "autumn")
    assert result.code == 0, result.err
    config = read_config(tmp_path / "autumn" / "study.toml")
    assert config.recruitment.participants == 10
    assert config.design.annotators_per_query == 6
    assert config.recruitment.mode == "prolific"
    assert config.recruitment.completion_code in (tmp_path / "autumn" / "study.toml").read_text()
    assert (config.checks.gold, config.checks.repeated, config.checks.arithmetic) == (0, 0, False)
    assert (config.study.institution, config.study.ethics) == ("Lab of Ships", "board 3")
    assert config.release.licence == "CC-BY-4.0"
    assert project_in(tmp_path / "autumn").pay == Pay(9.5, "GBP")
    for what in ("'many' is not a whole number", "'a lot' is not an amount", "neither yes nor no"):
        assert what in result.out
    assert "the consent text lacks contact:" in result.err


def test_nobody_can_answer(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    result = init(data, tmp_path / "autumn")
    assert result.code == 2
    assert "--yes: is required" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--pay", "much"], "--pay: 'much' is not an amount with a currency"),
        (["--participants", "5", "--overlap", "6"], "--overlap: 6 people cannot judge"),
        (["--participants", "900", "--overlap", "1"], "--participants: 900 participants, but"),
        (["--platform", "mturk"], "--platform: 'mturk' is not links, open, prolific"),
        (["--license", "CC BY"], "--license: 'CC BY' is neither"),
        (["--contact", "a\nb"], "--contact: must be one line"),
        (["--run", "x=none.json"], "none.json: there is no such file"),
    ],
)
def test_wrong_answers_make_no_folder(
    data: Path, tmp_path: Path, options: list[str], error: str
) -> None:
    result = init(data, tmp_path / "autumn", "--yes", *options)
    assert result.code == 2
    assert error in result.err
    assert list(tmp_path.iterdir()) == []


def test_all_mistakes_of_all_files_are_reported(data: Path, tmp_path: Path) -> None:
    table = tmp_path / "queries.csv"
    table.write_text("query_id,text,reference\nq1,is red,none.jpg\n,is red,img01\n")
    run = tmp_path / "broken.jsonl"
    run.write_text('{"query_id": "q1"\n')
    result = hsfiq(
        *("init", tmp_path / "autumn", "--images", data / "photos", "--queries", table, "--yes"),
        *("--run", run, "--run", data / "clip4cir.xlsx"),
    )
    assert result.code == 2
    lines = result.err.splitlines()
    assert len(lines) == 3
    assert "row 2" in lines[0] or "line 2" in lines[0]
    assert "query_id" in lines[1]
    assert "broken.jsonl" in lines[2]
    assert not (tmp_path / "autumn").exists()


def test_what_cannot_be_a_study(data: Path, tmp_path: Path, project: Path) -> None:
    alone = hsfiq(
        *("init", tmp_path / "one", "--images", data / "photos", "--yes"),
        *("--queries", data / "queries.csv", "--run", data / "mine.jsonl"),
    )
    assert "at least 2 systems" in alone.err
    assert "exists already" in init(data, project, "--yes").err
    assert "is inside the project" in init(data, project / "inner", "--yes").err
    assert "is not a project" in hsfiq("rehearse", tmp_path).err
    other = {f"x{number}": IMAGES[:5] for number in range(3)}
    (tmp_path / "other.json").write_text(json.dumps(other))
    foreign = init(data, tmp_path / "two", "--yes", "--run", str(tmp_path / "other.json"))
    assert "no query has a list from every system" in foreign.err


def test_small_data_get_no_gold_questions(data: Path, tmp_path: Path) -> None:
    """Nobody may see a gold question's query in another question, so here none is left."""
    result = init(data, tmp_path / "all", "--yes", "--participants", "2", "--overlap", "2")
    assert result.code == 0, result.err
    assert "the study has no gold questions" in result.err
    config = read_config(tmp_path / "all" / "study.toml")
    assert (config.checks.gold, config.checks.repeated) == (0, 1)


@given(
    n_queries=st.integers(1, 400),
    participants=st.integers(1, 120),
    data=st.data(),
)
def test_sizes_have_a_place_for_each_participant(
    n_queries: int, participants: int, data: Any
) -> None:
    usual = usual_overlap(n_queries, participants)
    overlap = data.draw(st.one_of(st.just(usual), st.integers(1, participants)))
    try:
        size = size_for(n_queries, participants, overlap)
    except UnreadableInput:
        assert n_queries * overlap < participants
        return
    judged = size.sample or n_queries
    assert 1 <= size.questions <= min(50, n_queries)
    assert size.questions % size.forms == 0
    assert judged * overlap >= participants * size.questions - overlap
    assert judged <= n_queries


@pytest.mark.parametrize(
    ("text", "pay"),
    [("0", None), ("0 EUR", None), ("12 EUR", Pay(12, "EUR")), ("9,50gbp", Pay(9.5, "GBP"))],
)
def test_pay_is_read(text: str, pay: Pay | None) -> None:
    assert Pay.read(text) == pay


def test_the_projects_database_study_and_dataset_are_the_defaults(
    project: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there are several, and not outside."""
    (project / "second.toml").write_text(
        (project / "study.toml").read_text().replace('name = "my-study"', 'name = "second"')
    )
    assert hsfiq("study", "create", "second.toml", "--draft").code == 0
    queries = ("import", "queries", data / "queries.csv", "--images", data / "photos")
    assert hsfiq(*queries, "--dataset", "other").code == 0
    assert hsfiq("study", "status", "--json").result["study"] == "my-study"
    run = project / "third.json"
    run.write_text(json.dumps({f"q{number}": IMAGES[:6] for number in range(40)}))
    imported = hsfiq("import", "runs", run, "--system", "third")
    assert "dataset my-study" in imported.out
    monkeypatch.setenv("HSFIQ_DATABASE_URL", "sqlite:///other.db")
    refused = hsfiq("study", "list")
    assert refused.code == 2
    assert "HSFIQ_DATABASE_URL: names another database" in refused.err
    assert hsfiq("study", "list", "--database", project_in(project).database_url).code == 0
    monkeypatch.chdir(project.parent)
    assert "other.db" in hsfiq("study", "list").err


def change(project: Path, before: str, after: str) -> None:
    file = project / "study.toml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_power_is_about_the_study_of_the_project(project: Path, need: Any) -> None:
    need("pandas", "scipy")
    own = hsfiq("power", "--preference", "0.7", "--json").result
    assert [(size["participants"], size["questions"]) for size in own["sizes"]] == [(20, 24)]
    assert (own["overlap"], own["preference"]["systems"]) == (12, 2)
    assert own["planned"]["pair"] == ["mine", "clip4cir"]
    assert (own["planned"]["statistic"], own["planned"]["needed"]) == ("win_rate", 87)
    larger = hsfiq("power", "--preference", "0.7", "--participants", "30", "--difference", "0.05")
    assert "mine against clip4cir: half-width 0.08 with 30 people; more queries are" in larger.out
    change(project, 'question = "systems"', 'question = "metrics"')
    change(project, 'pair = ["mine", "clip4cir"]', 'pair = ["recall@5", "recall@1"]')
    assert "study.toml has changed" in hsfiq("power", "--preference", "0.7").err
    opened = open_database(project_in(project).database_url, create=False)
    redraw_if_changed(opened, project_in(project), command_line())
    opened.close()
    metrics = hsfiq("power", "--preference", "0.7")
    assert metrics.out.startswith("recall@5 against recall@1: half-width ")
    assert "(difference of tie_half; 95% interval; power 80%)" in metrics.out
    assert "has changed" not in metrics.err


def test_places_without_people_are_named_when_a_study_is_redrawn(
    project: Path, database: Database
) -> None:
    change(project, "participants = 20", "participants = 18")
    told = redraw_if_changed(database, project_in(project), command_line())
    assert told is not None
    assert told.endswith(
        "it has 20 places but only 18 participants, so some questions get no answer: "
        "set participants = 20, or lower sample, in study.toml"
    )


def test_the_draft_follows_its_file_until_somebody_has_enrolled(
    project: Path, database: Database
) -> None:
    own = project_in(project)
    assert redraw_if_changed(database, own, command_line()) is None
    links = invited_links(database, own, "my-study", command_line(), "http://127.0.0.1:7860")
    assert len(links) == 20
    change(project, "annotators_per_query = 12", "annotators_per_query = 6")
    change(project, 'title = "Which', 'title = "Say which')
    change(project, "questions_per_form = 24", "questions_per_form = 12")
    change(project, "# margin = 0.05", "margin = 0.05")
    told = redraw_if_changed(database, own, command_line())
    assert told == "study my-study: redrawn, because its file has changed"
    own = project_in(project)
    assert redraw_if_changed(database, own, command_line()) is None
    with database.reading() as session:
        (study,) = session.scalars(select(Study)).all()
        assert (study.name, study.status) == ("my-study", "draft")
        assert study.title.startswith("Say which")
        plan = AnalysisPlan("systems", ("mine", "clip4cir"), margin=0.05, exclusions=("invalid",))
        assert config_of(study).analysis == plan
        assert session.scalars(select(StudyCreation)).all() == []
        invited = session.scalars(select(Participant)).all()
        assert {person.study_id for person in invited} == {study.id}
        assert len(session.scalars(select(Question)).all()) == 20 * 14
    assert invited_links(database, own, "my-study", command_line(), "https://x.org")[0] == (
        links[0].replace("http://127.0.0.1:7860", "https://x.org")
    )
    assert "https://x.org" in (project / INVITATIONS_FILE).read_text()
    with database.writing() as session:
        study = find_study(session, "my-study")
        assert study is not None
        study.status = "open"
        enrol(session, study.id, now=START)
    change(project, 'title = "Say which', 'title = "Now say which')
    told = redraw_if_changed(database, own, command_line())
    assert told is not None
    assert "is not redrawn" in told
    with database.reading() as session:
        (study,) = session.scalars(select(Study)).all()
        assert study.title.startswith("Say which")


def test_settings_that_commands_have_changed_stay(project: Path, database: Database) -> None:
    """The file has not changed, so the study is not drawn again."""
    assert hsfiq("study", "enrolment", "my-study", "--per-address", "60").code == 0
    assert redraw_if_changed(database, project_in(project), command_line()) is None
    with database.reading() as session:
        (study,) = session.scalars(select(Study)).all()
        assert study.design["recruitment"]["enrolments_per_address"] == 60


def test_a_deleted_study_is_drawn_again_with_new_links(project: Path, database: Database) -> None:
    own = project_in(project)
    old = invited_links(database, own, "my-study", command_line(), "http://127.0.0.1:7860")
    assert hsfiq("study", "delete", "my-study", "--yes").code == 0
    assert redraw_if_changed(database, own, command_line()) == "study my-study: drawn"
    new = invited_links(database, own, "my-study", command_line(), "http://127.0.0.1:7860")
    assert len(new) == len(old) == 20
    assert not set(old) & set(new)
    assert old[0] in (project / "old-invitations.csv").read_text()


def test_a_draft_that_cannot_be_drawn_again_stays(project: Path, database: Database) -> None:
    change(project, "k = 5", "k = 50")
    with pytest.raises(Exception, match=r"have lists of at least 50 images"):
        redraw_if_changed(database, project_in(project), command_line())
    with database.reading() as session:
        (study,) = list_studies(session)
        assert (study.name, study.k) == ("my-study", 5)


def test_a_changed_run_is_a_new_version_while_no_study_shows_the_old_one(
    data: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "changed.json"
    lists = json.loads((data / "clip.json").read_text())
    lists["q3"] = list(reversed(lists["q3"]))
    changed.write_text(json.dumps(lists))
    refused = hsfiq("import", "runs", changed, "--system", "clip4cir")
    assert refused.code == 2
    assert "a different list for query q3, and a study already uses its lists" in refused.err
    monkeypatch.chdir(tmp_path)
    queries = ("import", "queries", data / "queries.csv", "--images", data / "photos")
    assert hsfiq(*queries, "--dataset", "own").code == 0
    assert hsfiq("import", "runs", data / "clip.json", "--system", "clip4cir").code == 0
    told = hsfiq("import", "runs", changed, "--system", "clip4cir")
    assert told.out == "dataset own: 1 ranked list replaced, 0 added, 39 existed\n"
    assert "unchanged" in hsfiq("import", "runs", changed, "--system", "clip4cir").out


def test_strengths_are_checked(project: Path) -> None:
    for given_strength in ("mine", "mine=much", "mine=nan", "theirs=1"):
        result = hsfiq("rehearse", "--strength", given_strength)
        assert result.code == 2
        assert "--strength" in result.err
    assert not (project / "rehearsal").exists()


def test_annotators_judge_images_by_a_table_of_scores(project: Path, data: Path) -> None:
    """The images of mine fit better than the others."""
    mine = {
        row["query_id"]: set(row["images"])
        for row in map(json.loads, (data / "mine.jsonl").read_text().splitlines())
    }
    rows = [f"{q},{image},{0.5 if image in mine[q] else -0.5}" for q in mine for image in IMAGES]
    table = project / "fits.csv"
    table.write_text("\n".join(["query_id,image_id,score", *rows]))
    result = hsfiq("rehearse", "--scores", table, "--json").result
    assert (result["simulated"], result["scores"]) == (True, str(table))
    (verdict,) = result["verdicts"]
    assert {verdict["a"], verdict["verdict"]} in ({"mine", "better"}, {"clip4cir", "worse"})
    table.write_text("\n".join(["query_id;image_id;score", *rows[:9]]).replace(",", ";"))
    for options in (("--scores", table), ("--scores", table, "--strength", "mine=1")):
        refused = hsfiq("rehearse", *options)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert "--scores: " in refused.err
    table.write_text("\n".join(["query_id,image_id,score", *rows[len(IMAGES) :]]))
    refused = hsfiq("rehearse", "--scores", table).err
    query = rows[0].partition(",")[0]
    lacking = re.search(r"lacks (\d+) rows .* and (\d+) more; ", refused)
    assert lacking is not None
    assert len(mine[query]) <= int(lacking[1]) <= len(IMAGES)
    assert int(lacking[1]) - int(lacking[2]) == refused.count(f" for query {query!r}") == 3


def test_two_rehearsals_with_a_seed_are_equal_and_replace_each_other(project: Path) -> None:
    digests = []
    for seed in ("4", "4", "5"):
        result = hsfiq("rehearse", "--seed", seed, "--json").result
        (hp,) = (project / "rehearsal" / "releases").glob("*-hp-*")
        digests.append(json.loads((hp / "manifest.json").read_text())["content_sha256"])
        assert result["simulated"] is True
        assert set(result["strengths"]) == {"mine", "clip4cir"}
    assert digests[0] == digests[1] != digests[2]


def test_a_broken_marker_is_named(project: Path) -> None:
    (project / "hsfiq.toml").write_text("[pay]\nper_year = 1\n")
    assert "hsfiq.toml: is not a project file" in hsfiq("study", "list").err


def test_urls_of_awkward_folders(tmp_path: Path) -> None:
    assert sqlite_url(tmp_path / "a?b%") == f"sqlite:///{tmp_path}/a%3Fb%25"
