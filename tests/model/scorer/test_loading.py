"""A checkpoint is loaded as a scorer, or refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, urls
from hsfiq.model.scorer.loading import load_scorer, new_scorer
from hsfiq.model.scorer.scorer import Scorer, trained_parameters
from tests.model.scorer.helpers import CPU, SMALL, Drawn, FinishedRun, train

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = replace(SMALL, epochs=2, n_def=1)


@pytest.fixture(scope="module")
def trained(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run of two epochs."""
    torch.set_num_threads(1)
    return train(drawn, tmp_path_factory.mktemp("loading") / "run", BRIEF)


@pytest.fixture
def copied(trained: FinishedRun, tmp_path: Path) -> Path:
    """A copy of its folder for one test."""
    return shutil.copytree(trained.out, tmp_path / "run")


def parameters(scorer: Scorer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in trained_parameters(scorer).items()}


def alter(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = folder / "best.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    return path


def test_a_saved_scorer_is_loaded(trained: FinishedRun) -> None:
    for path, checkpoint in (
        (trained.out, trained.best),
        (trained.out / "best.json", trained.best),
        (trained.out / "last.json", trained.last),
    ):
        loaded = load_scorer(path, None, CPU)
        assert (loaded.recipe, loaded.checkpoint) == (BRIEF, checkpoint)
        saved, ours = checkpoint.tensors("scorer"), parameters(loaded.scorer)
        assert ours.keys() == saved.keys()
        assert all(ours[name].equal(saved[name]) for name in saved)
        untrained = parameters(new_scorer(BRIEF, None))
        assert not all(ours[name].equal(untrained[name]) for name in saved)


def test_scores_do_not_depend_on_earlier_draws(trained: FinishedRun) -> None:
    tokens = torch.rand(3, *new_scorer(BRIEF, None).encoder.tokens_shape)
    vectors = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        encoder = load_scorer(trained.out, None, CPU).scorer.encoder
        with torch.no_grad():
            texts = ["is red", "has dots", ""]
            vectors.append((encoder.compose(tokens, texts), encoder.gallery(tokens)))
    assert all(first.equal(second) for first, second in zip(*vectors, strict=True))


def test_a_recipe_starts_its_scorer_from_its_seed() -> None:
    first, second, other_seed = (
        parameters(new_scorer(replace(BRIEF, seed=seed), None)) for seed in (1, 1, 2)
    )
    assert all(first[name].equal(second[name]) for name in first)
    assert not all(first[name].equal(other_seed[name]) for name in first)


def test_pooling_and_padding_come_from_the_recipe() -> None:
    scorer = new_scorer(replace(BRIEF, pooling="mean", pad_ratio=1.5), None)
    assert scorer.pooling == "mean"
    assert scorer.encoder.preprocessing.pad_ratio == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about.pop("recipe"), "best.json: recipe"),
        (lambda about: about["recipe"].pop("pooling"), "best.json: recipe"),
        (lambda about: about["recipe"].update(encoder="huge"), "best.json: recipe"),
        (lambda about: about.pop("encoder"), "best.json: does not record its training data"),
        (lambda about: about.update(data=None), "best.json: does not record its training"),
        (lambda about: about["encoder"].update(frozen_sha256="0" * 64), "best.json: was trained"),
        (lambda about: about["recipe"].update(size=224), "encoder tiny takes images of 96 pixels"),
    ],
)
def test_an_incomplete_json_file_is_refused(
    copied: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(UnreadableInput) as error_info:
        load_scorer(alter(copied, change), None, CPU)
    assert message in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_tensors_of_another_encoder(copied: Path, trained: FinishedRun) -> None:
    tensors = trained.best.tensors("scorer")
    first, *remaining = sorted(tensors)
    for invalid in (
        {name: tensors[name] for name in remaining},
        {**tensors, "more": torch.zeros(1)},
        {**tensors, first: torch.zeros(1, 1, 1)},
    ):
        written = trained.best.about
        about = {key: written[key] for key in written.keys() - {"format", "files"}}
        checkpoints.save(copied, "best", about, {"scorer": invalid})
        with pytest.raises(UnreadableInput, match=r"best\.json") as error_info:
            load_scorer(copied, None, CPU)
        assert "\n" not in str(error_info.value)


def test_blip2_needs_its_weights_and_lavis(copied: Path, tmp_path: Path) -> None:
    path = alter(copied, lambda about: about["recipe"].update(encoder="blip2-vitL", size=224))
    with pytest.raises(
        UnreadableInput, match=r"blip2-vitL lacks .*https://.*--weights"
    ) as error_info:
        load_scorer(path, tmp_path / "weights", CPU)
    assert "\n" not in str(error_info.value)
    for file in urls(ARCHITECTURES["blip2-vitL"]):
        (tmp_path / "weights" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "weights" / file).touch()
    with pytest.raises(HsfiqError, match=r"lavis is not installed.*'hsfiq\[lavis\]'"):
        load_scorer(path, tmp_path / "weights", CPU)
