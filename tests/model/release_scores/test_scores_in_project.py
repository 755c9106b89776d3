"""`hsfiq analyze --metric cirqrs` in a project folder, with no scores yet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hsfiq.releases.folder import manifest_of
from tests.hsfiq.own_data import write_own_data
from tests.model.release_scores.scored_release import Loop, about, assert_refused
from tests.model.scorer.helpers import hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]

FOLDER = Path("rehearsal/releases/mine-rehearsal-hp-1.0.0")


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a rehearsed study of eight participants."""
    folder = tmp_path_factory.mktemp("data")
    write_own_data(folder)
    runs = ("--run", f"a={folder / 'mine.jsonl'}", "--run", f"b={folder / 'clip.json'}")
    tables = ("--images", folder / "photos", "--queries", folder / "queries.csv")
    made = hsfiq("init", folder / "mine", *tables, *runs, "--participants", "8", "--yes")
    assert made.code == 0, made.err
    assert hsfiq("rehearse", folder / "mine").code == 0
    return folder / "mine"


@pytest.fixture
def project(rehearsed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(rehearsed, tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    return tmp_path / "mine"


def test_the_projects_one_checkpoint_scores_what_has_no_scores(project: Path, loop: Loop) -> None:
    analyze = ("analyze", FOLDER, "--metric", "cirqrs", "--json")
    assert_refused(hsfiq(*analyze), "has no checkpoint of a scorer")
    shutil.copytree(loop.run, project / "runs" / "first")
    (project / "runs" / "best.json").write_text("[]")  # of another program
    scored = hsfiq(*analyze)
    assert scored.code == 0, scored.err
    assert "runs/first as cirqrs" in scored.err
    result = json.loads(scored.out)
    assert list(result["metrics"]) == ["cirqrs"]
    assert about(FOLDER.with_name(f"{FOLDER.name}.scores"))["n_scored"] > 0
    shutil.copytree(loop.other, project / "runs" / "second")
    again = hsfiq(*analyze)  # the stored scores need no checkpoint
    assert (again.out, again.err) == (scored.out, "")
    assert_refused(hsfiq("analyze", FOLDER, "--metric", "qure"), "runs/first")
    assert_refused(hsfiq("analyze", FOLDER, "--metric", "another"), "another")


def write_trained_scores(release: Path, version: str = "1.0.0", digest: str = "") -> None:
    """Scores of a scorer that was trained on this release."""
    sets = pd.read_parquet(release / "sets.parquet")["set_id"]
    folder = release.with_name(f"{release.name}.scores")
    folder.mkdir()
    scores = pd.DataFrame({"set_id": sets, "score": [float(n % 7) for n in range(len(sets))]})
    scores.to_parquet(folder / "cirqrs.parquet")
    manifest = manifest_of(release, {})
    digest = digest or manifest["content_sha256"]
    source = {"name": manifest["name"], "version": version, "content_sha256": digest}
    (folder / "cirqrs.json").write_text(json.dumps({"trained_on": [source]}))


def test_only_answers_that_the_scorer_was_not_trained_on_count(project: Path) -> None:
    analyze = ("analyze", "--metric", "cirqrs")
    database = f"sqlite:///{project / 'rehearsal' / 'hsfiq.db'}"
    split = hsfiq("--database", database, "export", "--split", "triplet", "--release", "hp")
    assert split.code == 0, split.err
    (release,) = (project / "releases").iterdir()
    write_trained_scores(release)
    counted = hsfiq(*analyze, "--json")
    assert counted.code == 0, counted.err
    assert "only its test part is analyzed" in counted.err
    parts = pd.read_parquet(release / "splits.parquet")["part"]
    assert json.loads(counted.out)["release"]["n_questions"] == (parts == "test").sum() > 0
    assert_refused(hsfiq(*analyze, release, "--part", "train"), "--part test")


def test_a_release_without_a_held_out_part_says_nothing_about_its_scorer(project: Path) -> None:
    write_trained_scores(FOLDER)
    assert_refused(hsfiq("analyze", FOLDER, "--metric", "cirqrs"), "has no held-out part")


def test_another_version_of_the_release_may_hold_the_same_answers(project: Path) -> None:
    write_trained_scores(FOLDER, "0.9.0", "0" * 64)
    assert_refused(hsfiq("analyze", FOLDER, "--metric", "cirqrs"), "mine-rehearsal-hp 0.9.0")


def test_the_scores_of_a_study_are_by_those_who_prefer(project: Path) -> None:
    """The scorer was trained on the hp release, and the hs release is of the same people."""
    scores = FOLDER.with_name(FOLDER.name.replace("-hp-", "-hs-"))
    write_trained_scores(FOLDER)
    FOLDER.with_name(f"{FOLDER.name}.scores").rename(f"{scores}.scores")
    assert_refused(hsfiq("analyze", scores, "--metric", "cirqrs"), "mine-rehearsal-hp 1.0.0")
