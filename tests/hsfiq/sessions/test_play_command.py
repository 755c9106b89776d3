"""`hsfiq sessions play` with the example of a live retriever over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsfiq import cli
from hsfiq.sessions import record
from tests.in_process import run_command
from tests.live_servers import example_app, serving

SCRIPT = [
    {
        "session_id": "six_0000",
        "subset": "six",
        "ground_truth_ids": ["d3"],
        "num_turns": 2,
        "turns": [
            {"turn": 1, "reference_image_id": "d1", "relative_caption": "white"},
            {"turn": 2, "reference_image_id": "d2", "relative_caption": "blue long"},
        ],
    }
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(example_app()) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return tmp_path


def test_a_script_is_played_over_http_and_replayed(folder: Path, url: str) -> None:
    options = ("sessions", "play", "--system", url, "--simulator", "scripted")
    text = run_command(folder, *options, "--script", "script.json", "--out", "a.jsonl", "--k", "3")
    assert "1 session of words, 2 rounds; ends: no-feedback 1" in text
    (session,) = record.read(folder / "a.jsonl")
    assert [each.reference for each in session.rounds] == ["d1", "d2"]
    assert len(session.rounds[0].shown) == 3
    # d1 shares 4 + 4 words with the turns, d2 3 + 4, and so does d3, which comes after it.
    assert (session.final_rank, session.rounds[1].ties) == (3, 1)
    assert session.category == "six"
    result = json.loads(
        run_command(folder, *options, "--script", "a.jsonl", "--out", "b.jsonl", "--json")
    )
    assert result["stops"] == {"no-feedback": 1}
    (again,) = record.read(folder / "b.jsonl")
    assert [each.rank for each in again.rounds] == [each.rank for each in session.rounds]
    assert "hits@1" in run_command(folder, "sessions", "measure", "a.jsonl", "--resamples", "20")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--simulator scripted", "scripted needs --script FILE"),
        ("--simulator same-text --script script.json", "same-text takes no --script"),
        ("--simulator same-text", "--data: is missing"),
        ("--simulator same-text --data .", "--dataset: is missing"),
        ("--simulator scripted --script script.json --history rocchio", "does not support rocchio"),
        ("--simulator scripted --script other.json", "not one of the 6 images"),
        ("--simulator scripted --script script.json --out script.json", "exists already"),
        ("--simulator scripted --script script.json --out no/out.jsonl", "no such folder"),
    ],
)
def test_what_cannot_be_played_is_one_line(
    folder: Path, url: str, options: str, message: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (folder / "other.json").write_text(json.dumps(SCRIPT).replace('"d3"', '"d9"'))
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    arguments = ["sessions", "play", "--out", "o.jsonl", "--system", url, *options.split()]
    assert cli.run(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_a_system_that_is_down_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = "sessions play --system http://127.0.0.1:9 --simulator scripted --script script.json"
    assert cli.run([*command.split(), "--out", "o.jsonl"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
