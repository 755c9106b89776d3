"""A retrained scorer, and a retraining that has not started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from hsfiq.model.image_tokens import FeatureCache
from hsfiq.model.preference.answers import answer_tensors, read_answers
from hsfiq.model.preference.training import Retraining
from hsfiq.model.scorer.loading import load_scorer
from tests.model.preference.helpers import QUICK, Answered
from tests.model.scorer.helpers import CPU, ONE_PROCESS


@pytest.fixture(scope="session")
def out(answered: Answered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A retraining's folder."""
    folder = tmp_path_factory.mktemp("retrained") / "out"
    answered.retrain(folder)
    return folder


@pytest.fixture
def release(answered: Answered, tmp_path: Path) -> Path:
    """A copy of the release for one test."""
    return shutil.copytree(answered.release, tmp_path / "hp")


@pytest.fixture(scope="module")
def retraining(answered: Answered) -> Retraining:
    """A retraining that has not started."""
    questions = read_answers(answered.release).part("train")
    loaded = load_scorer(answered.init, None, CPU)
    tokens = FeatureCache.open(answered.cache, loaded.scorer.encoder)
    files = {path.stem: path for path in answered.pictures.iterdir()}
    tokens.fill(files, device=CPU)
    answers = answer_tensors(questions, {question.participant: 1.0 for question in questions})
    return Retraining(
        loaded.scorer, loaded.recipe, QUICK, questions, answers, tokens, ONE_PROCESS, torch.float32
    )
