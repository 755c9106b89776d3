"""`hsfiq export --split`, also on the published answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from hsfiq.releases.splits import verify_no_leak
from tests.hsfiq.samples import HPFIQ, hsfiq
from tests.studies import own_environment

# -------------------------------------------------------------------------------------- the command


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the test in a folder with a database of the hand-made study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    assert hsfiq("import", "hpfiq", HPFIQ).code == 0


HALVED = ("export", "--release", "hp", "--split", "triplet", "--test-share", "0.5")


@pytest.mark.usefixtures("in_folder")
def test_export_writes_and_reports_the_split() -> None:
    command = hsfiq(*HALVED, "--split-seed", "3", "--json")
    (release,) = command.result["releases"]
    manifest = json.loads(Path(release["folder"], "manifest.json").read_text())
    assert release["split"] == manifest["split"]
    assert (release["split"]["seed"], release["split"]["test_share"]) == (3, 0.5)
    verify_no_leak(Path(release["folder"]))
    repeated = hsfiq(*HALVED, "--split-seed", "3")
    assert "unchanged, nothing written" in repeated.out
    assert "  split by triplet\n    train" in repeated.out


@pytest.mark.usefixtures("in_folder")
def test_another_split_is_changed_content() -> None:
    assert hsfiq("export", "--release", "hp").code == 0
    command = hsfiq(*HALVED)
    assert (command.code, command.out) == (2, "")
    assert "the answers, filters or split have changed since this release" in command.err
    assert hsfiq(*HALVED, "--version", "1.1.0").code == 0
    assert hsfiq(*HALVED).code == 0
    assert hsfiq(*HALVED, "--split-seed", "1").code == 2


@pytest.mark.usefixtures("in_folder")
def test_refusals_are_one_line() -> None:
    for options, code, message in (
        (("--split-seed", "1"), 2, "--split-seed: needs --split; give --split as well"),
        (("--test-share", "0.2"), 2, "--test-share: needs --split; give --split as well"),
        (("--split", "both", "--test-share", "1"), 2, "--test-share: 1.0 is not between"),
        (("--split", "triplet", "--test-share", "nan"), 2, "--test-share: nan is not between"),
        (("--split", "query"), 2, "--split"),
        (("--split", "participant"), 1, "--test-share: 0.2 of 2 participants leaves none to test"),
    ):
        command = hsfiq("export", *options)
        assert (command.code, command.out, command.err.count("\n")) == (code, "", 1)
        assert message in command.err
    assert not Path("releases").exists()


@pytest.mark.usefixtures("in_folder")
def test_every_process_draws_the_same() -> None:
    subprocess.run(
        [sys.executable, "-m", "hsfiq", *HALVED, "--out", "there"],
        env=own_environment(PYTHONHASHSEED="1"),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert hsfiq(*HALVED, "--out", "here").code == 0
    first, second = (
        {path.name: path.read_bytes() for path in Path(place).iterdir()}
        for place in ("there", "here")
    )
    assert "splits.parquet" in first
    assert first == second


# ---------------------------------------------------------------------------- the published answers


@pytest.mark.shared
def test_repeated_published_triplets_stay_in_one_part(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    source = shared / "data" / "hpfiq" / "hpfiq_users_1_40.json"
    assert hsfiq("import", "hpfiq", source).code == 0
    assert hsfiq("export", "--release", "hp", "--split", "triplet", "--out", "mine").code == 0
    parts = verify_no_leak(Path("mine"))
    # By the file's own images and captions, knowing nothing of ids of triplets or queries.
    images, texts = defaultdict(list), defaultdict(set)
    for user, forms in json.loads(source.read_bytes()).items():
        for name, form in forms.items():
            for place, (reference, target, text) in enumerate(
                zip(form["ref_img_paths"], form["targ_img_paths"], form["sentences"], strict=True)
            ):
                part = parts[f"{user}.{name}.{place}"]
                images[reference, target].append(part)
                texts[reference, tuple(sorted(text.lower().split()))].add(part)
    repeated = [parts for parts in images.values() if len(parts) == 2]
    assert (len(images), len(repeated)) == (1710, 290)
    assert all(len(set(parts)) == 1 for parts in images.values())
    assert all(len(parts) == 1 for parts in texts.values())
    assert sum(parts[0] == "test" for parts in images.values()) == 342
