"""The benchmark `systems`: its study, its comparison of orders, and what it keeps."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks import systems
from benchmarks.systems import KS, QUESTIONS, SET_SIZE
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_split, generator, utility

NAMES = ("best", "middle", "worst")


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(generator(0, "catalogue"), 40)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_split(generator(0, "triplets"), garments, "dress", "val", QUESTIONS)


@pytest.fixture(scope="module")
def rows(garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]) -> pd.DataFrame:
    """Answers about systems that return the best, middling and the worst images."""
    lists: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in NAMES}
    for triplet in triplets:
        ordered = sorted(corpus(garments, "dress"), key=lambda each: -utility(triplet, each))
        images = [garment.image_id for garment in ordered]
        for name, start in zip(NAMES, (0, 12, 30), strict=True):
            chosen = images[start : start + 10]
            lists[name][triplet.external_id] = (triplet.reference.image_id, *chosen)
    return systems.answered(0, "val", triplets, lists, 20)


def test_annotators_compare_two_systems_and_prefer_the_better(rows: pd.DataFrame) -> None:
    assert len(rows) == 20 * QUESTIONS
    assert (rows["first"] != rows["second"]).all()
    wins = rows[rows["system_1"] == "best"]["preferred"].eq(1).mean()
    losses = rows[rows["system_1"] == "worst"]["preferred"].eq(1).mean()
    assert wins > 0.7
    assert losses < 0.45


def test_the_reference_is_not_in_a_shown_set(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    triplet = triplets[0]
    others = [each for each in corpus(garments, "dress") if each != triplet.reference][:SET_SIZE]
    images = [garment.image_id for garment in others]
    ranked = [images[0], triplet.reference.image_id, *images[1:], "never shown"]
    expected = sum(utility(triplet, garment) for garment in others) / SET_SIZE
    assert systems.worth_of(triplet, ranked) == pytest.approx(expected)


def test_orders_are_compared(rows: pd.DataFrame) -> None:
    recall = {"best": 0.9, "middle": 0.5, "worst": 0.2}
    same = systems.compared(rows, {name: dict.fromkeys(KS, recall[name]) for name in NAMES}, 0)
    assert same["tau"] == {f"recall@{k}": 1.0 for k in KS}
    swapped = {"best": 0.5, "middle": 0.9, "worst": 0.2}
    other = systems.compared(rows, {name: dict.fromkeys(KS, swapped[name]) for name in NAMES}, 0)
    assert other["tau"]["recall@10"] == pytest.approx(1 / 3)
    assert other["swapped"]["recall@10"] == (("best", "middle"),)
    figures = same["systems"]
    assert figures["best"]["win_rate"] > figures["middle"]["win_rate"]
    assert (
        figures["best"]["davidson"] > figures["middle"]["davidson"] > figures["worst"]["davidson"]
    )
