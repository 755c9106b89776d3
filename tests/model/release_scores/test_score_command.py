"""Train, score, analyse: `hsfiq score` on a simulated release, with whatever may go wrong there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from hsfiq import __version__
from hsfiq import atomic_files as whole_files
from hsfiq.demo.folder import database_url
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.data.texts import normalise
from hsfiq.model.features.cache import ENCODER_BATCH
from hsfiq.model.features.images import open_image
from hsfiq.model.release_scores.score_release import score_release
from hsfiq.model.scorer.loading import load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from tests.model.training.helpers import (
    CPU,
    CommandResult,
    Drawn,
    files_below,
    hsfiq,
    is_killed,
    options,
)

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("cirqrs.images.parquet", "cirqrs.parquet", "cirqrs.json")


@dataclass(frozen=True)
class Loop:
    """A scorer, another one, a release of fifty answers, its pictures, and a cache."""

    run: Path
    other: Path
    release: Path
    pictures: Path
    cache: Path

    @property
    def sets(self) -> dict[str, tuple[str, str, list[str]]]:
        """Reference, text and images by set, as the release's JSON lines have them."""
        queries = {row["query_id"]: row for row in lines(self.release / "queries.jsonl")}
        return {
            row["set_id"]: (
                queries[row["query_id"]]["reference_id"],
                queries[row["query_id"]]["text"],
                row["image_ids"],
            )
            for row in lines(self.release / "sets.jsonl")
        }

    @property
    def wanted(self) -> set[str]:
        return {name for reference, _, names in self.sets.values() for name in (reference, *names)}


@pytest.fixture(scope="module")
def loop(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Loop:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("loop")
    brief = ("--set", "epochs=2", "--set", "n_def=1")
    for name, seed in (("run", "7"), ("other", "8")):
        assert hsfiq(*options(drawn, folder / name, *brief, "--set", f"seed={seed}")).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 80)
        assert hsfiq("demo", "--answers", "50", "--dir", folder / "demo").code == 0
    url = database_url(folder / "demo")
    release = folder / "released" / "hp"
    assert hsfiq("export", "--release", "hp", "--out", release, "--database", url).code == 0
    return Loop(
        folder / "run", folder / "other", release, folder / "demo" / "images", folder / "cache"
    )


@pytest.fixture(scope="module")
def scored(loop: Loop) -> Path:
    """The folder of the scores of a release that lacks nothing."""
    assert score(loop, loop.release, "--images", loop.pictures).code == 0
    return loop.release.with_name("hp.scores")


@pytest.fixture
def release(loop: Loop, tmp_path: Path) -> Path:
    """The same release, unscored, the test's own."""
    return shutil.copytree(loop.release, tmp_path / "hp")


def score(
    loop: Loop, release: Path, *options: str | Path, scorer: Path | None = None
) -> CommandResult:
    return hsfiq(
        "score", release, "--scorer", scorer or loop.run, "--cache", loop.cache, *options,
    )  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def set_scores(folder: Path, name: str = "cirqrs") -> dict[str, float]:
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return {row["set_id"]: row["score"] for row in rows}


def image_scores(folder: Path, name: str = "cirqrs") -> dict[tuple[str, str], float]:
    rows = pq.read_table(folder / f"{name}.images.parquet").to_pylist()
    return {(row["set_id"], row["image_id"]): row["score"] for row in rows}


def about(folder: Path, name: str = "cirqrs") -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def assert_refused(command: CommandResult, message: str, code: int = 2) -> None:
    """One line, its code, nothing on stdout."""
    assert (command.code, command.out) == (code, "")
    assert len(command.err.splitlines()) == 1
    assert command.err.startswith("hsfiq: ")
    assert message in command.err


# ------------------------------------------------------------------------------------- the scores


@torch.no_grad()
def literal(loop: Loop, run: Path) -> dict[tuple[str, str], float]:
    """Every image of every set by itself: open, prepare, encode; the best of Python's products."""
    encoder = load_scorer(run, None, CPU).scorer.eval().encoder

    @cache
    def tokens(image: str) -> torch.Tensor:
        pixels = encoder.preprocessing(open_image(loop.pictures / f"{image}.jpg"))
        return encoder.image_tokens(pixels.unsqueeze(0)).half()  # [1, P, W]

    @cache
    def vectors(image: str) -> list[list[float]]:
        return [vector.tolist() for vector in encoder.gallery(tokens(image))[0]]

    scores = {}
    for set_id, (reference, text, images) in loop.sets.items():
        query = encoder.query(tokens(reference), [normalise(text)])[0].tolist()
        for image in images:
            scores[set_id, image] = max(
                sum(q * v for q, v in zip(query, vector, strict=True)) for vector in vectors(image)
            )
    return scores


