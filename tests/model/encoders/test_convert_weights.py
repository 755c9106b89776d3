"""LAVIS' tensors are converted to transformers' and back; mismatches are named in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertTokenizer, Blip2ForImageTextRetrieval

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import ANSWER_MODEL
from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, CLIP_L, read_tensors
from hsfiq.model.encoders.hf import lavis_only, to_hf, to_lavis
from hsfiq.model.encoders.hf_conversion import atomic_folder, convert, hf_to_lavis, lavis_to_hf
from tests.model.encoders.lavis_reference import SMALL, VIT, Reference, write_reference
from tests.model.evaluation.helpers import refusal
from tests.model.scorer.helpers import files_below, hsfiq

pytestmark = pytest.mark.xdist_group("converted weights")


@pytest.fixture(autouse=True)
def _published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the small model as a published one."""
    monkeypatch.setitem(ARCHITECTURES, SMALL.name, SMALL)


@pytest.fixture
def lavis(tmp_path: Path) -> Path:
    """LAVIS' files."""
    return write_reference(tmp_path / "lavis")


@pytest.fixture
def hf(lavis: Path, tmp_path: Path) -> Path:
    """transformers' folder made of them."""
    lavis_to_hf(SMALL, lavis, tmp_path / "hf")
    return tmp_path / "hf"


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert ours[name].equal(tensor), name


def test_converting_both_ways_is_the_identity(reference: Reference) -> None:
    converted = to_hf(reference.weights, "here")
    assert_same(to_lavis(converted, "there") | lavis_only(reference.weights), reference.weights)
    assert_same(to_hf(to_lavis(converted, "there"), "here"), converted)


def test_the_key_bias_is_zero_between_query_and_value(reference: Reference) -> None:
    block = f"{VIT}blocks.1.attn"
    joint = to_hf(reference.weights, "here")["vision_model.encoder.layers.1.self_attn.qkv.bias"]
    query, key, value = joint.chunk(3)
    assert query.equal(reference.weights[f"{block}.q_bias"])
    assert value.equal(reference.weights[f"{block}.v_bias"])
    assert not key.any()
    joint[30] = 0.5
    with pytest.raises(UnreadableInput, match=r"qkv\.bias has a bias for keys, and LAVIS has none"):
        to_lavis({"vision_model.encoder.layers.1.self_attn.qkv.bias": joint}, "there")


@settings(max_examples=25)
@given(
    name=st.text(max_size=40) | st.sampled_from(["visual_encoder.blocks.1.norm3.weight", "a.1.b"])
)
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(UnreadableInput, match="unknown to LAVIS'"):
        to_hf({f"x{name}": torch.zeros(1)}, "here")
    with pytest.raises(UnreadableInput, match="unknown to transformers'"):
        to_lavis({f"x{name}": torch.zeros(1)}, "there")


def test_transformers_loads_the_folder(reference: Reference, hf: Path) -> None:
    model, loading_info = Blip2ForImageTextRetrieval.from_pretrained(
        hf, local_files_only=True, output_loading_info=True
    )
    assert not any(loading_info.values())
    assert_same(
        {name: weight.float() for name, weight in model.state_dict().items()},
        {name: weight.float() for name, weight in to_hf(reference.weights, "here").items()},
    )
    tokenizer = BertTokenizer.from_pretrained(hf, local_files_only=True)
    for text, ids in reference.about["tokenized"]:
        assert tokenizer(text, truncation=True, max_length=32).input_ids == ids


def test_the_files_survive_the_round_trip(lavis: Path, hf: Path, tmp_path: Path) -> None:
    converted_back = tmp_path / "back"
    assert hf_to_lavis(hf, converted_back) == SMALL
    for file, key in ((SMALL.checkpoint, "model"), (str(SMALL.vit_file), None)):
        original = read_tensors(lavis / file, key)
        surplus = {"blocks.2.norm1.weight", "norm.bias"}  # what BLIP-2 does not use
        expected = {name: weight for name, weight in original.items() if name not in surplus}
        assert_same(read_tensors(converted_back / file, key), expected)
        assert (converted_back / file).stat().st_size < 1.1 * (lavis / file).stat().st_size
    texts = "bert-base-uncased"
    assert (converted_back / texts / "vocab.txt").read_text() == (
        lavis / texts / "vocab.txt"
    ).read_text()
    original, converted = (
        json.loads((folder / texts / "config.json").read_text())
        for folder in (lavis, converted_back)
    )
    assert original.items() <= converted.items()
    lavis_to_hf(SMALL, converted_back, tmp_path / "again")
    assert files_below(tmp_path / "again") == files_below(hf)


