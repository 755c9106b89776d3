"""The files that a scorer is loaded from and works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput
from hsfiq.model.features.cache import default_root


@dataclass(frozen=True, slots=True)
class ScorerPaths:
    """Where training, scoring, evaluation and pair selection find their files.

    Attributes:
        checkpoint: a checkpoint's JSON file or a run's folder; None for a new scorer.
        images: the folder of the images; None for the usual places.
        weights: the folder of BLIP-2's published files; None for the usual one.
        cache: the feature cache's folder.
    """

    checkpoint: Path | None = None
    images: Path | None = None
    weights: Path | None = None
    cache: Path = field(default_factory=default_root)

    def required(self, name: Literal["checkpoint", "images"]) -> Path:
        path: Path | None = getattr(self, name)
        if path is None:
            raise UnreadableInput(name, "is required")
        return path
