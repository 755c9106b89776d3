"""`hsfiq train`: its output, and its messages for unusable input."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, urls
from hsfiq.model.runtime import device_of
from tests.model.release_scores.scored_release import assert_refused
from tests.model.scorer.helpers import CommandResult, Drawn, files_below, hsfiq, options

pytestmark = pytest.mark.usefixtures("one_thread")

N_TRAIN, N_VAL = 12, 6


@pytest.fixture
def fashioniq(tmp_path: Path) -> Path:
    """A FashionIQ folder of one category, with pictures of noise."""
    folder = tmp_path / "fashioniq"
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for split, n in (("train", N_TRAIN), ("val", N_VAL)):
        names = [f"{split}{i}" for i in range(n + 1)]
        for name in names:
            noise = rng.integers(0, 256, (70, 64, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / "images" / f"{name}.jpg")
        entries = [
            {"candidate": reference, "target": target, "captions": ["is red", "is É"]}
            for reference, target in pairwise(names)
        ]
        write(folder / "captions" / f"cap.dress.{split}.json", entries)
        write(folder / "image_splits" / f"split.dress.{split}.json", names)
    return folder


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


TINY = tuple(
    word
    for value in ("encoder=tiny", "size=96", "epochs=2", "n_def=2", "batch=4", "val_recall=1")
    for word in ("--set", value)
)


def train_on(folder: Path, *options: str | Path, recipe: str = "qure-fashioniq") -> CommandResult:
    out, cache = folder.parent / "out", folder.parent / "cache"
    return hsfiq("train", recipe, "--data", folder, "--out", out, "--cache", cache, *options)


def test_the_result_as_json(drawn: Drawn, tmp_path: Path) -> None:
    command = hsfiq(*options(drawn, tmp_path / "run", "--json"))
    assert command.code == 0
    result = command.result
    assert result["checkpoint"] == str(tmp_path / "run" / "best.json")
    assert (result["recipe"], result["data"]) == ("cirqrs-fashioniq", "drawn")
    assert (result["n_train"], result["n_val"]) == (60, 36)
    last = json.loads((tmp_path / "run" / "last.json").read_text())["progress"]
    best = max(last["epochs"], key=lambda epoch: epoch["val"]["mean"])
    assert all(result[key] == best[key] for key in ("epoch", "loss", "accuracy", "val"))
    lines = command.err.splitlines()
    assert lines[0].startswith("on the drawn catalogue, in place of the published values: ")
    assert "encoder=tiny " in lines[0]
    assert sum(line.startswith("epoch ") for line in lines) == 4 + 2  # and two definitions
    assert not any("\x1b" in line for line in lines)
    text = hsfiq(*options(drawn, tmp_path / "run"))
    assert text.out.splitlines()[0].startswith(f"best epoch {best['epoch']}: loss ")
    assert f"{result['checkpoint']}, sha256 {result['sha256'][:12]}" in text.out
    assert text.out.endswith(f"--checkpoint {result['checkpoint']}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cirqs-fashioniq", "--data", "drawn"), "'cirqs-fashioniq': there is no such recipe"),
        (("qure-cirr", "--data", "drawn", "--set", "epochs"), "--set: 'epochs' is not KEY=VALUE"),
        (("qure-cirr", "--data", "drawn", "--set", "lr=1e9"), "lr is 1000000000.0, not from"),
        (
            ("qure-cirr", "--data", "drawn", "--cache", "c", "--no-cache"),
            "cannot be used with --no-",
        ),
        (("qure-cirr", "--data", "drawn", "--limit", "3"), "Invalid value for '--limit'"),
        (("qure-cirr", "--data", "absent"), "absent: there is no such folder"),
        (("qure-cirr",), "--data: qure-cirr needs it"),
        (
            ("qure-cirr", "--data", "drawn", "--device", "abacus"),
            "--device abacus: this machine has",
        ),
        (("qure-cirr", "--data", "drawn", "--device", "cuda:77"), "--device cuda:77: this machine"),
    ],
)
def test_unusable_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(hsfiq("train", *words, "--out", "run"), message)
    assert list(tmp_path.iterdir()) == []


def test_each_process_has_a_gpu_of_its_own() -> None:
    """No machine has a 78th GPU."""
    with pytest.raises(UnreadableInput, match="--device cuda:77: this machine has no such device"):
        device_of("cuda", 77)
    assert device_of("cpu", 77).type == "cpu"


def test_commands_without_training_do_not_import_torch(tmp_path: Path) -> None:
    tries = [
        ["train", "--help"],
        ["train", "cirqs", "--data", "drawn", "--out", "run"],
        ["train", "qure-cirr", "--data", "drawn", "--out", "run", "--set", "lr=x"],
        ["train", "qure-cirr", "--data", "absent", "--out", "run"],
    ]
    code = f"""
