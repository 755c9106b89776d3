"""Published files of the retrieval systems, from the file to a checkpoint that ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints, system_recipes
from hsfiq.model.checkpoints import read
from hsfiq.model.data import draw_dataset, drawn_size
from hsfiq.model.encoders.blip2_weights import BERT_VOCABULARY
from hsfiq.model.evaluation.drawn import Catalogue
from hsfiq.model.evaluation.drawn import drawn as drawn_benchmark
from hsfiq.model.evaluation.retrieve import Request, retrieve
from hsfiq.model.release_scores import scorer_provenance
from hsfiq.model.retrieval import clip as clip_module
from hsfiq.model.retrieval.blip import SIZES, Blip, BlipSizes
from hsfiq.model.retrieval.clip import MERGES_FILE
from hsfiq.model.retrieval.import_weights import (
    LAYOUTS,
    dataset_of,
    import_weights,
    layout_of,
)
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.retrieval.system import Combiner
from hsfiq.model.retrieval.training import train_system
from hsfiq.model.retrieval.weights import KNOWN, Known, PublishedFile, blip_tensors, read_published
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import system_recipe
from tests.in_process import run_command
from tests.model.retrieval.blip_reference import BlipReference, empty_blip, read_blip_reference
from tests.model.retrieval.clip_reference import (
    MERGES,
    ClipReference,
    read_clip_reference,
    sizes_of,
)
from tests.model.scorer.helpers import CPU, ONE_PROCESS, Drawn


@pytest.fixture(scope="module")
def clip() -> ClipReference:
    return read_clip_reference()


@pytest.fixture(scope="module")
def blip() -> BlipReference:
    return read_blip_reference()


@pytest.fixture
def weights(clip: ClipReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tokenizer's file, while CLIP4CIR's recipe is for the small CLIP."""
    image, words = sizes_of(clip)
    monkeypatch.setattr(clip_module, "RN50X4_IMAGE", image)
    monkeypatch.setattr(clip_module, "RN50X4_TEXT", words)
    small = replace(system_recipe("clip4cir-fashioniq"), size=64, projection=12, hidden=20)
    monkeypatch.setitem(system_recipes.SYSTEM_RECIPES, small.name, small)
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / MERGES_FILE).write_bytes(MERGES.read_bytes())
    return folder


def published(path: Path, key: str, tensors: dict[str, Tensor], **besides: Any) -> Path:
    """A file as CLIP4CIR's and Bi-BLIP4CIR's code writes it."""
    optimizer = {"state": {0: {"step": 3}}, "param_groups": [{"lr": 1e-5}]}
    torch.save({"epoch": 7, key: tensors, "optimizer_state_dict": optimizer, **besides}, path)
    return path


def combiner(dim: int = 8) -> Combiner:
    torch.manual_seed(4)
    return Combiner(dim, 12, 20, dropout=0.5).eval()


def test_clip4cirs_first_stage_ranks_as_the_sum_of_open_clips_vectors(
    clip: ClipReference, weights: Path, tmp_path: Path
) -> None:
    file = published(tmp_path / "tuned_clip_best.pt", "CLIP", clip.weights)
    out = tmp_path / "clip4cir"
    saved = import_weights([file], out, dataset="fashioniq", weights=weights)
    assert saved.path == out / "best.json"
    loaded = load_retriever(out, weights, CPU)
    assert scorer_provenance(loaded)["data"] is None  # the files do not say
    system = loaded.retriever
    system.train(mode=False)
    tokens = system.image_tokens(clip.pixels)
    images = F.normalize(clip.image, dim=1)
    torch.testing.assert_close(system.gallery(tokens)[:, 0], images, atol=1e-5, rtol=1e-5)
    query = system.compose(tokens, clip.about["texts"][:3])
    expected = F.normalize(clip.image + clip.text[:3], dim=1)
    torch.testing.assert_close(query, expected, atol=1e-5, rtol=1e-5)
    source = file.read_bytes()
    assert saved.about["imported_from"] == [
        {"file": file.name, "sha1": sha1(source).hexdigest(), "known_as": None}
    ]
    assert (saved.about["stage"], saved.about["recipe"]["name"]) == (1, "clip4cir-fashioniq")


