"""Names, releases, scorers and options that `hsfiq score` refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from hsfiq.model import checkpoints
from tests.model.release_scores.scored_release import Loop, assert_refused, score, set_scores
from tests.model.scorer.helpers import files_below

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, f"--name: {name!r} is not a file name") for name in ("", " ", "a/b", "..", ".x")),
        ("x.images", "--name: 'x.images' is not a file name"),
        *((name, f"{name} is computed from the sets") for name in ("recall@5", "Recall@5")),
        ("n" * 300, "File name too long"),
    ],
)
def test_invalid_metric_names(loop: Loop, release: Path, name: str, message: str) -> None:
    assert_refused(score(loop, release, "--name", name, "--images", loop.pictures), message)
    assert files_below(release.with_name("hp.scores")) == {}


def truncated(path: Path) -> Path:
    """Truncate the file; its folder."""
    path.write_bytes(path.read_bytes()[:-20])
    return path.parent


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "hp: there is no such folder"),
        (lambda folder: (folder / "sets.parquet").unlink(), "sets.parquet: there is no such file"),
        (lambda folder: (folder / "queries.parquet").unlink(), "queries.parquet: there is no su"),
        (lambda folder: truncated(folder / "sets.parquet"), "sets.parquet: cannot be read"),
        (lambda folder: truncated(folder / "queries.parquet"), "queries.parquet: cannot be read"),
        (lambda folder: (folder / "sets.parquet").write_bytes(b""), "sets.parquet: cannot be read"),
        (lambda folder: folder.with_name("hp.scores").touch(), "hp.scores"),
    ],
)
def test_invalid_releases(
    loop: Loop, release: Path, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(release)
    before = files_below(tmp_path)
    assert_refused(score(loop, release, "--images", loop.pictures), message)
    assert files_below(tmp_path) == before


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def as_blip2(run: Path) -> Path:
    return edit(
        run / "best.json", lambda about: about["recipe"].update(encoder="blip2-vitL", size=224)
    )


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (lambda run: run / "nothing", "nothing: there is no such checkpoint"),
        (as_blip2, "blip2-vitL lacks "),
    ],
)
def test_invalid_scorers(
    loop: Loop, release: Path, tmp_path: Path, scorer: Callable[[Path], Path], message: str
) -> None:
    named = scorer(shutil.copytree(loop.run, tmp_path / "run"))
    before = files_below(tmp_path)
    weights = ("--weights", tmp_path / "weights")
    command = score(loop, release, "--images", loop.pictures, *weights, scorer=named)
    assert_refused(command, message)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--images", "nowhere"), "nowhere: there is no such folder; name another with --images"),
        (("--device", "abacus"), "--device abacus: this machine has no such device"),
    ],
)
def test_other_arguments(loop: Loop, release: Path, words: tuple[str, str], message: str) -> None:
    assert_refused(score(loop, release, *words), message)
    assert not release.with_name("hp.scores").exists()


def test_a_scorer_that_has_diverged(loop: Loop, release: Path, tmp_path: Path) -> None:
    (file,) = loop.run.glob("best-scorer-*.safetensors")
    tensors = {name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(file).items()}
    written = checkpoints.read(loop.run).about
    about = {key: written[key] for key in written.keys() - {"format", "files"}}
    checkpoints.save(tmp_path / "nan", "best", about, {"scorer": tensors})
    command = score(loop, release, "--images", loop.pictures, scorer=tmp_path / "nan")
    assert_refused(command, "the model gives vectors that are not finite numbers", code=1)
    assert not (tmp_path / "hp.scores").exists()


def test_fp16_is_scored_on_a_cpu(loop: Loop, scored: Path, release: Path, tmp_path: Path) -> None:
    run = shutil.copytree(loop.run, tmp_path / "run")
    edit(run / "best.json", lambda about: about["recipe"].update(precision="fp16"))
    words = ("--images", loop.pictures, "--device", "cpu")
    assert score(loop, release, *words, scorer=run).code == 0
    assert set_scores(tmp_path / "hp.scores") == set_scores(scored)


def test_scores_of_unknown_and_of_another_precision(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    """Earlier versions computed in the training's precision, and did not record which."""
    folder = shutil.copytree(scored, tmp_path / "hp.scores")
    edit(folder / "cirqrs.json", lambda about: about["precision"].update(vectors="bfloat16"))
    refused = score(loop, release, "--images", loop.pictures)
    assert_refused(refused, "holds the scores of another scorer, or of another release")
    edit(folder / "cirqrs.json", lambda about: about.pop("precision"))
    assert score(loop, release, "--images", loop.pictures).code == 0
    assert files_below(folder) == files_below(scored)


def test_a_release_without_sets(loop: Loop, release: Path) -> None:
    pq.write_table(pq.read_table(release / "sets.parquet").slice(0, 0), release / "sets.parquet")
    command = score(loop, release, "--images", loop.pictures)
    assert_refused(command, "the release has no sets", code=1)
    assert not release.with_name("hp.scores").exists()
