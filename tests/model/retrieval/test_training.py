"""The training loop of the systems: stages, resuming, texts and batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import FeatureCache, TokenSource
from hsfiq.model.retrieval import clip4cir
from hsfiq.model.retrieval.clip4cir import Clip4cir
from hsfiq.model.retrieval.loading import load_retriever, new_system
from hsfiq.model.retrieval.system_card import PAPERS, VARIANTS
from hsfiq.model.retrieval.training import StageTrainer, with_fewer_triplets
from hsfiq.model.runtime import Distributed, Diverged
from hsfiq.model.scorer.job import Callback, RunFolder, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import SYSTEM_RECIPES
from tests.model.retrieval.helpers import SMALL, StopAt, Stopped, train, train_system
from tests.model.scorer.helpers import CPU, ONE_PROCESS, Drawn, Recorder, files_below

pytestmark = pytest.mark.usefixtures("one_thread")

N_STEPS = 3
"""Of an epoch: 60 triplets in full batches of 16."""


@pytest.mark.parametrize(
    ("nth", "save_every"),
    [
        (2, 600.0),  # before any checkpoint
        (2, 0.0),
        (N_STEPS + 2, 0.0),  # in the second epoch of stage 1
        (2 * N_STEPS + 1, 600.0),  # in stage 2, before a checkpoint of it
        (2 * N_STEPS + 2, 0.0),
    ],
)
def test_a_stopped_run_resumes_exactly(
    drawn: Drawn, clip4cir: Path, losses: list[float], tmp_path: Path, nth: int, save_every: float
) -> None:
    stopped = StopAt(nth)
    with pytest.raises(Stopped):
        train(drawn, tmp_path / "run", callback=stopped, save_every=save_every)
    resumed = StopAt(0)
    train(drawn, tmp_path / "run", callback=resumed)
    assert resumed.losses == losses[-len(resumed.losses) :]
    assert len(losses) - len(resumed.losses) <= nth
    for name in ("stage-1/last.json", "stage-1/best.json", "last.json", "best.json"):
        assert (tmp_path / "run" / name).read_bytes() == (clip4cir / name).read_bytes()


def test_a_finished_run_is_left_alone(drawn: Drawn, clip4cir: Path) -> None:
    before = files_below(clip4cir)
    train(drawn, clip4cir)
    assert files_below(clip4cir) == before


def test_the_card_says_what_was_trained_on_what(clip4cir: Path) -> None:
    card = (clip4cir / "README.md").read_text()
    best = read(clip4cir)
    assert "\ntags: [composed-image-retrieval, clip4cir, drawn]\n" in card
    assert "drawn garments" in card
    assert "without human or simulated judgements" in card
    assert "- the drawn catalogue: 60 of 60 training triplets" in card
    assert f"| recall@5 | {best.about['progress']['epochs'][-1]['val']['recall@5']:.4f} |" in card
    assert "- `backbone`: tiny instead of clip-rn50x4" in card
    assert "stage 1 of 2" in (clip4cir / "stage-1" / "README.md").read_text()


def test_every_system_has_its_paper_and_variants() -> None:
    for recipe in SYSTEM_RECIPES.values():
        assert recipe.system in PAPERS
        assert set(VARIANTS[recipe.system]) <= set(recipe.kinds())
    assert "in the spirit of MAPNet" in PAPERS["mapnet"]


def test_another_run_in_the_folder_is_refused(drawn: Drawn, clip4cir: Path) -> None:
    with pytest.raises(UnreadableInput, match="holds a run with other recipe"):
        train(drawn, clip4cir, replace(SMALL, lr=(1e-4, 1e-4)))


def test_a_stage_trains_its_own_parameters_alone(drawn: Drawn, clip4cir: Path) -> None:
    start = new_system(SMALL, None).state_dict()
    first = read(clip4cir / "stage-1").tensors("scorer")
    second = read(clip4cir).tensors("scorer")
    unused = ("cross_attention", "norm_cross")  # CLIP4CIR's texts do not read images
    for name in (name for name in first if not any(part in name for part in unused)):
        is_combiner = name.startswith("combiner.")
        assert first[name].equal(start[name]) == is_combiner
        assert second[name].equal(first[name]) != is_combiner


def test_a_stage_with_frozen_images_trains_on_their_vectors(
    drawn: Drawn, clip4cir: Path, tokens: TokenSource, losses: list[float], tmp_path: Path
) -> None:
    recorder = Recorder()
    train(drawn, tmp_path / "uncached", callback=recorder, cached=False)
    assert recorder.losses == pytest.approx(losses, rel=1e-3)
    system = load_retriever(clip4cir, None, CPU).retriever
    assert isinstance(system, Clip4cir)
    vectors = system.training_encoder()
    assert vectors.tokens_shape == (1, system.backbone.dim)
    images = list(drawn.data.images)[:4]
    cache = FeatureCache.open(drawn.cache, vectors)
    cache.fill({image: drawn.data.images[image] for image in images}, device=CPU)
    system.eval()
    with torch.no_grad():
        slow = system.compose(tokens.tokens(images), ["is red"] * 4)
        fast = system.compose(cache.tokens(images), ["is red"] * 4)
    torch.testing.assert_close(fast, slow, atol=2e-3, rtol=0)


def test_texts_of_directions_are_drawn_apart(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path
) -> None:
    trainer = stage_trainer(drawn, tokens, tmp_path)
    batch = next(trainer.batches(0, 0))
    assert batch.texts != batch.reversed_texts
    captions = {example.triplet_id: example.captions for example in drawn.data.train}
    for triplet_id, *texts in zip(
        batch.triplet_ids, batch.texts, batch.reversed_texts, strict=True
    ):
        first, second = (normalise(caption.strip(".?, ")) for caption in captions[triplet_id])
        joined = {first, second, f"{first} and {second}", f"{second} and {first}"}
        assert {text.lower() for text in texts} <= joined


def test_a_resumed_epoch_reads_the_batches_that_are_left(
    drawn: Drawn, tokens: TokenSource, tmp_path: Path
) -> None:
    trainer = stage_trainer(drawn, tokens, tmp_path)
    everything, rest = list(trainer.batches(1, 0)), list(trainer.batches(1, 1))
    assert [batch.triplet_ids for batch in everything[1:]] == [batch.triplet_ids for batch in rest]
    assert len(everything) == N_STEPS
    ids = [triplet_id for batch in everything for triplet_id in batch.triplet_ids]
    assert len(set(ids)) == len(ids) == 16 * N_STEPS


def test_a_loss_that_is_not_finite_ends_the_run(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clip4cir, "contrastive", lambda logits: logits.sum() * torch.nan)
    with pytest.raises(Diverged, match=r"stage 1, epoch 0, step 0: .* in contrastive; no .*; try"):
        train(drawn, tmp_path / "run")


def test_fewer_triplets_are_drawn_from_the_seed(drawn: Drawn) -> None:
    ten = with_fewer_triplets(drawn.data, replace(SMALL, triplets=10)).train
    twenty = with_fewer_triplets(drawn.data, replace(SMALL, triplets=20)).train
    assert (len(ten), len(twenty)) == (10, 20)
    assert set(ten) < set(twenty) < set(drawn.data.train)
    assert set(with_fewer_triplets(drawn.data, replace(SMALL, triplets=10, seed=1)).train) != set(
        ten
    )
    assert with_fewer_triplets(drawn.data, replace(SMALL, triplets=60)) == drawn.data


def test_several_processes_are_refused(drawn: Drawn, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="clip4cir trains in one process"):
        train_system(
            SMALL,
            TrainingJob(drawn.data, tmp_path, ScorerPaths(), Distributed(CPU, 0, 2), Callback()),
        )


def test_training_starts_from_a_checkpoint(drawn: Drawn, clip4cir: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(drawn, tmp_path / "run", callback=StopAt(2), init=clip4cir, save_every=0.0)
    assert read(tmp_path / "run" / "stage-1").about["init_sha256"] == read(clip4cir).sha256


def stage_trainer(drawn: Drawn, tokens: TokenSource, folder: Path) -> StageTrainer:
    system = new_system(SMALL, None)
    system.begin(1)
    run = RunFolder(folder, {}, {})
    job = TrainingJob(drawn.data, folder, ScorerPaths(), ONE_PROCESS, Callback())
    return StageTrainer(system, SMALL.stages[0], job, tokens, run)