def test_queries_of_a_combiner_are_its_own(
    clip: ClipReference, weights: Path, tmp_path: Path
) -> None:
    trained = combiner()
    files = [
        published(tmp_path / "combiner.pt", "Combiner", trained.state_dict()),
        published(tmp_path / "tuned_clip_best.pt", "CLIP", clip.weights),
    ]
    out = tmp_path / "clip4cir"
    saved = import_weights(files, out, dataset="fashioniq", weights=weights)
    assert saved.about["stage"] == 2
    system = load_retriever(out, weights, CPU).retriever
    system.train(mode=False)
    query = system.compose(system.image_tokens(clip.pixels), clip.about["texts"][:3])
    expected = trained(clip.image, clip.text[:3])
    torch.testing.assert_close(query, expected, atol=1e-5, rtol=1e-5)


def test_an_imported_checkpoint_is_trained_further_and_ranks(
    clip: ClipReference, weights: Path, drawn: Drawn, tmp_path: Path
) -> None:
    file = published(tmp_path / "tuned_clip_best.pt", "CLIP", clip.weights)
    initial = import_weights([file], tmp_path / "init", dataset="fashioniq", weights=weights)
    recipe = replace(
        system_recipe("clip4cir-fashioniq"), epochs=(1, 1), batch=(32, 32), val_recall=(1, 5)
    )
    paths = ScorerPaths(initial.path.parent, drawn.pictures, weights, drawn.cache)
    job = TrainingJob(drawn.data, tmp_path / "run", paths, ONE_PROCESS, Callback())
    trained = train_system(recipe, job)
    assert trained.about["init_sha256"] == initial.sha256 != trained.sha256
    tuned = read(tmp_path / "run" / "stage-1").tensors("scorer")
    before = initial.tensors("scorer")
    moved = {name.split(".")[1] for name in before if not tuned[name].equal(before[name])}
    assert moved == {"image", "text"}
    benchmark = drawn_benchmark(Catalogue(*draw_dataset(7, *drawn_size(60))), "val")
    paths = replace(paths, checkpoint=tmp_path / "run")
    result = retrieve(Request(benchmark, paths, CPU, tmp_path / "run.jsonl"), Callback())
    assert (result["system"], result["n_lists"]) == ("clip4cir", 36)


def test_the_command_and_the_card_name_each_file(
    clip: ClipReference, weights: Path, tmp_path: Path
) -> None:
    file = published(tmp_path / "tuned_clip_best.pt", "CLIP", clip.weights)
    digest = sha1(file.read_bytes()).hexdigest()
    command = ("weights", "import", file.name, "--weights", str(weights), "--dataset", "fashioniq")
    printed = run_command(tmp_path, *command, "--out", "one")
    assert "one: clip4cir for fashioniq, stage 1" in printed
    assert f"tuned_clip_best.pt: unknown file, SHA-1 {digest}" in printed
    result = json.loads(run_command(tmp_path, *command, "--out", "two", "--json"))
    saved = checkpoints.read(tmp_path / "two")
    assert result == {
        "out": "two",
        "system": "clip4cir",
        "recipe": "clip4cir-fashioniq",
        "stage": 1,
        "files": [{"file": file.name, "sha1": digest, "known_as": None}],
        "sha256": saved.sha256,
    }
    card = (tmp_path / "two" / "README.md").read_text()
    assert "tags: [composed-image-retrieval, clip4cir, fashioniq]" in card
    assert f"- `tuned_clip_best.pt`, SHA-1 `{digest}`: not a known file" in card
    assert "- variant `tuned`: both" in card
    assert f"weights: sha256 `{saved.sha256}`" in card


