"""Scores that exist already: reused, replaced, completed after a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hsfiq import __version__
from hsfiq import atomic_files as whole_files
from hsfiq.model import checkpoints
from hsfiq.model.image_tokens import ENCODER_BATCH
from hsfiq.model.release_scores import score_release
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from tests.model.release_scores.scored_release import (
    NAMES,
    Loop,
    about,
    ask,
    assert_refused,
    score,
    set_scores,
)
from tests.model.scorer.helpers import CPU, files_below, hsfiq, is_killed

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]


def test_finished_scores_are_reused(loop: Loop, release: Path, tmp_path: Path) -> None:
    command = ("score", release, "--checkpoint", loop.run, "--images", loop.pictures)
    assert hsfiq(*command, "--cache", loop.cache).code == 0
    before = files_below(tmp_path / "hp.scores")
    (tmp_path / "hp.scores" / "cirqrs.json").write_bytes(
        before["cirqrs.json"].replace(__version__.encode(), b"0.0.9")  # an upgrade since
    )
    before, stamps = files_below(tmp_path / "hp.scores"), stamped(tmp_path / "hp.scores")
    reused = hsfiq(*command, "--cache", tmp_path / "unused")
    assert reused.code == 0
    assert not (tmp_path / "unused").exists()
    assert files_below(tmp_path / "hp.scores") == before
    assert stamped(tmp_path / "hp.scores") == stamps
    assert hsfiq(*command, "--cache", tmp_path / "used", "--force").code == 0
    assert (tmp_path / "used").exists()
    assert about(tmp_path / "hp.scores")["hsfiq"] == __version__


def stamped(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())}


def test_damaged_files_are_replaced(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    assert score(loop, release, "--images", loop.pictures).code == 0
    for name in NAMES[:2]:
        (tmp_path / "hp.scores" / name).write_bytes(b"PAR1")
        assert score(loop, release, "--images", loop.pictures).code == 0
        assert files_below(tmp_path / "hp.scores") == files_below(scored)


def test_other_scores_are_replaced_with_force(loop: Loop, release: Path, tmp_path: Path) -> None:
    images = ("--images", loop.pictures)
    assert score(loop, release, *images).code == 0
    before = files_below(tmp_path / "hp.scores")
    message = "holds the scores of another scorer, or of another release; choose another --name, or"
    assert_refused(score(loop, release, *images, scorer=loop.other), message)
    text = (release / "queries.parquet").read_bytes()
    ask(release, "is long")
    assert_refused(score(loop, release, *images), message)
    (release / "queries.parquet").write_bytes(text)
    assert files_below(tmp_path / "hp.scores") == before
    assert score(loop, release, *images, "--name", "another", scorer=loop.other).code == 0
    assert score(loop, release, *images, "--force", scorer=loop.other).code == 0
    sets = [set_scores(tmp_path / "hp.scores", name) for name in ("cirqrs", "another")]
    assert sets[0] == sets[1]
    assert about(tmp_path / "hp.scores")["checkpoint_sha256"] == checkpoints.read(loop.other).sha256


def test_foreign_scores_files_are_not_changed(loop: Loop, release: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "hp.scores" / "cirqrs.parquet"
    foreign.parent.mkdir()
    pq.write_table(pa.table({"set_id": ["x"], "score": [1.0]}), foreign)
    before = files_below(foreign.parent)
    command = score(loop, release, "--images", loop.pictures)
    assert_refused(
        command, "cirqrs.parquet: was not written by hsfiq score under this name; choose"
    )
    assert files_below(foreign.parent) == before
    assert score(loop, release, "--images", loop.pictures, "--force").code == 0
    assert len(set_scores(foreign.parent)) == 100


def test_the_release_is_not_changed(loop: Loop, release: Path, tmp_path: Path) -> None:
    before, stamps = files_below(release), stamped(release)
    for path in (*release.iterdir(), release):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (tmp_path / "link").symlink_to(release)
    command = score(loop, tmp_path / "link", "--images", loop.pictures)
    release.chmod(0o755)
    assert command.code == 0
    assert (files_below(release), stamped(release)) == (before, stamps)
    assert set(files_below(tmp_path / "hp.scores")) == set(NAMES)  # beside it, not beside the link


class CacheCounts(Callback):
    """Records the counts of encoded images, and kills its process at one of them."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.counts: list[tuple[int, int]] = []
        self._dies_at = dies_at

    def caching(self, done: int, n: int) -> None:
        self.counts.append((done, n))
        if len(self.counts) == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def score_until_killed_encoding(release: Path, paths: ScorerPaths, nth: int) -> None:
    torch.set_num_threads(1)
    score_release(release, "cirqrs", paths, CPU, CacheCounts(dies_at=nth))