def test_a_folder_not_from_lavis_lacks_the_lavis_only_tensors(
    reference: Reference, hf: Path, tmp_path: Path
) -> None:
    (hf / "lavis.safetensors").unlink()
    (hf / "vocab.txt").unlink()
    hf_to_lavis(hf, tmp_path / "back")
    tensors = read_tensors(tmp_path / "back" / SMALL.checkpoint, "model")
    only_lavis = lavis_only(reference.weights).keys()
    vit = {name for name in reference.weights if name.startswith(VIT)}
    assert tensors.keys() == reference.weights.keys() - only_lavis - vit
    words = (tmp_path / "back" / "bert-base-uncased" / "vocab.txt").read_text().split()
    assert words == reference.about["words"]


def test_one_checkpoint_may_hold_the_image_encoder(reference: Reference, tmp_path: Path) -> None:
    combined = replace(SMALL, vit_file=None)
    lavis = write_reference(tmp_path / "lavis")
    torch.save({"model": reference.weights}, lavis / combined.checkpoint)
    lavis_to_hf(combined, lavis, tmp_path / "hf")
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    assert_same(tensors, to_hf(reference.weights, "here"))


def change(file: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    if file.suffix == ".safetensors":
        tensors = load_file(file)
        edit(tensors)
        save_file(tensors, file)
    else:
        content = torch.load(file)
        edit(content.get("model", content))
        torch.save(content, file)


def without(name: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.pop(name)


@pytest.mark.parametrize(
    ("file", "edit", "message"),
    [
        (SMALL.checkpoint, without("text_proj.bias"), "lacks text_proj.bias"),
        (SMALL.checkpoint, lambda tensors: tensors.update(head=tensors["temp"]), "has head, unkno"),
        (
            SMALL.checkpoint,
            lambda tensors: tensors.update({"text_proj.bias": torch.zeros(128)}),
            "text_projection.bias is [128], not [256]",
        ),
        (SMALL.checkpoint, lambda tensors: tensors.clear(), "lacks query_tokens, ln_vision.weight"),
        (SMALL.vit_file, without("cls_token"), "lacks visual_encoder.cls_token"),
        (SMALL.vit_file, without("blocks.0.attn.q_bias"), "blocks.0.attn.q_bias"),
        (SMALL.vit_file, without("blocks.0.attn.v_bias"), "blocks.0.attn.v_bias"),
        ("bert-base-uncased/vocab.txt", None, "[DEC]"),
    ],
)
def test_lavis_files_that_do_not_fit(
    lavis: Path,
    tmp_path: Path,
    file: str,
    edit: Callable[[dict[str, Tensor]], object] | None,
    message: str,
) -> None:
    if edit is None:
        (lavis / file).write_text((lavis / file).read_text().replace("[UNK]\n", ""))
        message = "lacks [UNK]"
    else:
        change(lavis / file, edit)
    with pytest.raises(UnreadableInput) as error_info:
        lavis_to_hf(SMALL, lavis, tmp_path / "out")
    line = str(error_info.value)
    assert line.startswith(f"{lavis / file}: ")
    assert message in line
    assert "\n" not in line
    assert {path.name for path in tmp_path.iterdir()} == {"lavis"}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tensors: tensors.pop("query_tokens"), "lacks query_tokens"),
        (lambda tensors: tensors.update(head=torch.zeros(3)), "has head, unknown to transformers'"),
        (lambda tensors: tensors.update(query_tokens=torch.zeros(1, 8, 16)), "is [1, 8, 16], not"),
    ],
)
def test_transformers_files_that_do_not_fit(
    hf: Path, tmp_path: Path, edit: Callable[[dict[str, Tensor]], object], message: str
) -> None:
    change(hf / "model.safetensors", edit)
    with pytest.raises(UnreadableInput) as error_info:
        hf_to_lavis(hf, tmp_path / "out")
    assert str(error_info.value).startswith(f"{hf / 'model.safetensors'}: ")
    assert message in str(error_info.value)
    assert not (tmp_path / "out").exists()


