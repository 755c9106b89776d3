"""The commands of the tutorials run in the order of their pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.collect import participants
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Study
from tests.docs.test_readme import write_inputs as write_published_answers
from tests.hsfiq.own_data import write_own_data
from tests.hsfiq.samples import hsfiq
from tests.prolific_server import TOKEN, FakeProlific, prolific_server
from tests.studies import NOW, ROOT, Seat

N_PEOPLE = 4


def commands_of(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / "tutorials" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]


def test_a_study_on_prolific_from_own_data_to_payment_and_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_own_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.setattr("hsfiq.prolific_api.SHORTEST_WAIT", 0.01)
    with prolific_server() as prolific:
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", prolific.url)
        monkeypatch.setattr("hsfiq.annotate.app.serve", lambda *_, **__: None)
        for words in commands_of("prolific.md"):
            program, *options = words
            if program == "cd":
                monkeypatch.chdir(options[0])
                continue
            if program == "export":
                name, _, file = options[0].partition("=")
                monkeypatch.setenv(name, file)
                Path(file).write_text(f"{TOKEN}\n", encoding="utf-8")
                Path(file).chmod(0o600)
                continue
            if options[:2] == ["prolific", "sync"]:
                everybody_answers(prolific)
            asks = options[0] == "prolific" and options[1] in ("publish", "approve")
            result = hsfiq(*options, *(["--yes"] if asks and "--dry-run" not in options else []))
            assert result.code == 0, (" ".join(words), result.err)
        assert prolific.paid("approve").total() == N_PEOPLE
    assert Path("report/report.html").is_file()
    assert "mine" in Path("report/section.tex").read_text(encoding="utf-8")


def everybody_answers(prolific: FakeProlific) -> None:
    """People come from Prolific, answer all questions and submit."""
    (platform_id,) = prolific.studies
    database = open_database("sqlite:///hsfiq.db")
    for number in range(N_PEOPLE):
        person = f"{number:024x}"
        with database.writing() as session:
            study = session.scalars(select(Study)).one()
            row = participants.enrol(
                session, study.id, now=NOW, source="prolific", external_id=person
            )
            participants.consent(row, now=NOW)
            seat = Seat(database, row.id)
        seat.answer_all()
        prolific.add(person, "AWAITING REVIEW", study=platform_id)
    database.close()


def test_a_metric_is_tested_on_published_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_published_answers(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    for words in commands_of("metric.md"):
        result = hsfiq(*words[1:])
        assert result.code == 0, (" ".join(words), result.err)
    release = Path("releases/hpfiq-hp-1.0.0")
    sets = re.findall(r'"set_id": ?"([^"]+)"', (release / "sets.jsonl").read_text("utf-8"))
    rows = [f"{name},{number / 10}\n" for number, name in enumerate(dict.fromkeys(sets))]
    Path("mine.csv").write_text("set_id,score\n" + "".join(rows), encoding="utf-8")
    result = hsfiq(
        "analyze", release, "--metric", "recall@5", "--scores", "mine.csv", "--report", "report"
    )
    assert result.code == 0, result.err
    assert Path("report/report.html").is_file()
