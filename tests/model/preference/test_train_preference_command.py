"""`hsfiq train preference`: the loop through the command line, and its errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.model.preference.helpers import Answered
from tests.model.release_scores.scored_release import assert_refused
from tests.model.scorer.helpers import CommandResult, files_below, hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]


def train(answered: Answered, out: Path, *options: str | Path) -> CommandResult:
    return hsfiq(
        "train", "preference", "--release", answered.release, "--checkpoint", answered.init,
        "--out", out, "--cache", answered.cache, "--images", answered.pictures,
        "--set", "epochs=1", "--set", "folds=0", *options,
    )  # fmt: skip


def test_retraining_through_the_command_line(answered: Answered, tmp_path: Path) -> None:
    """Train on the answers, score their release with the retrained scorer, and analyze it."""
    command = train(answered, tmp_path / "out", "--json")
    assert command.code == 0
    result = command.result
    assert result["checkpoint"] == str(tmp_path / "out" / "last.json")
    assert result["recipe"] == "preference"
    assert result["held_out"]["figures"]
    text = train(answered, tmp_path / "out")
    assert text.out.splitlines()[0].startswith("The answers come from simulated annotators")
    assert f"--checkpoint {result['checkpoint']} --name preference" in text.out.splitlines()[-1]
    release = shutil.copytree(answered.release, tmp_path / "hp")
    scored = hsfiq(
        "score", release, "--checkpoint", tmp_path / "out", "--name", "preference",
        "--images", answered.pictures, "--cache", answered.cache, "--json",
    )  # fmt: skip
    assert scored.result["n_scored"] == 300
    assert scored.result["checkpoint_sha256"] == result["sha256"]
    analyzed = hsfiq("analyze", release, "--metric", "preference", "--json")
    assert analyzed.code == 0
    assert analyzed.result["metrics"]["preference"]["spearman"]["n"] == 300


@pytest.fixture(scope="module")
def retrained(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a retrained scorer `out`, and the release `hp` with its scores."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("retrained")
    shutil.copytree(answered.release, folder / "hp")
    assert train(answered, folder / "out").code == 0
    assert score(answered, folder).code == 0
    return folder


def score(
    answered: Answered, folder: Path, scorer: Path | None = None, *options: str
) -> CommandResult:
    return hsfiq(
        "score", folder / "hp", "--checkpoint", scorer or folder / "out", "--name", "after",
        "--images", answered.pictures, "--cache", answered.cache, "--json", *options,
    )  # fmt: skip


def analyze(folder: Path, *options: str) -> dict[str, Any]:
    command = hsfiq(
        "analyze", folder / "hp", "--metric", "after", "--resamples", "20", "--json", *options
    )
    assert command.code == 0
    result: dict[str, Any] = command.result
    return result


def test_only_the_held_out_part_is_analyzed(retrained: Path) -> None:
    """The figure equals that of the retraining's report on the held-out part."""
    analysis = analyze(retrained, "--part", "test")
    split = json.loads((retrained / "hp" / "manifest.json").read_bytes())["split"]
    assert analysis["release"]["n_questions"] == split["n"]["test"]
    report = json.loads((retrained / "out" / "report.json").read_bytes())
    (figure,) = (
        figure for figure in report["held_out"]["figures"] if figure["name"] == "spearman.rho"
    )
    ours = analysis["metrics"]["after"]["spearman"]["rho"]
    assert ours == pytest.approx(figure["after"]["value"], abs=1e-9)
    assert ours != analyze(retrained)["metrics"]["after"]["spearman"]["rho"]


def test_analysis_notes_training_on_the_same_answers(answered: Answered, retrained: Path) -> None:
    (note,) = analyze(retrained)["notes"]
    assert note.startswith('metric "after" comes from a scorer that was retrained')
    assert analyze(retrained, "--part", "test")["notes"] == []
    assert score(answered, retrained, answered.init, "--name", "before").code == 0
    assert analyze(retrained, "--metric", "before")["notes"] == [note]


def test_scores_without_trained_on_are_completed(answered: Answered, retrained: Path) -> None:
    path = retrained / "hp.scores" / "after.json"
    content = json.loads(path.read_bytes())
    manifest = json.loads((retrained / "hp" / "manifest.json").read_bytes())
    source = {key: manifest[key] for key in ("name", "version", "content_sha256")}
    assert content["trained_on"] == [source]
    files = files_below(retrained / "hp.scores")
    path.write_text(
        json.dumps({key: value for key, value in content.items() if key != "trained_on"})
    )
    assert analyze(retrained)["notes"] == []
    assert score(answered, retrained).code == 0
    assert files_below(retrained / "hp.scores") == files
    assert_refused(score(answered, retrained, answered.init), "holds the scores of another scorer")