def test_existing_folder_is_left_alone(clip: ClipReference, weights: Path, tmp_path: Path) -> None:
    file = published(tmp_path / "clip.pt", "CLIP", clip.weights)
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").touch()
    with pytest.raises(UnreadableInput, match="exists already"):
        import_weights([file], out, dataset="fashioniq", weights=weights)
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_nothing_is_written_for_a_combiner_of_another_system(
    clip: ClipReference, weights: Path, tmp_path: Path
) -> None:
    files = [
        published(tmp_path / "clip.pt", "CLIP", clip.weights),
        published(tmp_path / "combiner.pt", "Combiner", combiner(16).state_dict()),
    ]
    with pytest.raises(
        UnreadableInput, match=r"text_projection_layer.weight has the shape \[12, 16\], not"
    ):
        import_weights(files, tmp_path / "out", dataset="fashioniq", weights=weights)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def blip_weights(blip: BlipReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tokenizer's file, while BLIP's sizes and recipes are the small ones."""
    sizes = BlipSizes(**{**blip.about["sizes"], "name": "blip-base"})
    monkeypatch.setitem(SIZES, "blip-base", sizes)
    monkeypatch.setitem(SIZES, "blip-large", replace(sizes, name="blip-large", squeeze=True))
    for name, widths in (
        ("bi-blip4cir-cirr", {"projection": 12, "hidden": 20}),
        ("covr-blip-fashioniq", {}),
    ):
        small = replace(system_recipe(name), size=sizes.size, **widths)
        monkeypatch.setitem(system_recipes.SYSTEM_RECIPES, name, small)
    file = tmp_path / "weights" / BERT_VOCABULARY
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(blip.about["words"]) + "\n", encoding="utf-8")
    return tmp_path / "weights"


def test_bi_blip4cir_ranks_with_the_directions_of_its_code(
    blip: BlipReference, blip_weights: Path, tmp_path: Path
) -> None:
    """Its images come from BLIP's own file, its texts from the tuned one."""
    trained = combiner()
    text = {name: value for name, value in blip.weights.items() if name.startswith("text_")}
    other = {name: value + 1.0 for name, value in text.items() if "position_ids" not in name}
    base = {**blip.weights, **other, "image_queue": torch.zeros(3)}
    files = [
        published(tmp_path / "tuned_blip_mean.pt", "BLIPTextEncoder", text),
        published(tmp_path / "model_base.pth", "model", base),
        published(tmp_path / "combiner_mean.pt", "Combiner", trained.state_dict()),
    ]
    out = tmp_path / "bi"
    import_weights(files, out, dataset="cirr", weights=blip_weights)
    system = load_retriever(out, blip_weights, CPU).retriever
    system.train(mode=False)
    plain = empty_blip(blip, Blip)
    plain.load_state_dict(blip_tensors(blip.weights, plain.state_dict(), out))
    directed = plain.text_vectors(["[forward] is red and [forward] more striped", "[forward] a"])
    expected = trained(blip.outputs["image"], directed)
    query = system.compose(system.image_tokens(blip.pixels), ["is red and more striped", "a"])
    torch.testing.assert_close(query, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("key", "prefix", "squeeze"), [("model", "module.", True), ("BLIP_Retrieval", "", False)]
)
def test_covr_blip_ranks_as_blips_code_with_untuned_images(
    blip: BlipReference, blip_weights: Path, tmp_path: Path, key: str, prefix: str, squeeze: bool
) -> None:
    named = {f"{prefix}{name}": value for name, value in blip.weights.items()}
    file = published(tmp_path / "ckpt_5.ckpt", key, named, scheduler={"last_epoch": 5})
    out = tmp_path / "covr"
    import_weights([file], out, dataset="fashioniq", weights=blip_weights)
    system = load_retriever(out, blip_weights, CPU).retriever
    system.train(mode=False)
    assert system.preprocessing.squeeze == squeeze
    # SPN4CIR's code cleans no text; CoVR's makes it lower case and leaves punctuation out.
    assert (system.clean_text("Is red.") == "Is red.") == (key == "BLIP_Retrieval")
    tokens = system.image_tokens(blip.pixels)
    query = system.compose(tokens[[0, 1, 0]], blip.about["texts"])
    expected = F.normalize(blip.outputs["fused"], dim=1)
    torch.testing.assert_close(query, expected, atol=1e-5, rtol=1e-5)
    images = F.normalize(blip.outputs["image"], dim=1)
    torch.testing.assert_close(system.gallery(tokens)[:, 0], images, atol=1e-5, rtol=1e-5)


def test_a_known_file_says_its_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = published(tmp_path / "renamed.pt", "Combiner", {"a": torch.zeros(1)})
    digest = sha1(path.read_bytes()).hexdigest()
    unknown = read_published(path)
    assert unknown.description == f"unknown file, SHA-1 {digest}"
    with pytest.raises(UnreadableInput, match="--dataset fashioniq or --dataset cirr"):
        dataset_of([unknown], None)
    monkeypatch.setitem(KNOWN, digest, Known("someone's combiner", "cirr"))
    known = read_published(path)
    assert known.description == "someone's combiner"
    assert dataset_of([known], None) == "cirr"
    with pytest.raises(UnreadableInput, match="someone's combiner for cirr, not fashioniq"):
        dataset_of([known], "fashioniq")


def test_files_of_two_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for dataset in ("fashioniq", "cirr"):
        path = published(tmp_path / f"{dataset}.pt", "Combiner", {dataset: torch.zeros(1)})
        digest = sha1(path.read_bytes()).hexdigest()
        monkeypatch.setitem(KNOWN, digest, Known(f"one of {dataset}", dataset))
        files.append(read_published(path))
    with pytest.raises(UnreadableInput, match=r"one of fashioniq and one of cirr, with different"):
        dataset_of(files, None)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["Combiner"], "'Combiner', which .* system; add CLIP4CIR's tuned CLIP.*add Bi-BLIP4CIR"),
        (["BLIPTextEncoder"], "'BLIPTextEncoder', which do not form one system; add Bi-BLIP4CIR's"),
        (["CLIP", "model"], "'CLIP', 'model', which do not form one system; name the files of one"),
        (["CLIP", "CLIP"], "is the second file with 'CLIP'"),
    ],
)
def test_files_that_make_no_system(tmp_path: Path, keys: list[str], message: str) -> None:
    files = [PublishedFile(tmp_path / str(i), key, {}, "") for i, key in enumerate(keys)]
    with pytest.raises(UnreadableInput, match=message) as error:
        layout_of(files)
    assert "\n" not in str(error.value)