def test_every_image_has_its_score_and_every_set_their_mean(loop: Loop, scored: Path) -> None:
    expected, ours = literal(loop, loop.run), image_scores(scored)
    assert list(ours) == list(expected)  # the release's order, and rank by rank within a set
    assert list(ours.values()) == pytest.approx(list(expected.values()), abs=1e-5)
    means = set_scores(scored)
    assert list(means) == list(loop.sets)
    for set_id, (_, _, images) in loop.sets.items():
        assert means[set_id] == pytest.approx(
            fmean(ours[set_id, image] for image in images), abs=1e-12
        )
    assert len(set(means.values())) > 50  # it tells sets apart


def test_texts_are_read_without_their_escapes(loop: Loop, release: Path, tmp_path: Path) -> None:
    spellings = {
        "escaped": "Is RED dotmark  has dots questionmark",
        "decoded": "is red has dots ?",
        "other": "is red has dots now",
    }
    scores = {}
    for name, text in spellings.items():
        ask(release, text)
        assert score(loop, release, "--images", loop.pictures, "--name", name).code == 0
        scores[name] = set_scores(tmp_path / "hp.scores", name)
    assert scores["escaped"] == scores["decoded"]
    assert scores["other"] != scores["decoded"]


def ask(release: Path, text: str) -> None:
    """Give every query this text."""
    table = pq.read_table(release / "queries.parquet")
    texts = pa.array([text] * len(table), table["text"].type)
    place = table.schema.get_field_index("text")
    table = table.set_column(place, table.schema.field("text"), texts)
    pq.write_table(table, release / "queries.parquet")


def test_the_provenance_is_recorded(loop: Loop, scored: Path) -> None:
    provenance, checkpoint = about(scored), checkpoints.read(loop.run)
    assert provenance["metric"] == "cirqrs"
    assert provenance["checkpoint_sha256"] == checkpoint.sha256
    for key in ("recipe", "data", "encoder", "preprocessing"):
        assert provenance[key] == checkpoint.about[key]
    assert "trained_on" not in provenance
    assert (provenance["hsfiq"], provenance["torch"]) == (__version__, torch.__version__)
    assert provenance["release"] == {
        "name": "hp",
        "sha256": {
            name: checkpoints.sha256_of(loop.release / name)
            for name in ("queries.parquet", "sets.parquet")
        },
    }
    assert provenance["files"] == {name: checkpoints.sha256_of(scored / name) for name in NAMES[:2]}
    assert (provenance["n_sets"], provenance["n_scored"]) == (100, 100)
    assert (provenance["missing_images"], provenance["unscored_sets"]) == ([], [])
    for path in scored.iterdir():  # no folder of this machine
        assert str(loop.release.parent).encode() not in path.read_bytes()
    assert not [
        string for string in strings(provenance) if string.startswith(("/", "~")) or "\\" in string
    ]


def strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for element in inner:
        yield from strings(element)


