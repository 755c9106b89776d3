"""A retraining in two processes is that of one, up to the order of additions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hsfiq.model import checkpoints
from tests.model.preference.helpers import QUICK, Answered, report_of, retrain_shared
from tests.model.scorer.helpers import Drawn, in_processes

pytestmark = pytest.mark.usefixtures("one_thread")


def test_two_processes_equal_one(answered: Answered, drawn: Drawn, tmp_path: Path) -> None:
    """The batches of 9 leave one question over, fewer than there are processes."""
    settings = replace(QUICK, epochs=1, batch=9, folds=2, mix=0.5)
    data = drawn.first(10)
    alone, together = tmp_path / "alone", tmp_path / "together"
    answered.retrain(alone, settings, data=data)
    in_processes(2, retrain_shared, answered, settings, data, together)
    first, second = (checkpoints.read(each).tensors("scorer") for each in (alone, together))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if not name.endswith("k.bias"):  # its gradient is 0 but for rounding, which AdamW scales up
            assert (tensor - second[name]).abs().max() < 2e-4, name
    ours, theirs = report_of(alone), report_of(together)
    assert ours["n_train"] == theirs["n_train"]
    assert ours["epochs"][0] == pytest.approx(theirs["epochs"][0], abs=1e-4)
    assert {path.suffix for path in alone.iterdir()} == {path.suffix for path in together.iterdir()}
    assert len(list(together.iterdir())) == len(list(alone.iterdir()))