def test_clips_image_encoder_is_refused(lavis: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="blip2-small: has CLIP's image encoder"):
        lavis_to_hf(replace(SMALL, vit=CLIP_L), lavis, tmp_path / "out")


def write_and_fail(out: Path, name: str) -> None:
    with atomic_folder(out) as draft:
        (draft / name).touch()
        raise KeyError(name)


def test_a_folder_is_complete_or_absent(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for name, failure in (("half", KeyError), ("no/folder", UnreadableInput)):
        with pytest.raises(failure):
            write_and_fail(out, name)
        assert not out.parent.exists()
    with atomic_folder(out) as draft:
        (draft / "whole").touch()
    for existing in (out, Path()):
        with pytest.raises(UnreadableInput, match="exists already; name another --out"):
            atomic_folder(existing).__enter__()
    assert [path.name for path in out.iterdir()] == ["whole"]


def test_the_command_converts_both_ways(lavis: Path, tmp_path: Path) -> None:
    forward = hsfiq("weights", "convert", lavis, "--out", tmp_path / "hf", "--model", SMALL.name)
    assert (forward.code, forward.err) == (0, "")
    assert forward.out.startswith(f"{tmp_path / 'hf'}: blip2-small, from the layout of LAVIS")
    backward = hsfiq("weights", "convert", tmp_path / "hf", "--out", tmp_path / "back", "--json")
    expected = {"from": "transformers", "to": "LAVIS", "model": "blip2-small"}
    assert backward.result == {"out": str(tmp_path / "back"), **expected}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere: there is no such file or folder"),
        ((".",), "blip2-vitg lacks blip2_pretrained.pth (https://"),
        ((".", "--model", "blip2-huge"), "no BLIP-2 is named blip2-huge"),
    ],
)
def test_the_command_reports_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(hsfiq("weights", "convert", *words, "--out", "out"))
    assert not Path("out").exists()


def retrained(folder: Path, reference: Reference) -> Path:
    """The folder of a run of `hsfiq train preference` with LAVIS' model."""
    names = {"temperature": "temp", "lavis.query_tokens": "query_tokens"}
    tensors = {f"encoder.{ours}": reference.weights[lavis] for ours, lavis in names.items()}
    about = {"encoder": {"name": "blip2-vitg"}, "recipe": {"encoder": "blip2-vitg"}}
    retraining = {"preference": {"epochs": 8}}
    checkpoints.save(folder, checkpoints.LAST, about | retraining, {"scorer": tensors})
    (folder / ANSWER_MODEL).write_bytes(b'{"after": {"slope": {"value": 9.5}}}\r\n')
    return folder


def test_a_fitted_answer_model_is_copied(reference: Reference, tmp_path: Path) -> None:
    run = retrained(tmp_path / "run", reference)
    (tmp_path / "back").mkdir()
    convert(run, tmp_path / "hf")
    converted_back = convert(tmp_path / "hf" / "best.json", tmp_path / "back")
    for folder in ("hf", "back"):
        answer_model = (tmp_path / folder / ANSWER_MODEL).read_bytes()
        assert answer_model == (run / ANSWER_MODEL).read_bytes()
        (tensors,) = (tmp_path / folder).glob("*.safetensors")
        kept = {path.name for path in (tmp_path / folder).iterdir()}
        assert kept == {ANSWER_MODEL, "best.json", tensors.name}
    assert converted_back == checkpoints.read(tmp_path / "back")
    assert_same(converted_back.tensors("scorer"), checkpoints.read(run).tensors("scorer"))
    (run / ANSWER_MODEL).unlink()
    convert(run, tmp_path / "without")
    assert not (tmp_path / "without" / ANSWER_MODEL).exists()


def test_run_that_cannot_be_converted_leaves_nothing(reference: Reference, tmp_path: Path) -> None:
    run = retrained(tmp_path / "run", reference)
    out = run / "last.json" / "out"
    assert f"{out}: cannot be written (" in refusal(hsfiq("weights", "convert", run, "--out", out))
    change(next(run.glob("*.safetensors")), lambda tensors: tensors.clear())
    assert hsfiq("weights", "convert", run, "--out", tmp_path / "out").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
