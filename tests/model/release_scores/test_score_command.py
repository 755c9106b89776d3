"""Train, score, analyze: `hsfiq score` on a simulated release."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hsfiq import __version__
from hsfiq.atomic_files import sha256_of
from hsfiq.model import checkpoints
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import open_image
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import run
from tests.model.encoders.test_zero_shot import clip, saved
from tests.model.release_scores.scored_release import (
    NAMES,
    Loop,
    about,
    ask,
    assert_refused,
    score,
    set_scores,
)
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL, Drawn, files_below, hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]


def image_scores(folder: Path, name: str = "cirqrs") -> dict[tuple[str, str], float]:
    rows = pq.read_table(folder / f"{name}.images.parquet").to_pylist()
    return {(row["set_id"], row["image_id"]): row["score"] for row in rows}


@torch.no_grad()
def literal(loop: Loop, run: Path) -> dict[tuple[str, str], float]:
    """The score of each image, one at a time: open, prepare, encode, best product."""
    encoder = load_scorer(run, None, CPU).scorer.eval().encoder

    @cache
    def tokens(image: str) -> torch.Tensor:
        with open_image(loop.pictures / f"{image}.jpg") as picture:
            pixels = encoder.preprocessing(picture)
        return encoder.image_tokens(pixels.unsqueeze(0)).half()  # [1, P, W]

    @cache
    def vectors(image: str) -> list[list[float]]:
        return [vector.tolist() for vector in encoder.gallery(tokens(image))[0]]

    scores = {}
    for set_id, (reference, text, images) in loop.sets.items():
        query = encoder.compose(tokens(reference), [normalise(text)])[0].tolist()
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


def test_the_provenance_is_recorded(loop: Loop, scored: Path) -> None:
    provenance, checkpoint = about(scored), checkpoints.read(loop.run)
    assert provenance["metric"] == "cirqrs"
    assert provenance["checkpoint_sha256"] == checkpoint.sha256
    for key in ("recipe", "data", "encoder", "preprocessing"):
        assert provenance[key] == checkpoint.about[key]
    assert "trained_on" not in provenance
    assert provenance["precision"] == {"vectors": "float32", "tokens": "float16"}
    assert (provenance["hsfiq"], provenance["torch"]) == (__version__, torch.__version__)
    assert provenance["release"] == {
        "name": "hp",
        "sha256": {
            name: sha256_of(loop.release / name) for name in ("queries.parquet", "sets.parquet")
        },
    }
    assert provenance["files"] == {name: sha256_of(scored / name) for name in NAMES[:2]}
    assert (provenance["n_sets"], provenance["n_scored"]) == (100, 100)
    assert (provenance["missing_images"], provenance["unscored_sets"]) == ([], [])
    for path in scored.iterdir():  # no folder of this machine
        assert str(loop.release.parent).encode() not in path.read_bytes()
    assert not re.search(r'"[/~]|\\', json.dumps(provenance))


def test_scores_are_reproducible(loop: Loop, scored: Path, release: Path, tmp_path: Path) -> None:
    command = hsfiq(
        "score", release, "--checkpoint", loop.run, "--cache", tmp_path / "cache",
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


def test_images_without_folder(loop: Loop, release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the pictures of the drawn catalogue need no folder."""
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
        image = min(candidates - bad, key=lambda each: (uses[each], each))  # that fewest need
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
    assert f"{folder / 'cirqrs.json'} lists all\n" in command.out

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

    analyzed = hsfiq("analyze", release, "--metric", "cirqrs", "--json")
    assert analyzed.code == 0
    missing = analyzed.result["metrics"]["cirqrs"]["missing"]
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


def test_the_scores_are_analyzed(loop: Loop, release: Path, tmp_path: Path) -> None:
    before = hsfiq("analyze", release, "--metric", "cirqrs")
    assert_refused(before, f"`hsfiq score {release} --checkpoint DIR --name cirqrs` writes them")
    assert score(loop, release, "--images", loop.pictures).code == 0
    command = ("analyze", release, "--metric", "recall@5", "--metric", "cirqrs", "--json")
    analyzed = hsfiq(*command)
    assert analyzed.code == 0
    assert analyzed.result["release"]["simulated"] is True
    metric = analyzed.result["metrics"]["cirqrs"]
    assert metric["missing"]["n"] == 0
    assert -1 < metric["spearman"]["rho"] < 1
    shutil.copy(tmp_path / "hp.scores" / "cirqrs.images.parquet", tmp_path / "again.parquet")
    extra = ("--metric", "again", "--scores", tmp_path / "again.parquet")
    metrics = hsfiq(*command, *extra).result["metrics"]  # an image's scores give the same metric
    rho = metrics["cirqrs"]["spearman"]["rho"]
    assert metrics["again"]["spearman"]["rho"] == pytest.approx(rho)


