"""SPRC's losses, term by term, and what learns from each."""

from __future__ import annotations

import pytest
import torch

from hsfiq.model.retrieval.sprc import Sprc
from hsfiq.model.retrieval.system import Batch
from tests.model.retrieval.small_systems import (
    backward,
    literal_contrastive,
    small_system,
    without_gradient,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def sprc(**values: str) -> Sprc:
    system = small_system("sprc-fashioniq", **values)
    assert isinstance(system, Sprc)
    return system


@torch.no_grad()
def test_the_losses_equal_literal_ones(batch: Batch) -> None:
    system = sprc(regularisation="0.4", alignment="0.3")
    system.prompts.copy_(torch.randn(8, 64, generator=torch.Generator().manual_seed(5)))
    losses = system.losses(batch)
    images = system.gallery(batch.targets)
    queries = system.compose(batch.references, batch.texts)
    texts = torch.cat(
        [system.sentences(system.prompts[None], [text], text_first=True) for text in batch.texts]
    )
    fused = system.fuse(batch.references, batch.texts)
    assert list(losses.terms) == ["itc", "rtc", "align"]
    assert losses.terms["itc"].item() == pytest.approx(
        literal_contrastive(queries, images, 0.05), abs=1e-4
    )
    assert losses.terms["rtc"].item() == pytest.approx(
        0.4 * literal_contrastive(texts, images, 0.05), abs=1e-4
    )
    distance = 0.0
    for row in fused:
        gaps = [float(row[:, h].mean() - system.prompts[:, h].mean()) for h in range(64)]
        distance += sum(gap**2 for gap in gaps) / 64 / len(fused)
    assert losses.terms["align"].item() == pytest.approx(0.3 * distance, rel=1e-4)
    best = [max(float(queries[1] @ vector) for vector in image) / 0.05 for image in images]
    assert losses.logits[1].tolist() == pytest.approx(best, abs=1e-4)


def test_what_learns_from_which_term(batch: Batch) -> None:
    everything = sprc(temperature_kind="learned")
    backward(everything.losses(batch))
    missing = without_gradient(everything)
    assert all(name.endswith(".k.bias") or name.startswith(UNUSED) for name in missing), missing
    no_texts = sprc(regularisation="0")
    backward(no_texts.losses(batch))
    # The alignment moves the fused queries, never the free prompts.
    assert {"prompts", "temperature"} <= without_gradient(no_texts)
    assert no_texts.prompts.grad is None
    no_alignment = sprc(alignment="0")
    backward(no_alignment.losses(batch))
    assert "prompts" not in without_gradient(no_alignment)


UNUSED = ("backbone.image.norm.", "backbone.image.mlp.", "backbone.image.proj.")
"""The small image encoder's pooled vector, which only two towers have."""


def test_terms_without_weight_are_not_computed(batch: Batch) -> None:
    assert list(sprc(regularisation="0").losses(batch).terms) == ["itc", "align"]
    assert list(sprc(alignment="0").losses(batch).terms) == ["itc", "rtc"]


@torch.no_grad()
def test_the_loss_of_texts_reads_no_reference(batch: Batch) -> None:
    system = sprc()
    swapped = Batch(
        batch.triplet_ids,
        batch.texts,
        batch.reversed_texts,
        references=batch.references.flip(0),
        targets=batch.targets,
    )
    first, second = system.losses(batch).terms, system.losses(swapped).terms
    assert first["rtc"].equal(second["rtc"])
    assert not first["itc"].equal(second["itc"])


def test_the_temperature() -> None:
    fixed, learned = sprc(), sprc(temperature_kind="learned", temperature="0.07")
    assert not fixed.temperature.requires_grad
    assert learned.temperature.requires_grad
    assert learned.loss_temperature() == pytest.approx(0.07)
