"""The loss against the other targets of a batch, and what its recipe refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import run
from hsfiq.model.scorer.scorer import bradley_terry_loss, in_batch_margins
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL, Drawn

IN_BATCH = replace(SMALL, strategy="in-batch", n_neg=None, epochs=2, n_def=1)


@pytest.mark.parametrize("n", [2, 7])
def test_the_loss_is_the_cross_entropy_of_each_row(n: int) -> None:
    logits = torch.randn(n, n, generator=torch.Generator().manual_seed(n)).mul(5).requires_grad_()
    loss = bradley_terry_loss(in_batch_margins(logits))
    slow = [
        -torch.log(row[i].exp() / sum(value.exp() for value in row)) for i, row in enumerate(logits)
    ]
    torch.testing.assert_close(loss, torch.stack(slow))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient, logits.softmax(dim=1) - torch.eye(n))


def test_a_triplet_alone_has_no_loss() -> None:
    logits = torch.tensor([[3.0]], requires_grad=True)
    loss = bradley_terry_loss(in_batch_margins(logits))
    assert loss.item() == 0
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.item() == 0


def test_a_run_ends_and_is_the_same_again(drawn: Drawn, tmp_path: Path) -> None:
    """The last batch of 14 triplets in 13s has one."""
    shas = []
    for name in ("first", "second"):
        paths = ScorerPaths(cache=drawn.cache)
        job = TrainingJob(drawn.first(14), tmp_path / name, paths, ONE_PROCESS, Callback())
        checkpoint = run(IN_BATCH, job)
        shas.append(checkpoint.sha256)
        (definition,) = checkpoint.about["progress"]["definitions"]
        assert definition["rule"] == "the other targets of the batch"
    assert shas[0] == shas[1]


def test_parts_of_a_batch_and_several_processes_are_refused(drawn: Drawn, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="needs accumulate=1"):
        replace(IN_BATCH, batch=12, accumulate=2)
    job = TrainingJob(
        drawn.data, tmp_path, ScorerPaths(cache=drawn.cache), Distributed(CPU, 0, 2), Callback()
    )
    with pytest.raises(UnreadableInput, match="strategy=in-batch: trains in one process"):
        run(IN_BATCH, job)
