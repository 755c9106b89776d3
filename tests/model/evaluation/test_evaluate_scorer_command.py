"""`hsfiq evaluate --checkpoint`: ranked lists, runs written from them, CIRQRS@k, missing images."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from hsfiq.model.checkpoints import read
from hsfiq.model.data import CATALOGUE
from hsfiq.model.encoders.tiny import Tiny
from hsfiq.model.evaluation.drawn import drawn_by_recipes
from hsfiq.model.recipes import RECIPES, on_drawn
from hsfiq.model.system_recipes import DRAWN, SYSTEM_RECIPES, system_on_drawn
from tests.model.encoders.small_encoder import draw_image
from tests.model.evaluation.helpers import (
    DRESSES,
    MEMBERS,
    SHIRTS,
    filled,
    put,
    refusal,
    write_circo,
    write_cirr,
    write_fashioniq,
)
from tests.model.scorer.helpers import CommandResult, Drawn, hsfiq, options

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def run(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scorer trained on the drawn catalogue for an epoch."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("trained") / "run"
    assert hsfiq(*options(drawn, out, "--set", "epochs=1", "--set", "n_def=1")).code == 0
    return out


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def pictures(folder: Path, names: Iterable[str]) -> Path:
    """Images of noise with these names."""
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        draw_image(folder / f"{name}.png", seed=number)
    return folder


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    """Sixty shirts and sixty dresses with their pictures."""
    pictures(tmp_path / "fiq" / "images", [*SHIRTS, *DRESSES])
    return write_fashioniq(tmp_path / "fiq")


@pytest.fixture
def ranked(run: Path, cache: Path) -> list[str | Path]:
    """The options of a scorer."""
    return ["--checkpoint", run, "--cache", cache]


def figures(command: CommandResult) -> Any:
    assert command.code == 0, command.err
    return json.loads(command.out)


def without_keys(result: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in keys}


def test_lists_for_the_catalogue_that_recipes_draw_need_no_scorer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.model.data.TRIPLETS", 120)
    monkeypatch.setattr("hsfiq.model.data.GARMENTS", 40)
    queries = [query for part in drawn_by_recipes("val").parts for query in part.queries]
    run = tmp_path / "run.json"
    run.write_text(json.dumps({query.query_id: [query.target] for query in queries}))
    result = figures(hsfiq("evaluate", "drawn", "--run", run, "--json"))
    assert (result["n_queries"], result["recall@1"]) == (len(queries), 1.0)
    refused = hsfiq("evaluate", "drawn")
    assert (refused.code, "nothing to evaluate" in refused.err) == (2, True)
    seeds = {on_drawn(each).seed for each in RECIPES.values()}
    seeds |= {system_on_drawn(each).seed for each in SYSTEM_RECIPES.values()}
    assert seeds == {DRAWN["seed"]}


def test_drawn_figures_equal_the_validation_of_the_training(
    drawn: Drawn, run: Path, ranked: list[str | Path], tmp_path: Path
) -> None:
    options = (*ranked, "--images", drawn.pictures, "--json")
    own_figures = figures(hsfiq("evaluate", "drawn", *options, "--out", tmp_path / "run.jsonl"))
    trained = read(run)
    epoch = trained.about["progress"]["epochs"][-1]["val"]
    for name in ("recall@1", "recall@5"):
        assert own_figures[name] == pytest.approx(epoch[name], abs=1e-12)
    assert own_figures["n_queries"] == trained.about["data"]["n_val"]
    assert own_figures["scorer"] == {"checkpoint": str(trained.path), "sha256": trained.sha256}
    assert own_figures["notes"] == []
    values_file = tmp_path / "values.jsonl"
    combined = figures(
        hsfiq("evaluate", "drawn", *options, "--run", tmp_path / "run.jsonl",
              "--per-query", values_file)
    )  # fmt: skip
    new = {"run", "reason", "cirqrs@10", "cirqrs@50", "categories", "per_query"}
    assert without_keys(combined, *new) == without_keys(own_figures, "out", "categories")
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    scores = {row["query_id"]: row["scores"] for row in map(json.loads, lines)}
    by_query = {
        row["query_id"]: row for row in map(json.loads, values_file.read_text().splitlines())
    }
    for query_id, image_scores in scores.items():
        expected_value = pytest.approx(fmean(image_scores[:10]), abs=1e-6)
        assert by_query[query_id]["cirqrs@10"] == expected_value
    for category, values in combined["categories"].items():
        expected = [
            fmean(image_scores[:10])
            for key, image_scores in scores.items()
            if key.startswith(category)
        ]
        assert values["cirqrs@10"] == pytest.approx(fmean(expected), abs=1e-6)
        assert values["cirqrs@50"] is None
        assert "lists have fewer than 50 images" in values["reason"]["cirqrs@50"]
    assert combined["cirqrs@10"] == pytest.approx(
        fmean(category_figures["cirqrs@10"] for category_figures in combined["categories"].values())
    )


def test_drawn_adds_missing_images_to_scorers_folder(run: Path, ranked: list[str | Path]) -> None:
    result = figures(hsfiq("evaluate", "drawn", *ranked, "--split", "test", "--json"))
    drawn_here = list((run / CATALOGUE).iterdir())
    assert len(drawn_here) == result["corpus"]["size"]
    assert result["corpus"]["name"] == "catalogue"
    assert result["recall@50"] == 1.0  # the lists are the whole corpus


@pytest.mark.parametrize("options", [(), ("--corpus", "union"), ("--captions", "both")])
def test_written_lists_have_the_same_figures_as_a_run(
    fashion: Path, ranked: list[str | Path], tmp_path: Path, options: tuple[str, ...]
) -> None:
    command = ("evaluate", "fashioniq", "--data", fashion, *options, "--json")
    own_figures = figures(hsfiq(*command, *ranked, "--out", tmp_path / "run.jsonl"))
    run_figures = figures(hsfiq(*command, "--run", tmp_path / "run.jsonl"))
    assert without_keys(own_figures, "scorer", "out", "notes") == without_keys(
        run_figures, "run", "notes"
    )
    assert set(own_figures["notes"]) <= set(run_figures["notes"])


def test_cirr_files_are_accepted_by_the_server(ranked: list[str | Path], tmp_path: Path) -> None:
    data = write_cirr(tmp_path / "cirr")
    pictures(data / "img_raw" / "dev", MEMBERS)
    own_figures = figures(hsfiq("evaluate", "cirr", "--data", data, *ranked, "--json"))
    assert None not in [own_figures[f"recall_subset@{k}"] for k in (1, 2, 3)]
    test1 = ("evaluate", "cirr", "--data", data, "--split", "test1")
    submission = figures(hsfiq(*test1, *ranked, "--submission", tmp_path / "sub", "--json"))
    runs = [word for path in submission["submission"] for word in ("--run", path)]
    assert figures(hsfiq(*test1, *runs, "--json"))["valid_submission"]
    assert "targets are withheld" in refusal(hsfiq(*test1, *ranked))
    val = ("evaluate", "cirr", "--data", data, "--submission", tmp_path / "val", *ranked, "--json")
    runs = [word for path in figures(hsfiq(*val))["submission"] for word in ("--run", path)]
    run_figures = figures(hsfiq("evaluate", "cirr", "--data", data, *runs, "--json"))
    assert without_keys(run_figures, "run") == without_keys(own_figures, "scorer")


@pytest.fixture
def circo(tmp_path: Path) -> Path:
    """CIRCO with its pictures, whose names are padded."""
    data = write_circo(tmp_path / "circo")
    pictures(data / "COCO2017_unlabeled" / "unlabeled2017", (f"{200 + i:012d}" for i in range(100)))
    return data


def test_circo_finds_image_files_with_padded_names(
    circo: Path, ranked: list[str | Path], tmp_path: Path
) -> None:
    command = ("evaluate", "circo", "--data", circo, "--json")
    own_figures = figures(hsfiq(*command, *ranked, "--out", tmp_path / "run.jsonl"))
    run_figures = figures(hsfiq(*command, "--run", tmp_path / "run.jsonl"))
    assert without_keys(own_figures, "scorer", "out") == without_keys(run_figures, "run")


def test_the_prompt_of_circo_is_part_of_the_text(
    circo: Path, ranked: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    clean_text = Tiny.clean_text

    def recorded(encoder: Tiny, text: str) -> str:
        texts.append(text)
        return clean_text(encoder, text)

    monkeypatch.setattr(Tiny, "clean_text", recorded)
    command = ("evaluate", "circo", "--data", circo, "--json")
    prompted = (*command, "--prompt", "a photo of $ that {caption}")
    assert figures(hsfiq(*prompted, *ranked))["prompt"] == "a photo of $ that {caption}"
    assert texts
    assert all(text.startswith("a photo of $ that ") for text in texts)
    assert "needs --checkpoint" in refusal(hsfiq(*prompted, "--run", tmp_path / "run.jsonl"))
    assert "insert {caption}" in refusal(hsfiq(*command, "--prompt", "a photo", *ranked))


def test_cirqrs_of_a_run_needs_only_the_images_of_its_lists(
    fashion: Path, ranked: list[str | Path], tmp_path: Path
) -> None:
    lists = {f"shirt.val.{i}": filled(SHIRTS[:55], SHIRTS, 55) for i in range(4)}
    lists |= {f"dress.val.{i}": filled(DRESSES[:55], DRESSES, 55) for i in range(2)}
    for name in (*SHIRTS[50:], *DRESSES[50:]):
        (fashion / "images" / f"{name}.png").unlink()
    run = put(tmp_path / "run.json", lists)
    command = ("evaluate", "fashioniq", "--data", fashion, "--run", run)
    result = figures(hsfiq(*command, *ranked, "--json"))
    assert -1 <= result["cirqrs@50"] <= result["cirqrs@10"] + 2 <= 3
    assert "missing" not in result
    table = hsfiq(*command, *ranked)
    assert f"{100 * result['cirqrs@10']:.2f}" in table.out
    systems = (*command[:-2], "--run", f"a={run}", "--run", f"b={run}")
    rows = figures(hsfiq(*systems, *ranked, "--json"))["systems"]
    assert rows["a"]["cirqrs@10"] == rows["b"]["cirqrs@10"] == pytest.approx(result["cirqrs@10"])
    lines = hsfiq(*systems, *ranked).out.splitlines()
    row = next(line for line in lines[5:] if line.startswith("a "))
    mean = (result["cirqrs@10"] + result["cirqrs@50"]) / 2
    assert row.split()[-3:] == [
        f"{100 * value:.2f}" for value in (result["cirqrs@10"], result["cirqrs@50"], mean)
    ]


def test_missing_images_are_refused_unless_they_are_allowed(
    fashion: Path, ranked: list[str | Path], tmp_path: Path
) -> None:
    (fashion / "images" / "s9.png").unlink()
    (fashion / "images" / "d0.png").write_bytes(b"no picture")
    command = ("evaluate", "fashioniq", "--data", fashion, *ranked, "--out", tmp_path / "run.jsonl")
    assert "1 of 120 images are missing or unreadable (s9)" in refusal(hsfiq(*command))
    assert not (tmp_path / "run.jsonl").exists()
    result = figures(hsfiq(*command, "--allow-missing", "--json"))
    assert result["missing"] == {"images": 2, "of": 120, "names": ["d0", "s9"], "queries": 1}
    assert result["corpus"] == {"name": "split", "size": 118, "missing": 2}
    assert result["categories"]["shirt"]["corpus"] == {"name": "split", "size": 59, "missing": 1}
    assert result["categories"]["dress"]["n_queries"] == 2
    assert result["categories"]["dress"]["recall@50"] <= 0.5
    assert any("2 of 120 images are missing" in note for note in result["notes"])
    table = hsfiq(*command[:-2], "--allow-missing").out
    assert "MISSING: 1 quer" in table
    assert "figures are not comparable" in table


def test_a_missing_target_is_a_miss_even_in_lists_of_the_complete_corpus(
    fashion: Path, ranked: list[str | Path]
) -> None:
    for name in (*SHIRTS[7:], "s1"):
        (fashion / "images" / f"{name}.png").unlink()
    command = ("evaluate", "fashioniq", "--data", fashion, "--category", "shirt", *ranked)
    result = figures(hsfiq(*command, "--allow-missing", "--json"))
    assert result["corpus"] == {"name": "split", "size": 6, "missing": 54}
    assert result["recall@50"] == 0.75
    assert result["missing"]["queries"] == 0


def test_incompatible_scorer_options(
    fashion: Path, ranked: list[str | Path], tmp_path: Path
) -> None:
    command = ("evaluate", "fashioniq", "--data", fashion)
    run = ("--run", put(tmp_path / "run.json", {"shirt.val.0": ["s0"]}))
    assert "there is nothing to evaluate" in refusal(hsfiq(*command))
    assert "--images: needs --checkpoint" in refusal(hsfiq(*command, *run, "--images", fashion))
    out = ("--out", tmp_path / "out.jsonl")
    assert "is for a scorer's own lists" in refusal(hsfiq(*command, *run, *ranked, *out))
    bare = ("evaluate", "fashioniq", "--data", write_fashioniq(tmp_path / "bare"), *ranked)
    assert "holds no image; name the image folder with --images" in refusal(hsfiq(*bare))


def test_a_scorer_needs_a_run_with_figures(ranked: list[str | Path], tmp_path: Path) -> None:
    data = write_cirr(tmp_path / "cirr")
    pictures(data / "img_raw", MEMBERS)
    run = ("--run", put(tmp_path / "run.json", {"10": MEMBERS[1:51]}))
    command = ("evaluate", "cirr", "--data", data, "--split", "test1", *run, *ranked)
    message = refusal(hsfiq(*command, "--submission", tmp_path / "out"))
    assert "--checkpoint: adds CIRQRS@k to a run's figures" in message
    assert not (tmp_path / "out").exists()


def test_existing_outputs_are_refused_first(ranked: list[str | Path], tmp_path: Path) -> None:
    data = write_cirr(tmp_path / "cirr")
    (data / "img_raw").mkdir()
    (data / "img_raw" / "broken.png").touch()
    existing = put(tmp_path / "sub" / "mine.jsonl", 1)
    command = ("evaluate", "cirr", "--data", data, *ranked)
    assert "mine.jsonl: exists already" in refusal(hsfiq(*command, "--out", existing))
    assert "is a directory" in refusal(hsfiq(*command, "--out", existing.parent))
    assert "is a directory" in refusal(hsfiq(*command, "--out", "."))
    message = refusal(hsfiq(*command, "--out", tmp_path / "no" / "run.jsonl"))
    assert "there is no such folder" in message
    assert "is not empty" in refusal(hsfiq(*command, "--submission", existing.parent))
    assert existing.read_text() == "1"
