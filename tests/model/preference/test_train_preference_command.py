"""`hsfiq train preference`: the loop through the command line, and its errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.active import prior_of
from hsfiq.model.scorer.loading import load_scorer
from tests.model.preference.helpers import Answered
from tests.model.scorer.helpers import CPU, CommandResult, files_below, hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]


def train(answered: Answered, out: Path, *options: str | Path) -> CommandResult:
    return hsfiq(
        "train", "preference", "--release", answered.release, "--init", answered.init,
        "--out", out, "--cache", answered.cache, "--images", answered.pictures,
        "--set", "epochs=1", "--set", "folds=0", *options,
    )  # fmt: skip


def assert_refused(command: CommandResult, message: str, code: int = 2) -> None:
    """Check for one error line, this exit code, and an empty stdout."""
    assert (command.code, command.out) == (code, "")
    assert len(command.err.splitlines()) == 1
    assert command.err.startswith("hsfiq: ")
    assert message in command.err


def test_retraining_through_the_command_line(answered: Answered, tmp_path: Path) -> None:
    """Train on the answers, score their release with the retrained scorer, and analyse it."""
    command = train(answered, tmp_path / "out", "--json")
    assert command.code == 0
    result = command.result
    assert result["checkpoint"] == str(tmp_path / "out" / "last.json")
    assert result["recipe"] == "preference"
    assert result["held_out"]["figures"]
    text = train(answered, tmp_path / "out")
    assert text.out.splitlines()[0].startswith("The answers come from simulated annotators")
    assert text.out.splitlines()[-1] == (
        f"next: hsfiq score RELEASE --scorer {result['checkpoint']} --name preference"
    )
    release = shutil.copytree(answered.release, tmp_path / "hp")
    scored = hsfiq(
        "score", release, "--scorer", tmp_path / "out", "--name", "preference",
        "--images", answered.pictures, "--cache", answered.cache, "--json",
    )  # fmt: skip
    assert scored.result["n_scored"] == 300
    assert scored.result["checkpoint_sha256"] == result["sha256"]
    analysed = hsfiq("analyze", release, "--metric", "preference", "--json")
    assert analysed.code == 0
    assert analysed.result["metrics"]["preference"]["spearman"]["n"] == 300


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
        "score", folder / "hp", "--scorer", scorer or folder / "out", "--name", "after",
        "--images", answered.pictures, "--cache", answered.cache, "--json", *options,
    )  # fmt: skip


def analyze(folder: Path, *options: str) -> dict[str, Any]:
    command = hsfiq(
        "analyze", folder / "hp", "--metric", "after", "--resamples", "20", "--json", *options
    )
    assert command.code == 0
    result: dict[str, Any] = command.result
    return result


def test_only_the_held_out_part_is_analysed(retrained: Path) -> None:
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


def test_analysis_notes_that_the_scorer_was_trained_on_the_answers(
    answered: Answered, retrained: Path
) -> None:
    (note,) = analyze(retrained)["notes"]
    assert note.startswith('metric "after" comes from a scorer that was retrained on answers of th')
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


def test_next_command_analyses_only_the_held_out_part(
    answered: Answered, retrained: Path, tmp_path: Path
) -> None:
    """`--part test` is suggested for a scorer trained on this release with a test part."""

    def follows(folder: Path, scorer: Path, *options: str | Path) -> str:
        command = hsfiq(
            "score", folder / "hp", "--scorer", scorer, "--name", "next",
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


def test_a_scorer_retrained_twice(answered: Answered, retrained: Path, tmp_path: Path) -> None:
    """The second retraining and the analysis keep its first release."""
    first = shutil.copytree(retrained / "hp", tmp_path / "hp")
    second = shutil.copytree(retrained / "hp", tmp_path / "later")
    path = second / "manifest.json"
    manifest = json.loads(path.read_bytes())
    later = {**manifest, "name": "later-hp", "content_sha256": "of other answers"}
    path.write_text(json.dumps(later))
    words = ("--release", second, "--init", retrained / "out")
    for _ in range(2):  # trained, and found trained
        text = train(answered, tmp_path / "out", *words)
        assert text.code == 0
        assert text.out.splitlines()[1].startswith("Figures on the held-out part may be too good")
    assert train(answered, tmp_path / "out", *words, "--json").result["notes"] == [
        text.out.splitlines()[1]
    ]
    assert score(answered, tmp_path).code == 0
    content = json.loads((tmp_path / "hp.scores" / "after.json").read_bytes())
    names = ("name", "version", "content_sha256")
    assert content["trained_on"] == [
        {key: source[key] for key in names} for source in (manifest, later)
    ]
    own_note, other_note = analyze(tmp_path)["notes"]
    assert own_note.endswith("use --part test")
    assert "later-hp 1.0.0, which is not what is analysed" in other_note
    assert files_below(first) == files_below(retrained / "hp")


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
        (("--init", "nowhere"), "nowhere: there is no such checkpoint"),
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
        (("preference", "--release", "."), "preference: needs --init"),
        (("qure-cirr",), "--data: qure-cirr needs it"),
        (
            ("qure-cirr", "--data", "drawn", "--release", "."),
            "--release: cannot be used with qure-c",
        ),
    ],
)
def test_options_that_belong_to_a_recipe(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert_refused(hsfiq("train", *words, "--out", tmp_path / "out"), message)


def test_another_runs_folder(answered: Answered, tmp_path: Path) -> None:
    run = shutil.copytree(answered.init, tmp_path / "run")
    before = files_below(run)
    assert_refused(train(answered, run), "holds a run with other")
    assert files_below(run) == before


def test_incomplete_releases_are_refused(answered: Answered, tmp_path: Path) -> None:
    release = shutil.copytree(answered.release, tmp_path / "hp")
    manifest = json.loads((release / "manifest.json").read_text())
    (release / "manifest.json").write_text("{}")
    command = train(answered, tmp_path / "out", "--release", release)
    assert_refused(command, 'manifest.json: key "name" is missing or no str')
    (release / "manifest.json").write_text(json.dumps(manifest))
    (release / "splits.parquet").unlink()
    command = train(answered, tmp_path / "out", "--release", release)
    assert_refused(command, "splits.parquet: there is no such file")
    (release / "preferences.parquet").unlink()
    command = train(answered, tmp_path / "out", "--release", release)
    assert command.code == 2
    assert not (tmp_path / "out").exists()


NESTED = "[" * 100_000


def test_a_report_nested_too_deeply(answered: Answered, retrained: Path, tmp_path: Path) -> None:
    out = shutil.copytree(retrained / "out", tmp_path / "out")
    (out / "report.json").write_text(NESTED)
    command = train(answered, out, "--release", retrained / "hp")
    assert_refused(command, f"{out / 'report.json'}: cannot be read; name another --out")


def test_answer_model_nested_too_deeply(retrained: Path, tmp_path: Path) -> None:
    out = shutil.copytree(retrained / "out", tmp_path / "out")
    (out / "answer_model.json").write_text(NESTED)
    with pytest.raises(UnreadableInput, match="is not the answer model of a retraining"):
        prior_of(load_scorer(out, None, CPU))
