"""A trained scorer loaded together with the images that an evaluation needs.

A corpus without its missing images is smaller, and every figure better. So they are refused unless
allowed; then they are counted, and so are the queries without their reference.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.release_scores.encoded_images import encode_images, image_files
from hsfiq.model.retrieval.loading import LoadedRetriever, load_retriever
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from hsfiq.text import first_few

MAX_NAMED = 20
"""Missing images that a result names."""


@dataclass(frozen=True, slots=True)
class PreparedScorer:
    """A scorer with the tokens of the wanted images that exist and can be read."""

    loaded: LoadedRetriever
    inference: Inference
    wanted: frozenset[str]
    available: frozenset[str]

    @property
    def missing(self) -> list[str]:
        return sorted(self.wanted - self.available)

    def missing_json(self) -> dict[str, Any]:
        """How many images are missing, and the first by name; empty if none is."""
        if not self.missing:
            return {}
        return {
            "images": len(self.missing),
            "of": len(self.wanted),
            "names": self.missing[:MAX_NAMED],
        }

    def missing_notes(self) -> tuple[str, ...]:
        if not self.missing:
            return ()
        n = f"{len(self.missing):,} of {len(self.wanted):,}"
        named = first_few(self.missing)
        return (f"{n} images are missing or unreadable ({named}): figures are not comparable",)


def prepare_scorer(
    paths: ScorerPaths,
    wanted: Collection[str],
    device: torch.device,
    callback: Callback,
    *,
    allow_missing: bool,
) -> PreparedScorer:
    """Load a scorer and compute the tokens of images; refuse missing ones unless allowed."""
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    folder = paths.required("images")
    files = image_files(folder, wanted)
    if not allow_missing:
        refuse_missing(wanted, files, folder)
    inference, available = encode_images(loaded, files, paths.cache, device, callback)
    if not allow_missing:
        refuse_missing(wanted, available, folder)
    return PreparedScorer(loaded, inference, frozenset(wanted), frozenset(available))


def refuse_missing(wanted: Collection[str], available: Collection[str], folder: Path) -> None:
    if missing := sorted(set(wanted).difference(available)):
        raise UnreadableInput(
            str(folder),
            f"{len(missing):,} of {len(wanted):,} images are missing or unreadable"
            f" ({first_few(missing)})",
            "hsfiq images check lists all of a dataset's; --allow-missing goes on without them",
        )
