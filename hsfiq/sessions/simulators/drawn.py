"""Simulators without a model: of drawn garments, and the floor that repeats its text."""

from __future__ import annotations

from typing import Literal

from hsfiq.drawn.captions import describe, write_captions
from hsfiq.drawn.garments import ATTRIBUTES, differences, garment_of
from hsfiq.sessions.play import Progress
from hsfiq.sessions.simulators.simulated_user import Simulator
from hsfiq.text import joined

Voices = Literal["full", "brief"]
"""Both writers of a caption, or the second alone, who mentions less."""


class DrawnSimulator(Simulator):
    """Reads the attributes off both garments' ids: true texts that leave something out."""

    def __init__(self, voices: Voices) -> None:
        self.name = f"drawn-{voices}"
        self._voices = voices

    def text(self, progress: Progress, candidate: str) -> str:
        garment, target = garment_of(candidate), garment_of(progress.query.targets[0])
        if garment.category != target.category:
            return describe(progress.rng, target)
        captions = write_captions(progress.rng, garment, target).texts
        return joined(captions) if self._voices == "full" else captions[1]


class SameText(Simulator):
    """Repeats the query's text, whatever the candidate: what a list gains without any feedback."""

    name = "same-text"

    def text(self, progress: Progress, candidate: str) -> str:  # noqa: ARG002 (the protocol's)
        return progress.query.text


def attribute_distance(image: str, other: str) -> float:
    """In how many attributes two drawn garments differ, the category counting more than all."""
    garment, target = garment_of(image), garment_of(other)
    other_category = garment.category != target.category
    return len(differences(garment, target)) + (len(ATTRIBUTES) + 1) * other_category
