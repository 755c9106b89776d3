"""`hsfiq sessions measure` on files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hsfiq import cli
from hsfiq.sessions import record
from hsfiq.sessions.record import Round, Session, Stop
from tests.in_process import run_command


def played(system: str, ranks: dict[str, list[int]]) -> list[Session]:
    return [
        Session(
            session_id=query, query_id=query, system=system, simulator="drawn-full",
            history="mean", chooser="top1", max_rounds=3, targets=("t",),
            rounds=tuple(
                Round(round=number, reference=f"r{number}", text="is red", rank=rank, ties=0)
                for number, rank in enumerate(own, start=1)
            ),
            stop=Stop(reason="max-rounds", round=len(own)),
        )
        for query, own in ranks.items()
    ]  # fmt: skip


SPRC = played("sprc", {"q1": [9, 3, 1], "q2": [1, 2, 2]})
CLIP = played("clip4cir", {"q1": [9, 9, 9], "q2": [4, 2, 1]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record.write(tmp_path / "sprc.jsonl", SPRC)
    record.write(tmp_path / "clip4cir.jsonl", CLIP)
    return tmp_path


def test_figures_as_json(folder: Path) -> None:
    command = "sessions measure sprc.jsonl clip4cir.jsonl --k 1 --json --resamples 20"
    result = json.loads(run_command(folder, *command.split()))
    sprc = result["systems"]["sprc"]
    assert [each["value"] for each in sprc["hits@1"]] == [0.5, 0.5, 1.0]
    assert [each["value"] for each in sprc["recall@1"]] == [0.5, 0.0, 0.5]
    assert sprc["hits@1"][0].keys() >= {"value", "n", "ci"}
    assert sprc["bri"]["n"] == 2
    assert result["differences"]["clip4cir"]["hits@1"]["value"] == -0.5
    assert result["simulated"] is True


def test_the_preset_prints_its_rounds_and_says_what_differs(folder: Path) -> None:
    command = "sessions measure sprc.jsonl --preset fisd --resamples 20"
    text = run_command(folder, *command.split())
    assert "Round 1" in text
    assert "Round 2" not in text
    assert "hits@50" in text
    assert "not as FISD: 2 sessions with max_rounds 3 (FISD: 5)" in text
    assert "SIMULATED" in text


def test_a_report_has_its_figures_and_tables(folder: Path) -> None:
    command = "sessions measure sprc.jsonl clip4cir.jsonl --k 1 --resamples 20 --report report"
    run_command(folder, *command.split())
    written = {str(p.relative_to(folder / "report")) for p in (folder / "report").rglob("*.*")}
    assert written >= {
        "report.html", "results.json", "figures/hits.png", "figures/ranks.pdf",
        "tables/rounds_1.csv", "tables/differences.csv",
    }  # fmt: skip
    page = (folder / "report" / "report.html").read_text()
    assert "mean_rank_best" in page
    assert "not people" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("absent.jsonl", "absent.jsonl: there is no such file"),
        ("stopped.jsonl --k 1", "censors Hits@1"),
        ("sprc.jsonl sprc.jsonl", "is given twice"),
        ("script.json", "is one JSON list, not one session a line; play a script first"),
        ("sprc.jsonl --force", "add --report"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    arguments: str, message: str,
) -> None:  # fmt: skip
    record.write(folder / "stopped.jsonl", [replace(each, stop_at=10) for each in SPRC])
    (folder / "script.json").write_text("[]")
    monkeypatch.chdir(folder)
    assert cli.run(["sessions", "measure", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