class RunsCode:
    """A pickle of it calls `print`."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return print, ("code in a pickle ran",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"CLIP": {}, "config": RunsCode()}, "could run code, and is not read"),
        ({"state_dict": {}, "epoch": 3}, "has the keys state_dict, epoch; a known file has one of"),
        ([torch.zeros(1)], "is not a dictionary; a known file has one of CLIP"),
        ({"CLIP": 3}, "holds no weights under 'CLIP'"),
    ],
)
def test_a_file_of_another_layout_is_refused(
    tmp_path: Path, content: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(content, tmp_path / "file.pt")
    with pytest.raises(UnreadableInput, match=message) as error:
        read_published(tmp_path / "file.pt")
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


def test_a_cut_file_is_refused(clip: ClipReference, tmp_path: Path) -> None:
    path = published(tmp_path / "file.pt", "CLIP", clip.weights)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(UnreadableInput, match="is damaged"):
        read_published(path)
    with pytest.raises(UnreadableInput, match="there is no such file"):
        read_published(tmp_path / "other.pt")


def test_only_tensors_are_kept(tmp_path: Path) -> None:
    path = published(tmp_path / "file.pt", "CLIP", {"a": torch.ones(2), "version": "3"})
    assert list(read_published(path).tensors) == ["a"]


def test_every_system_with_a_recipe_has_a_layout() -> None:
    names = {recipe.system for recipe in system_recipes.SYSTEM_RECIPES.values()}
    assert names - {"mapnet"} <= {layout.system for layout in LAYOUTS}