def test_next_command_analyzes_only_the_held_out_part(
    answered: Answered, retrained: Path, tmp_path: Path
) -> None:
    """`--part test` is suggested for a scorer trained on this release with a test part."""

    def follows(folder: Path, scorer: Path, *options: str | Path) -> str:
        command = hsfiq(
            "score", folder / "hp", "--checkpoint", scorer, "--name", "next",
            "--images", answered.pictures, "--cache", answered.cache, *options,
        )  # fmt: skip
        assert command.code == 0
        last = command.out.splitlines()[-1]
        plain = f"next: hsfiq analyze {folder / 'hp'} --metric recall@5 --metric next"
        assert last.startswith(plain)
        return last.removeprefix(plain)

    shutil.copytree(retrained / "hp", tmp_path / "hp")
    assert follows(tmp_path, answered.init) == ""
    for _ in range(2):  # scored, and found scored
        assert follows(tmp_path, retrained / "out", "--force") == " --part test"
    split = (tmp_path / "hp" / "splits.parquet").rename(tmp_path / "splits.parquet")
    assert follows(tmp_path, retrained / "out") == ""
    split.rename(tmp_path / "hp" / "splits.parquet")
    path = tmp_path / "hp" / "manifest.json"
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({**manifest, "content_sha256": "of other answers"}))
    assert follows(tmp_path, retrained / "out") == ""


def test_recall_on_the_catalogue(answered: Answered, tmp_path: Path) -> None:
    words = ("--data", "drawn", "--limit", "60", "--set", "mix=0.5", "--json")
    command = train(answered, tmp_path / "out", *words)
    assert command.code == 0
    assert command.result["retrieval"]["figures"]
    assert command.result["epochs"][0]["triplet"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "epoch=3"), "has no setting 'epoch' that can be changed; did you mean"),
        (("--set", "lr=1e9"), "recipe preference: lr is 1000000000.0, not from"),
        (("--set", "reliability=some"), "'some' is not one of off, on"),
        (("--set", "epochs"), "--set: 'epochs' is not KEY=VALUE"),
        (("--set", "mix=1"), "mix: needs triplets to mix in; give --data"),
        (("--data", "nowhere"), "nowhere: there is no such folder"),
        (("--no-cache",), "--no-cache"),
        (("--checkpoint", "nowhere"), "nowhere: there is no such checkpoint"),
        (("--release", "nowhere"), "nowhere: there is no such folder"),
        (("--device", "abacus"), "--device abacus: this machine has no such device"),
    ],
)
def test_invalid_options(
    answered: Answered, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert_refused(train(answered, tmp_path / "out", *words), message)
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("preference",), "preference: needs --release"),
        (("preference", "--release", "."), "preference: needs --checkpoint"),
        (("qure-cirr",), "--data: qure-cirr needs it"),
        (("qure-cirr", "--data", "drawn", "--release", "."), "--release: cannot be used with"),
    ],
)
def test_options_that_belong_to_a_recipe(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert_refused(hsfiq("train", *words, "--out", tmp_path / "out"), message)


def test_incomplete_releases_are_refused(answered: Answered, tmp_path: Path) -> None:
    release = shutil.copytree(answered.release, tmp_path / "hp")
    manifest = json.loads((release / "manifest.json").read_text())
    (release / "manifest.json").write_text("{}")
    command = train(answered, tmp_path / "out", "--release", release)
    assert_refused(command, 'manifest.json: key "name" is missing or not of type str')
    (release / "manifest.json").write_text(json.dumps(manifest))
    (release / "splits.parquet").unlink()
    command = train(answered, tmp_path / "out", "--release", release)
    assert_refused(command, "splits.parquet: there is no such file")
    (release / "preferences.parquet").unlink()
    command = train(answered, tmp_path / "out", "--release", release)
    assert command.code == 2
    assert not (tmp_path / "out").exists()


def test_a_report_nested_too_deeply(answered: Answered, retrained: Path, tmp_path: Path) -> None:
    out = shutil.copytree(retrained / "out", tmp_path / "out")
    (out / "report.json").write_text("[" * 100_000)
    command = train(answered, out, "--release", retrained / "hp")
    assert_refused(command, f"{out / 'report.json'}: cannot be read; name another --out")
