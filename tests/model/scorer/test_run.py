"""The model card of a scorer that was trained on triplets; test_resuming.py reads one whole."""

from __future__ import annotations

from pathlib import Path

from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.scorer.run import judgements


def test_answers_that_the_initial_scorer_learned_from_are_named() -> None:
    release = {"name": "drawn", "version": "1.0.0", "content_sha256": "0" * 64}
    started = Checkpoint(Path("best.json"), {"earlier_releases": [release]})
    (text,) = judgements(started)
    assert text.endswith("on the answers of drawn 1.0.0.")
    (text,) = judgements(Checkpoint(Path("best.json"), {"earlier_releases": []}))
    assert "no human judgement" in text