def test_lists_of_searches_are_scored_by_the_text_of_their_turn(
    loop: Loop, scored: Path, tmp_path: Path
) -> None:
    """The turns repeat sets of a release of pairs, so the scores are the same."""
    names = list(loop.sets)[:3]
    keys = ("question_id", "query_id", "turn", "reference_id", "text", "image_ids")
    turns = [
        dict(zip(keys, ("p1.form_1.0", "q", number, *loop.sets[name]), strict=True))
        for number, name in enumerate(names, start=1)
    ]
    struck, unlisted = turns[0] | {"turn": 4, "text": None}, turns[0] | {"turn": 5, "image_ids": []}
    folder = tmp_path / "searches"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([*turns, struck, unlisted]), folder / "turns.parquet")
    command = score(loop, folder, "--images", loop.pictures)
    assert command.code == 0, command.err
    assert command.out.endswith(f"next: hsfiq analyze {folder} --metric cirqrs\n")
    scores = set_scores(tmp_path / "searches.scores")
    assert list(scores) == [f"p1.form_1.0.{number}" for number in (1, 2, 3)]
    assert list(scores.values()) == pytest.approx([set_scores(scored)[name] for name in names])
    assert list(about(tmp_path / "searches.scores")["release"]["sha256"]) == ["turns.parquet"]


DOCS = Path(__file__).parents[3] / "docs" / "contributing" / "plugins.md"


def test_model_of_transformers_scores_a_release(loop: Loop, release: Path, tmp_path: Path) -> None:
    model = saved(clip, tmp_path / "clip")
    by_name = {}
    for name, part in (("clip", ""), ("clip-text", "@text")):
        result = score(
            loop, release, "--images", loop.pictures, "--name", name,
            scorer=Path(f"hf:{model}{part}"),
        )  # fmt: skip
        assert result.code == 0, result.err
        by_name[name] = set_scores(tmp_path / "hp.scores", name)
        provenance = about(tmp_path / "hp.scores", name)
        assert provenance["recipe"] == {"name": f"hf:clip{part}", "pooling": "max"}
        assert provenance["data"] is None
    assert by_name["clip"].keys() == loop.sets.keys()
    assert by_name["clip"] != by_name["clip-text"]


def test_a_trained_model_of_transformers_is_a_metric(
    loop: Loop, release: Path, drawn: Drawn, tmp_path: Path
) -> None:
    model, trained = saved(clip, tmp_path / "model"), tmp_path / "run"
    paths = ScorerPaths(weights=model, cache=tmp_path / "cache")
    recipe = replace(SMALL, encoder="hf", size=28, epochs=1, n_def=1, batch=8)
    run(recipe, TrainingJob(drawn.first(16), trained, paths, ONE_PROCESS, Callback()))
    options = ("--weights", model, "--images", loop.pictures, "--name", "trained")
    result = score(loop, release, *options, scorer=trained)
    assert result.code == 0, result.err
    assert about(tmp_path / "hp.scores", "trained")["recipe"]["encoder"] == "hf"
    figures = hsfiq("analyze", release, "--metric", "trained", "--resamples", "20", "--json").result
    assert figures["metrics"]["trained"]["spearman"]["n"] == len(loop.sets)
    other = saved(clip, tmp_path / "other")
    (other / "vocab.txt").write_text("another\n")
    refused = score(loop, release, "--weights", other, *options[2:], scorer=trained)
    assert_refused(refused, "was trained on another image encoder than this hf")


def test_the_encoder_of_the_docs_is_found_and_scores(
    loop: Loop, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", DOCS.read_text(), re.DOTALL)
    module, settings, *_ = blocks
    assert len([line for line in module.splitlines() if line.strip()]) <= 40
    (tmp_path / "their_encoder.py").write_text(module)
    added = tmp_path / "their_encoder-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: their-encoder\nVersion: 1.0\n")
    entry = settings.splitlines()[-1].replace('"', "")
    (added / "entry_points.txt").write_text(f"[hsfiq.encoders]\n{entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--images", loop.pictures, "--name", "colours")
    result = score(loop, release, *options, scorer=Path("colour-words:0.5"))
    assert result.code == 0, result.err
    assert len(set_scores(tmp_path / "hp.scores", "colours")) == len(loop.sets)
    unknown = score(loop, release, *options, scorer=Path("colors:0.5"))
    assert_refused(
        unknown, "no installed encoder is named colors; there are: colour-words, hf, openclip"
    )