import sys
from hsfiq import cli
print([cli.run(words) for words in {tries}], "torch" in sys.modules, file=sys.stderr)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert process.stderr.splitlines()[-1] == "[0, 2, 2, 2] False"


def test_a_folder_that_is_not_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for recipe in ("qure-fashioniq", "qure-cirr"):
        assert_refused(train_on(tmp_path / "data", recipe=recipe), f"{tmp_path / 'data'}")
    assert not (tmp_path / "out").exists()


def spoil(fashioniq: Path, names: tuple[str, ...]) -> None:
    """Empty the first image file, truncate the others."""
    for i, name in enumerate(names):
        path = fashioniq / "images" / f"{name}.jpg"
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if i else b"")


def test_unreadable_images_are_named_and_left_out(fashioniq: Path) -> None:
    spoil(fashioniq, ("train3", "train4", "val0"))
    command = train_on(fashioniq, *TINY, "--json")
    assert command.code == 0
    images = fashioniq / "images"
    lines = command.err.splitlines()
    assert f"{images / 'train3.jpg'}: has zero bytes; replace it with a complete image" in lines
    assert any(line.startswith(f"{images / 'train4.jpg'}: cannot be decoded") for line in lines)
    assert any(line.startswith(f"{images / 'val0.jpg'}: cannot be decoded") for line in lines)
    assert "3 of 20 images are missing; 4 of 18 triplets are skipped" in command.err
    assert (command.result["n_train"], command.result["n_val"]) == (N_TRAIN - 3, N_VAL - 1)
    named = (fashioniq.parent / "out" / "missing_images.txt").read_text().splitlines()
    assert named == [
        "# images without a file: 3",
        *("train3", "train4", "val0"),
        "# triplets skipped for them: 4",
        *("dress.train.2", "dress.train.3", "dress.train.4", "dress.val.0"),
    ]
    repeated = train_on(fashioniq, *TINY, "--json")
    assert (repeated.code, repeated.out) == (0, command.out)


def test_many_unreadable_images_are_not_all_named(fashioniq: Path) -> None:
    spoil(fashioniq, tuple(f"train{i}" for i in range(8)))
    lines = train_on(fashioniq, *TINY).err.splitlines()
    assert sum(line.endswith("replace it with a complete image") for line in lines) == 5
    assert "and 3 more unreadable images" in lines


def test_without_the_cache_an_unreadable_image_stops_the_run(fashioniq: Path) -> None:
    spoil(fashioniq, ("train3",))
    words = (*TINY, "--no-cache")
    out = fashioniq.parent / "out"
    command = hsfiq("train", "qure-fashioniq", "--data", fashioniq, "--out", out, *words)
    assert command.code == 2
    path = fashioniq / "images" / "train3.jpg"
    assert command.last_line == f"hsfiq: {path}: has zero bytes; replace it with a complete image"


def test_only_unreadable_images(fashioniq: Path) -> None:
    for path in (fashioniq / "images").iterdir():
        path.write_bytes(b"rubbish")
    assert_refused(train_on(fashioniq, *TINY), "no triplet of split 'train' has both of its images")
    assert not (fashioniq.parent / "out").exists()


def test_a_broken_checkpoint_is_not_resumed(drawn: Drawn, tmp_path: Path) -> None:
    short = options(drawn, tmp_path / "run", "--set", "epochs=2")
    assert hsfiq(*short).code == 0
    state = next((tmp_path / "run").glob("last-state-*"))
    state.write_bytes(state.read_bytes()[:-1])
    before = files_below(tmp_path / "run")
    command = hsfiq(*short)
    assert command.code == 2
    assert command.last_line.startswith(f"hsfiq: {state}: is not the file that last.json names")
    assert files_below(tmp_path / "run") == before


def test_a_file_instead_of_the_folder(drawn: Drawn, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    for out in (tmp_path / "run", tmp_path / "run" / "below"):
        command = hsfiq(*options(drawn, out))
        assert (command.code, command.out) == (2, "")
        assert command.last_line.startswith(f"hsfiq: {out}")
    assert (tmp_path / "run").read_text() == "mine"
    # The catalogue's pictures go there too, where no other folder is named.
    command = hsfiq("train", "qure-cirr", "--data", "drawn", "--limit", "20", "--out", out)
    assert command.last_line.startswith(f"hsfiq: {out / 'catalogue'}: cannot be written (Not a di")


def test_blip2_without_its_files(fashioniq: Path, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    command = train_on(fashioniq, "--weights", tmp_path / "weights")
    assert_refused(command, str(tmp_path / "weights"))
    for url in urls(ARCHITECTURES["blip2-vitL"]).values():
        assert url in command.err
    assert not (tmp_path / "out").exists()
