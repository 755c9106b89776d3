"""Participants who contradict themselves weigh less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hsfiq.errors import NothingToDo
from hsfiq.model import checkpoints
from hsfiq.model.preference.answer_model import fit_answers
from hsfiq.model.preference.answers import (
    PRIOR_ANSWERS,
    Question,
    answer_tensors,
    dropped_contradictions,
    reliability_weights,
)
from hsfiq.model.preference.training import Retraining, set_scores
from hsfiq.releases.folder import ReleasedSet
from tests.model.preference.helpers import QUICK, Answered

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("retrained scorer")]


def question(name: str, scores: tuple[int, int], preferred: int) -> Question:
    released_set = ReleasedSet("s", "q", "r", "text", ("i",))
    return Question("q", name, (released_set, released_set), preferred, scores, "train")


def test_contradicting_participants_weigh_less() -> None:
    questions = [
        *(question("sure", (4, 2), 1) for _ in range(30)),
        *(question("random", (4, 2), 1 + i % 2) for i in range(30)),
        *(question("equal", (3, 3), 1) for _ in range(30)),
    ]
    share = 15 / 60
    prior = PRIOR_ANSWERS
    reliability = reliability_weights(questions, {})
    assert reliability == {
        "sure": pytest.approx(1 - 2 * prior * share / (30 + prior)),
        "random": pytest.approx(1 - 2 * (15 + prior * share) / (30 + prior)),
        "equal": pytest.approx(1 - 2 * share),
    }
    assert reliability["random"] < reliability["equal"] < reliability["sure"]
    # Answers that the filter dropped count too.
    assert reliability_weights(questions, {"sure": 20})["sure"] < reliability["sure"]
    weights = answer_tensors(questions, reliability).weights
    assert weights.mean().item() == pytest.approx(1)
    with pytest.raises(NothingToDo, match="all participants contradict themselves"):
        answer_tensors(questions, dict.fromkeys(reliability, 0.0))


def test_dropped_contradictions_are_counted(release: Path) -> None:
    path = release / "exclusions.parquet"
    row = {"question_id": "q", "query_id": "t", "value": "v"}
    dropped = [("a", "contradicts"), ("a", "contradicts"), ("b", "irrelevant")]
    table = [{**row, "participant_id": name, "rule": rule} for name, rule in dropped]
    pq.write_table(pa.Table.from_pylist(table, schema=pq.read_schema(path)), path)
    assert dropped_contradictions(release) == {"a": 2}


def test_reliability_changes_the_training(answered: Answered, out: Path, tmp_path: Path) -> None:
    weighed = answered.retrain(tmp_path / "out", replace(QUICK, reliability="on"))
    assert weighed.sha256 != checkpoints.read(out).sha256


def test_answer_model_is_fitted_to_the_current_scorer(retraining: Retraining) -> None:
    sets = set_scores(retraining.questions, retraining.scorer, retraining.inference)
    expected = fit_answers(sets, retraining.answers, QUICK.offset_sd)
    torch.testing.assert_close(retraining.fit().preferences.values, expected.preferences.values)
