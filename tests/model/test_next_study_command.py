"""`hsfiq study next --checkpoint`: opinions of trained scorers, and the study chosen by them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch

from hsfiq.demo.study import NAME, database_url
from hsfiq.drawn import catalogue, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import ANSWER_MODEL
from hsfiq.model.informative_pairs import (
    FITTED,
    OWN,
    RATE,
    SAMPLES,
    ExpectedAnswers,
    dropout_masks,
    opinions,
    prior_of,
    uncertainty,
)
from hsfiq.model.release_scores import encode_images, score_sets
from hsfiq.model.retrieval.loading import retriever_of
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.next_study import Candidate, Candidates, PossibleSet
from hsfiq.releases.folder import read_sets
from hsfiq.study.config import Design
from tests.model.preference.helpers import QUICK, Answered
from tests.model.scorer.helpers import CPU, CommandResult, files_below, hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]


@pytest.fixture(scope="module")
def retrained(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scorer retrained on the release's answers."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("retrained") / "out"
    answered.retrain(out)
    return out


@pytest.fixture
def study(answered: Answered, tmp_path: Path) -> str:
    """The URL of a copy of the database with the answered study."""
    shutil.copyfile(answered.pictures.parent / "hsfiq.db", tmp_path / "hsfiq.db")
    return database_url(tmp_path)


def next_study(answered: Answered, url: str, *words: str | Path) -> CommandResult:
    return hsfiq("study", "next", "--database", url, "--cache", answered.cache, "--n", "12", *words)


def test_a_sample_without_dropout_is_the_sets_score(answered: Answered) -> None:
    loaded = load_scorer(answered.init, None, CPU)
    sets = read_sets(answered.release)[:40]
    files = {path.stem: path for path in answered.pictures.iterdir()}
    inference, encoded = encode_images(retriever_of(loaded), files, answered.cache, CPU, Callback())
    possible = [
        PossibleSet(released_set.reference, released_set.text, released_set.images)
        for released_set in sets
    ]
    sampled = opinions(possible, None, loaded.recipe.pooling, inference)
    scored = score_sets(sets, encoded, loaded.recipe.pooling, inference)
    assert sampled.shape == (1, 40)
    assert sampled[0].tolist() == pytest.approx([score for _, score in scored.sets], abs=1e-6)


def test_dropout_keeps_the_score_on_average(answered: Answered) -> None:
    loaded = load_scorer(answered.init, None, CPU)
    sets = [
        PossibleSet(released_set.reference, released_set.text, released_set.images)
        for released_set in read_sets(answered.release)
    ]
    files = {path.stem: path for path in answered.pictures.iterdir()}
    inference, _ = encode_images(retriever_of(loaded), files, answered.cache, CPU, Callback())
    drawing = torch.Generator().manual_seed(1)
    sampled = opinions(sets, drawing, loaded.recipe.pooling, inference)
    plain = opinions(sets, None, loaded.recipe.pooling, inference)[0]
    assert sampled.shape == (SAMPLES, len(sets))
    assert sampled.std(dim=0).min() > 0
    assert torch.corrcoef(torch.stack([sampled.mean(dim=0), plain]))[0, 1] > 0.8
    repeated = opinions(sets, torch.Generator().manual_seed(1), loaded.recipe.pooling, inference)
    assert torch.equal(sampled, repeated)


def test_masks_drop_a_share_and_rescale_the_rest() -> None:
    masks = dropout_masks(4000, torch.Generator().manual_seed(0))
    assert masks.unique().tolist() == pytest.approx([0.0, 1 / (1 - RATE)])
    assert fmean(masks.flatten().tolist()) == pytest.approx(1, abs=0.02)


def test_prior_of_a_retrained_scorer_is_its_answer_model(
    answered: Answered, retrained: Path
) -> None:
    prior = prior_of(load_scorer(retrained, None, CPU))
    fitted = json.loads((retrained / ANSWER_MODEL).read_text())["after"]
    assert (prior.source, prior.slope) == (FITTED, fitted["slope"]["value"])
    assert prior.thresholds == tuple(threshold["value"] for threshold in fitted["thresholds"])
    before = prior_of(load_scorer(answered.init, None, CPU))
    assert (before.source, before.thresholds) == (OWN, None)
    assert before.slope == pytest.approx(1 / 0.07)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{}",
        "[]",
        '{"after": {"slope": {"value": "much"}}}',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_broken_answer_models_are_refused(
    retrained: Path, tmp_path: Path, content: str | None
) -> None:
    copy = shutil.copytree(retrained, tmp_path / "copy")
    if content is None:
        (copy / ANSWER_MODEL).unlink()
    else:
        (copy / ANSWER_MODEL).write_text(content)
    with pytest.raises(UnreadableInput, match="is not the answer model of a retraining"):
        prior_of(load_scorer(copy, None, CPU))


def test_one_scorer_samples_by_dropout(answered: Answered, retrained: Path, study: str) -> None:
    words = ("--checkpoint", retrained, "--release", answered.release, "--json")
    command = next_study(answered, study, *words)
    assert command.code == 0
    result = command.result
    assert (result["study"], result["pairs"], result["questions"]) == (f"{NAME}-2", 12, 12)
    assert set(result["categories"].values()) == {4}
    assert set(result["systems"].values()) == {6}
    assert result["expected_information"] > result["expected_information_of_random"] > 0
    assert result["chosen_by"]["answer_model"] == FITTED
    assert result["uncertainty"]["answer_model"] == FITTED
    assert result["chosen_by"]["uncertainty"] == f"MC-dropout, rate {RATE}"
    sha256 = load_scorer(retrained, None, CPU).checkpoint.sha256
    assert result["chosen_by"]["scorers"] == [sha256]
    assert result["held_out_triplets"] > 0
    assert result["missing_images"] == []


def test_an_ensemble_chooses_the_same_pairs_again(
    answered: Answered, retrained: Path, study: str, tmp_path: Path
) -> None:
    answered.retrain(tmp_path / "second", replace(QUICK, epochs=1, seed=5))
    words = ("--checkpoint", retrained, "--checkpoint", tmp_path / "second")
    first = next_study(answered, study, *words, "--json").result
    assert first["chosen_by"]["uncertainty"] == "ensemble"
    assert first["chosen_by"]["opinions"] == 2
    assert first["chosen_by"]["answer_model"] == FITTED
    shutil.copyfile(answered.pictures.parent / "hsfiq.db", tmp_path / "other.db")
    second = next_study(answered, f"sqlite:///{tmp_path / 'other.db'}", *words, "--json").result
    assert second == first
    text = next_study(answered, study, *words, "--name", "third", "--study", NAME)
    assert f"(ensemble; {FITTED})" in text.out


def test_ensembles_of_mixed_kinds_refused(answered: Answered, retrained: Path, study: str) -> None:
    command = next_study(answered, study, "--checkpoint", retrained, "--checkpoint", answered.init)
    assert (command.code, command.out) == (2, "")
    assert "retrain all scorers of an ensemble, or none" in command.err


def test_random_choice_with_a_scorer_reports_its_information(
    answered: Answered, retrained: Path, study: str
) -> None:
    words = ("--checkpoint", retrained, "--strategy", "random", "--json")
    result = next_study(answered, study, *words).result
    assert result["expected_information"] == result["expected_information_of_random"] > 0
    assert result["chosen_by"] == {"strategy": "random", "seed": 0}


@pytest.mark.parametrize("words", [("--images", "empty"), ("--images", "nowhere")])
def test_no_study_is_made_without_images(
    answered: Answered, retrained: Path, study: str, tmp_path: Path, words: tuple[str, str]
) -> None:
    (tmp_path / "empty").mkdir()
    before = files_below(tmp_path)
    command = next_study(answered, study, "--checkpoint", retrained, words[0], tmp_path / words[1])
    assert (command.code, command.out) == (2, "")
    assert len(command.err.splitlines()) == 1
    assert files_below(tmp_path) == before


def test_same_scorer_twice_is_refused(answered: Answered, retrained: Path, study: str) -> None:
    command = next_study(
        answered, study, "--checkpoint", retrained, "--checkpoint", retrained / "last.json"
    )
    assert command.code == 2
    assert "is the same scorer as" in command.err


def test_pairs_that_lack_an_image_are_excluded(answered: Answered, tmp_path: Path) -> None:
    garments = [garment.image_id for garment in catalogue(generator(1, "catalogue"), 4)][:8]
    write_images(catalogue(generator(1, "catalogue"), 4)[:8], tmp_path / "images")
    next((tmp_path / "images").glob(f"{garments[7]}.*")).unlink()
    sets = tuple(
        PossibleSet(garments[0], "is red", (first, second))
        for first, second in ((garments[1], garments[2]), (garments[3], garments[4]),
                           (garments[5], garments[7]))
    )  # fmt: skip
    pairs = tuple(
        Candidate(1, 1, "dress", (i + 1, j + 1), (i, j)) for i, j in ((0, 1), (0, 2), (1, 2))
    )
    result = uncertainty(
        [answered.init],
        ScorerPaths(images=tmp_path / "images", cache=answered.cache),
        Candidates(sets, pairs, {1: "a", 2: "b", 3: "c"}, 0, 0),
        ExpectedAnswers.of(Design(annotators_per_query=3, overlap_share=0.5)),
        seed=0,
        device=CPU,
        callback=Callback(),
    )
    assert result.pairs == pairs[:1]
    assert result.missing == (garments[7],)
    assert (result.about["answers_per_pair"], result.about["ties"]) == (2.0, "not counted")
    assert result.latents.shape == (SAMPLES, 1, 1)
