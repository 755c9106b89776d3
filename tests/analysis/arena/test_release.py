"""`hsfiq analyze` of an arena's release: text, JSON and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from hsfiq import cli
from tests.analysis.arena.votes_by_hand import drawn


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena")
    votes = drawn({"weak": -1.0, "middle": 0.0, "strong": 1.0}, 10, n_turns=2)
    votes.to_parquet(folder / "votes.parquet")
    queries = votes[["query_id", "triplet_id"]].drop_duplicates().assign(target_id=None)
    queries.to_parquet(folder / "queries.parquet")
    turns = votes[["question_id", "turn"]].assign(image_ids=[["a"]] * len(votes))
    turns.to_parquet(folder / "turns.parquet")
    manifest = {"version": "1.0.0", "kind": "arena", "study": "arena", "simulated": True}
    (folder / "manifest.json").write_text(json.dumps({"name": "arena-arena", **manifest}))
    return folder


def analyzed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(["analyze", *arguments, "--resamples", "60"]) == 0
    return capsys.readouterr().out


def test_text_names_the_systems_best_first_and_says_simulated(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = analyzed(capsys, str(release))
    assert "SIMULATED: these figures describe a simulation, not people." in text
    assert "60 votes in 30 sessions about 30 queries, 10 participants" in text
    assert text.index("strong") < text.index("middle") < text.index("weak")
    assert "Strengths by the first votes alone" in text
    assert "Effect of the side: log odds of list 1 +" in text
    assert "The correlation of two votes of one session is" in text
    assert "Every two systems have 10 sessions with votes." in text
    assert max(map(len, text.splitlines())) <= 100
    first = analyzed(capsys, str(release), "--first-votes")
    assert "30 votes in 30 sessions" in first
    assert "Only the first vote of each session is used." in first


def test_report_has_the_figures_of_the_json(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    content = json.loads(analyzed(capsys, str(release), "--json", "--report", str(report)))
    assert content["release"]["simulated"] is True
    assert content == json.loads((report / "results.json").read_text())
    assert list(content["systems"]) == ["strong", "middle", "weak"]
    page = (report / "report.html").read_text()
    assert "The votes come from simulated participants." in page
    rows = pd.read_csv(report / "tables/arena.csv", comment="#")
    assert rows["system"].tolist() == ["strong", "middle", "weak"]
    assert rows["strength"].tolist() == pytest.approx(
        [each["strength"]["value"] for each in content["systems"].values()]
    )
    assert (report / "figures/win_matrix.svg").is_file()


@pytest.mark.parametrize(
    "options",
    [["--metric", "recall@5"], ["--equivalence", "0.1"], ["--answer-model"], ["--details"]],
)
def test_options_about_stored_sets_are_refused(
    release: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["analyze", str(release), *options]) == 2
    assert capsys.readouterr().err.startswith(f"hsfiq: {options[0]}: ")


def test_file_in_place_of_the_folder_is_called_a_file(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = release / "votes.parquet"
    assert cli.run(["analyze", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        f"hsfiq: {file}: is a file; name the release's folder"
    )