def score_until_killed_writing(
    release: Path, paths: ScorerPaths, nth: int, *options: Literal["force"]
) -> None:
    """Kill the process at the nth sync: of a draft, then of the folder."""
    torch.set_num_threads(1)
    really, n_left = whole_files.sync, nth

    def sync(path: Path) -> None:
        nonlocal n_left
        n_left -= 1
        if not n_left:
            os.kill(os.getpid(), signal.SIGKILL)
        really(path)

    whole_files.sync = sync
    score_release(release, "cirqrs", paths, CPU, Callback(), force="force" in options)


def paths_of(loop: Loop, cache: Path, run: Path | None = None) -> ScorerPaths:
    return ScorerPaths(run or loop.run, loop.pictures, cache=cache)


def test_killed_while_encoding(loop: Loop, scored: Path, release: Path, tmp_path: Path) -> None:
    paths, scores = paths_of(loop, tmp_path / "cache"), release.with_name("hp.scores")
    # The last batch may be committed at once, so the process ends at the one before.
    assert is_killed(score_until_killed_encoding, release, paths, 2)
    assert not scores.exists()
    (index,) = (tmp_path / "cache").rglob("index.sqlite3")
    with closing(sqlite3.connect(index)) as rows:
        ((kept,),) = rows.execute("SELECT count(*) FROM rows")
    assert ENCODER_BATCH <= kept < len(loop.wanted)
    callback = CacheCounts()
    score_release(release, "cirqrs", paths, CPU, callback)
    assert callback.counts[-1] == (len(loop.wanted) - kept,) * 2
    assert files_below(scores) == files_below(scored)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_killed_while_writing(loop: Loop, scored: Path, release: Path, nth: int) -> None:
    paths, scores = paths_of(loop, loop.cache), release.with_name("hp.scores")
    expected = files_below(scored)
    assert is_killed(score_until_killed_writing, release, paths, nth)
    assert in_place(scores) == {name: expected[name] for name in NAMES[: nth // 2]}
    score_release(release, "cirqrs", paths, CPU, Callback())
    assert files_below(scores) == expected


@pytest.mark.parametrize("nth", [2, 5])
def test_killed_while_replacing(loop: Loop, scored: Path, release: Path, nth: int) -> None:
    paths, scores = paths_of(loop, loop.cache), release.with_name("hp.scores")
    expected = files_below(scored)
    other_paths = paths_of(loop, loop.cache, loop.other)
    score_release(release, "cirqrs", other_paths, CPU, Callback())
    before = files_below(scores)
    assert is_killed(score_until_killed_writing, release, paths, nth, "force")
    new = NAMES[: nth // 2]
    mixed = {**before, **{name: expected[name] for name in new}}
    assert in_place(scores) == mixed
    # The JSON file speaks for what is no longer there: that shows in its hashes, and is mended.
    score_release(release, "cirqrs", other_paths, CPU, Callback())
    assert files_below(scores) == before


def in_place(folder: Path) -> dict[str, bytes]:
    return {
        name: content for name, content in files_below(folder).items() if not name.startswith(".")
    }