def test_scoring_again_gives_the_same_bytes(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    command = hsfiq(
        "score", release, "--scorer", loop.run, "--cache", tmp_path / "cache",
        "--images", loop.pictures,
    )  # fmt: skip
    assert command.code == 0
    assert files_below(tmp_path / "hp.scores") == files_below(scored)
    assert set(files_below(scored)) == set(NAMES)


def test_the_printed_result(loop: Loop, release: Path, tmp_path: Path) -> None:
    command = score(loop, release, "--images", loop.pictures, "--json")
    assert command.result == about(tmp_path / "hp.scores")
    repeated = score(loop, release, "--images", loop.pictures)
    assert repeated.out.splitlines() == [
        f"{tmp_path / 'hp.scores' / 'cirqrs.parquet'}: 100 of 100 sets scored",
        f"next: hsfiq analyze {release} --metric recall@5 --metric cirqrs",
    ]


# ------------------------------------------------------------------------------------- the images


def test_images_in_any_folder_layout(
    loop: Loop, scored: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "images").symlink_to(loop.pictures)

    for name, folder in (("drawn", "empty"), ("here", "here"), ("there", "empty")):
        if name == "there":
            (release / "images").symlink_to(loop.pictures)
        monkeypatch.chdir(tmp_path / folder)
        assert score(loop, release, "--name", name).code == 0
        for kind in (".images.parquet", ".parquet"):
            ours = tmp_path / "hp.scores" / f"{name}{kind}"
            assert ours.read_bytes() == (scored / f"cirqrs{kind}").read_bytes()


def test_images_of_no_folder(loop: Loop, release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the drawn catalogue's pictures can be drawn again."""
    monkeypatch.chdir(release.parent)
    for name in ("queries.parquet", "sets.parquet"):
        rename_image(release / name, min(loop.wanted), "B00A")
    assert_refused(score(loop, release), "a release holds no images; name their folder with --ima")


def rename_image(path: Path, old: str, new: str) -> None:
    table = pq.read_table(path)
    rows = json.loads(json.dumps(table.to_pylist()).replace(f'"{old}"', f'"{new}"'))
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_image_faults_are_reported_and_can_be_fixed(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    pictures, sets = shutil.copytree(loop.pictures, tmp_path / "pictures"), loop.sets
    bad: set[str] = set()
    uses = Counter(
        image for reference, _, images in sets.values() for image in {reference, *images}
    )
    references = {reference for reference, _, _ in sets.values()}

    def damage(candidates: set[str], change: Callable[[Path], object]) -> None:
        image = min(
            candidates - bad, key=lambda candidate: (uses[candidate], candidate)
        )  # the one that fewest need
        bad.add(image)
        change(pictures / f"{image}.jpg")

    damage(references, Path.unlink)
    damage(loop.wanted, Path.unlink)
    damage(loop.wanted, lambda path: path.write_bytes(path.read_bytes()[:700]))
    damage(loop.wanted, lambda path: path.write_bytes(b""))
    unscored = [
        set_id for set_id, (reference, _, images) in sets.items() if bad & {reference, *images}
    ]
    faults = [(sets[set_id][0] in bad, not bad.isdisjoint(sets[set_id][2])) for set_id in unscored]
    assert {(True, False), (False, True)} <= set(faults)  # the reference alone, an image alone
    assert len(unscored) < 50

    command = score(loop, release, "--images", pictures)

    assert command.code == 0
    folder = tmp_path / "hp.scores"
    provenance = about(folder)
    assert provenance["missing_images"] == sorted(bad)
    assert provenance["unscored_sets"] == unscored
    assert (provenance["n_sets"], provenance["n_scored"]) == (100, 100 - len(unscored))
    assert f"{100 - len(unscored)} of 100 sets scored\n" in command.out
    assert f"missing or unreadable images: {', '.join(sorted(bad)[:3])} and 1 more\n" in command.out
    assert f"sets without a score: {', '.join(unscored[:3])}" in command.out
    assert f"all are named in {folder / 'cirqrs.json'}\n" in command.out

    all_scores = set_scores(scored)
    assert set_scores(folder) == pytest.approx(
        {set_id: score for set_id, score in all_scores.items() if set_id not in unscored}, abs=1e-6
    )
    expected = {
        (set_id, image): score
        for (set_id, image), score in image_scores(scored).items()
        if not bad & {sets[set_id][0], image}
    }
    assert image_scores(folder) == pytest.approx(expected, abs=1e-6)
    assert list(image_scores(folder)) == list(expected)

    analysed = hsfiq("analyze", release, "--metric", "cirqrs", "--json")
    assert analysed.code == 0
    missing = analysed.result["metrics"]["cirqrs"]["missing"]
    assert missing["n"] == len(unscored)
    assert missing["first"] == unscored[: len(missing["first"])]

    for image in bad:
        shutil.copy(loop.pictures / f"{image}.jpg", pictures)
    assert score(loop, release, "--images", pictures).code == 0
    assert files_below(folder) == files_below(scored)


def test_no_image_at_all(loop: Loop, release: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = score(loop, release, "--images", tmp_path / "empty")
    assert_refused(command, "no set has all its images: ")
    assert f"and {len(loop.wanted) - 3} more are missing" in command.err
    assert command.err.endswith("name the folder of the images with --images\n")
    only = min(reference for reference, _, _ in loop.sets.values())
    shutil.copy(loop.pictures / f"{only}.jpg", tmp_path / "empty")
    assert_refused(score(loop, release, "--images", tmp_path / "empty"), "no set has all its image")
    assert not (tmp_path / "hp.scores").exists()


# ------------------------------------------------------------------------------------ the analysis


def test_the_scores_are_analysed(loop: Loop, release: Path, tmp_path: Path) -> None:
    before = hsfiq("analyze", release, "--metric", "cirqrs")
    assert_refused(before, f"`hsfiq score {release} --scorer CKPT --name cirqrs` makes them")
    assert score(loop, release, "--images", loop.pictures).code == 0
    command = ("analyze", release, "--metric", "recall@5", "--metric", "cirqrs", "--json")
    analysed = hsfiq(*command)
    assert analysed.code == 0
    assert analysed.result["release"]["simulated"] is True
    metric = analysed.result["metrics"]["cirqrs"]
    assert metric["missing"]["n"] == 0
    assert -1 < metric["spearman"]["rho"] < 1
    shutil.copy(tmp_path / "hp.scores" / "cirqrs.images.parquet", tmp_path / "again.parquet")
    extra = ("--metric", "again", "--scores", tmp_path / "again.parquet")
    metrics = hsfiq(*command, *extra).result["metrics"]  # an image's scores give the same metric
    assert metrics["again"]["spearman"]["rho"] == pytest.approx(
        metrics["cirqrs"]["spearman"]["rho"]
    )


# ---------------------------------------------------------------------------------- what is there


def test_finished_scores_are_reused(loop: Loop, release: Path, tmp_path: Path) -> None:
    command = ("score", release, "--scorer", loop.run, "--images", loop.pictures)
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


def test_damaged_files_are_written_again(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    assert score(loop, release, "--images", loop.pictures).code == 0
    for name in NAMES[:2]:
        (tmp_path / "hp.scores" / name).write_bytes(b"PAR1")
        assert score(loop, release, "--images", loop.pictures).code == 0
        assert files_below(tmp_path / "hp.scores") == files_below(scored)


def test_other_scores_are_replaced_only_with_force(
    loop: Loop, release: Path, tmp_path: Path
) -> None:
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


# ------------------------------------------------------------------------------------------ kills


class Told(Callback):
    """Keeps the counts of images encoded, and dies at one."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.counts: list[tuple[int, int]] = []
        self._dies_at = dies_at

    def caching(self, done: int, n: int) -> None:
        self.counts.append((done, n))
        if len(self.counts) == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def score_until_killed_encoding(release: Path, paths: ScorerPaths, nth: int) -> None:
    torch.set_num_threads(1)
    score_release(release, "cirqrs", paths, CPU, Told(dies_at=nth))


def score_until_killed_writing(
    release: Path, paths: ScorerPaths, nth: int, *options: Literal["force"]
) -> None:
    """Die the nth time that something is to reach the disk: a draft, then the folder's list."""
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
    assert is_killed(score_until_killed_encoding, release, paths, 3)
    assert not scores.exists()
    (index,) = (tmp_path / "cache").rglob("index.sqlite3")
    with closing(sqlite3.connect(index)) as rows:
        ((kept,),) = rows.execute("SELECT count(*) FROM rows")
    assert ENCODER_BATCH <= kept < len(loop.wanted)

    callback = Told()
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


# ---------------------------------------------------------------------------------------- refusals


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
    """Take the file's end away; returns its folder."""
    path.write_bytes(path.read_bytes()[:-20])
    return path.parent


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "hp: there is no such folder"),
        (
            lambda folder: (folder / "sets.parquet").unlink(),
            "sets.parquet: there is no such file; name the",
        ),
        (
            lambda folder: (folder / "queries.parquet").unlink(),
            "queries.parquet: there is no such file",
        ),
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
        (lambda run: run / "tensorboard", "tensorboard: holds no best.json or last.json"),
        (lambda run: next(run.glob("best-*.safetensors")), "is no checkpoint's JSON file"),
        (lambda run: run.parent / "hp" / "manifest.json", "is no checkpoint of format 1"),
        (lambda run: truncated(run / "best.json"), "best.json: is no checkpoint's JSON file"),
        (
            lambda run: truncated(next(run.glob("best-*.safetensors"))),
            "is not the file that best.json names: cut or changed",
        ),
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
    about = {
        key: value
        for key, value in checkpoints.read(loop.run).about.items()
        if key not in ("format", "files")
    }
    checkpoints.save(tmp_path / "nan", "best", about, {"scorer": tensors})
    command = score(loop, release, "--images", loop.pictures, scorer=tmp_path / "nan")
    assert_refused(command, "the scorer gives vectors that are not finite numbers", code=1)
    assert not (tmp_path / "hp.scores").exists()


def test_trained_in_fp16_and_scored_on_a_cpu(
    loop: Loop, scored: Path, release: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(loop.run, tmp_path / "run")
    edit(run / "best.json", lambda about: about["recipe"].update(precision="fp16"))
    words = ("--images", loop.pictures, "--device", "cpu")
    assert score(loop, release, *words, scorer=run).code == 0
    assert set_scores(tmp_path / "hp.scores") == set_scores(scored)


def test_a_release_without_sets(loop: Loop, release: Path) -> None:
    pq.write_table(pq.read_table(release / "sets.parquet").slice(0, 0), release / "sets.parquet")
    command = score(loop, release, "--images", loop.pictures)
    assert_refused(command, "the release has no sets", code=1)
    assert not release.with_name("hp.scores").exists()
