"""A checkpoint records every release that it was trained on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import trained_on
from tests.model.preference.helpers import QUICK, Answered, report_of
from tests.model.scorer.helpers import Drawn, files_below, hsfiq, options

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]


BRIEF = replace(QUICK, epochs=1)


@pytest.fixture(scope="module")
def later(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the same answers with another name and content digest."""
    folder = shutil.copytree(answered.release, tmp_path_factory.mktemp("released") / "later")
    rename(folder, "later-hp", "other content")
    return folder


@pytest.fixture(scope="module")
def retrained_twice(answered: Answered, out: Path, later: Path) -> Path:
    """The folder of a second retraining, on the later release."""
    folder = out.with_name("twice")
    replace(answered, init=out).retrain(folder, BRIEF, release=later)
    return folder


def rename(release: Path, name: str, content_sha256: str) -> None:
    path = release / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "name": name, "content_sha256": content_sha256}))


def source(release: Path) -> dict[str, str]:
    """What a checkpoint records about a release."""
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return {key: manifest[key] for key in ("name", "version", "content_sha256")}


def drop_earlier_releases(out: Path) -> None:
    """Change the folder to that of a version that did not record earlier releases."""
    for path, key in ((out / "last.json", "earlier_releases"), (out / "report.json", "notes")):
        content = json.loads(path.read_text(encoding="utf-8"))
        del content[key]
        path.write_text(json.dumps(content), encoding="utf-8")


def test_checkpoint_records_every_release_it_was_trained_on(
    answered: Answered, out: Path, later: Path, retrained_twice: Path, tmp_path: Path
) -> None:
    """Retrained on one release, another, the first again, and the other again."""
    first, second = source(answered.release), source(later)
    checkpoint = checkpoints.read(retrained_twice)
    assert checkpoint.about["earlier_releases"] == [first]
    assert checkpoint.about["release"]["name"] == "later-hp"
    assert trained_on(checkpoint) == [first, second]
    chain = [retrained_twice, tmp_path / "thrice", tmp_path / "again"]
    for init, end, release in zip(chain, chain[1:], (answered.release, later), strict=False):
        replace(answered, init=init).retrain(end, BRIEF, release=release)
        assert checkpoints.read(end).about["earlier_releases"] == [first, second]
        assert trained_on(checkpoints.read(end)) == [first, second]
    for single in (answered.init, out):
        assert checkpoints.read(single).about.get("earlier_releases", []) == []
    assert trained_on(checkpoints.read(answered.init)) == []
    (note,) = report_of(tmp_path / "thrice")["notes"]
    assert note.endswith("earlier release: later-hp 1.0.0 (content sha256 other conten).")


def test_training_on_triplets_again_keeps_the_recorded_releases(
    answered: Answered, drawn: Drawn, out: Path, tmp_path: Path
) -> None:
    brief = ("--set", "epochs=1", "--set", "n_def=1")
    for name, init, releases in (
        ("retrained", out, [source(answered.release)]),
        ("plain", answered.init, []),
    ):
        assert hsfiq(*options(drawn, tmp_path / name, *brief, "--checkpoint", str(init))).code == 0
        assert trained_on(checkpoints.read(tmp_path / name)) == releases


def test_reports_note_earlier_releases(
    answered: Answered, out: Path, retrained_twice: Path
) -> None:
    first = source(answered.release)
    (note,) = report_of(retrained_twice)["notes"]
    assert "Figures on the held-out part may be too good" in note
    assert f"drawn-hp 1.0.0 (content sha256 {first['content_sha256'][:12]})" in note
    assert (retrained_twice / "README.md").read_text().count(f"\n\n{note}\n\n| figure") == 1
    assert report_of(out)["notes"] == []
    assert "earlier release" not in (out / "README.md").read_text()


def test_same_answers_again_give_no_note(answered: Answered, out: Path, tmp_path: Path) -> None:
    repeated = replace(answered, init=out).retrain(tmp_path / "again", BRIEF)
    assert repeated.about["earlier_releases"] == trained_on(repeated) == [source(answered.release)]
    assert report_of(tmp_path / "again")["notes"] == []


def test_checkpoints_without_recorded_releases(
    answered: Answered, out: Path, later: Path, retrained_twice: Path, tmp_path: Path
) -> None:
    """Accepted if there was nothing to record, else refused."""
    old, old_twice = (
        shutil.copytree(path, tmp_path / path.name) for path in (out, retrained_twice)
    )
    drop_earlier_releases(old)
    drop_earlier_releases(old_twice)
    before = files_below(tmp_path)
    assert answered.retrain(old).sha256 == checkpoints.read(out).sha256
    with pytest.raises(UnreadableInput, match="holds a run with other earlier_releases; name"):
        replace(answered, init=out).retrain(old_twice, BRIEF, release=later)
    assert files_below(tmp_path) == before


def test_invalid_earlier_releases_are_ignored(out: Path) -> None:
    """Only entries that describe a release count."""
    checkpoint = checkpoints.read(out)
    for invalid in (None, 3, "drawn-hp", {"name": "drawn-hp"}, ["drawn-hp", None]):
        about = {**checkpoint.about, "earlier_releases": invalid}
        assert trained_on(replace(checkpoint, about=about)) == trained_on(checkpoint)
