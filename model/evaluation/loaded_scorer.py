"""A trained scorer with the images that are asked of it, and what is said of those it lacks.

Images that are missing make a corpus smaller and every figure better, so they are refused, unless
they are allowed for: then they are counted, and so are the queries that are lost with them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.scoring.run import encoded, existing
from hsfiq.model.training.callbacks import Callback
from hsfiq.text import first_few

NAMED = 20
"""Missing images that a result names."""


@dataclass(frozen=True, slots=True)
class AtWork:
    """A scorer with the images it was asked for.

    Attributes:
        loaded: where it comes from.
        inference: encodes.
        wanted: every image that was asked for.
        there: those that are there and can be read.
    """

    loaded: Loaded
    inference: Inference
    wanted: frozenset[str]
    there: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """The others, sorted."""
        return sorted(self.wanted - self.there)


def set_to_work(
    paths: ScorerPaths,
    wanted: Collection[str],
    device: torch.device,
    callback: Callback,
    *,
    allow_missing: bool,
) -> AtWork:
    """Load a scorer and compute the tokens of images.

    Args:
        paths: of the scorer's checkpoint, images, weights and cache.
        wanted: images.
        device: computes.
        callback: is told of the images encoded.
        allow_missing: whether to go without the images that are missing or unreadable.

    Raises:
        UnreadableInput: no checkpoint, no folder, or missing images; nothing is encoded then.
    """
    loaded = load_scorer(paths.required("checkpoint"), paths.weights, device)
    folder = paths.required("images")
    files = existing(folder, wanted)
    if not allow_missing:
        refuse_missing(wanted, files, folder)
    inference, there = encoded(loaded, files, paths.cache, device, callback)
    if not allow_missing:
        refuse_missing(wanted, there, folder)
    return AtWork(loaded, inference, frozenset(wanted), frozenset(there))


def refuse_missing(wanted: Collection[str], there: Collection[str], folder: Path) -> None:
    """Refuse to go on without some of the images.

    Raises:
        UnreadableInput: some are not there; the first are named.
    """
    if absent := sorted(set(wanted).difference(there)):
        raise UnreadableInput(
            str(folder),
            f"{len(absent):,} of {len(wanted):,} images are missing or unreadable"
            f" ({first_few(absent)})",
            "hsfiq images check lists all of a dataset's; --allow-missing goes without them",
        )


def said_of_missing(at_work: AtWork) -> dict[str, Any]:
    """How many images are missing, and the first by name; nothing where none is."""
    absent = at_work.missing
    if not absent:
        return {}
    return {"images": len(absent), "of": len(at_work.wanted), "names": absent[:NAMED]}


def missing_notes(at_work: AtWork) -> tuple[str, ...]:
    """The same for a person."""
    absent = at_work.missing
    if not absent:
        return ()
    n = f"{len(absent):,} of {len(at_work.wanted):,}"
    named = first_few(absent)
    return (f"{n} images are missing or unreadable ({named}): figures are not comparable",)
