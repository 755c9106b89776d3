"""The hardness of negatives, compared with loops over images and with scipy."""

from __future__ import annotations

import math
from statistics import fmean, median_low

import pytest
import torch
from scipy.stats import skew

from hsfiq.cli.training_bar import TrainingBar
from hsfiq.model.scorer.negatives import FAR, Definition, Hardness, hardness_of, skewness, summary

TAU = 0.07


def test_hardness_equals_loops_over_the_images() -> None:
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(40, 25, generator=generator).mul(4).round().mul(0.05)  # with equal scores
    targets, negatives = (torch.randint(0, 25, (40,), generator=generator) for _ in range(2))
    negatives = torch.where(negatives == targets, (negatives + 1) % 25, negatives)

    rows = []
    for row, target, negative in zip(scores.tolist(), targets, negatives, strict=True):
        above = [sum(score > row[image] for score in row) for image in (target, negative)]
        margins = [(row[target] - score) / TAU for i, score in enumerate(row) if i != target]
        margin = (row[target] - row[negative]) / TAU
        weights = [1 / (1 + math.exp(each)) for each in margins]
        rows.append(
            (above[1] - above[0], margin, 1 / (1 + math.exp(margin)), fmean(weights), skew(row))
        )

    measured = hardness_of(scores, targets, negatives, TAU)
    for ours, theirs in zip(measured.tolist(), rows, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    hardness = summary(measured)
    assert hardness.median_place == median_low(row[0] for row in rows)
    assert hardness.mean_margin == pytest.approx(fmean(row[1] for row in rows), abs=1e-4)
    assert hardness.share_far == fmean(row[1] > FAR for row in rows)
    assert hardness.random_weight == pytest.approx(fmean(row[3] for row in rows), abs=1e-5)


def test_the_tail_of_a_ranking_is_easier_than_random_images() -> None:
    scores = torch.linspace(1, 0, 50).expand(3, 50)
    for negative, is_easier in ((1, False), (49, True)):
        rows = hardness_of(scores, torch.zeros(3).long(), torch.full((3,), negative), TAU)
        assert summary(rows).is_easier_than_random == is_easier


def test_equal_scores_are_not_skewed() -> None:
    assert skewness(torch.ones(2, 5)).tolist() == [0, 0]


@pytest.mark.parametrize("weight", [0.2, 0.1])
def test_negatives_easier_than_random_images_are_warned_of(weight: float) -> None:
    lines: list[str] = []
    columns, sizes = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    hardness = Hardness(3, 1.5, 0.25, weight, 0.15, -0.5)
    TrainingBar(lines.append, is_visible=False).defined(
        Definition(6, "qure", columns, sizes, 0, hardness)
    )
    assert any(line.startswith("warning: epoch 6: the") for line in lines) == (weight < 0.15)
