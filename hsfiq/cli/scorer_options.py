"""The options that every command with a scorer or a retrieval system takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

if TYPE_CHECKING:
    from hsfiq.model.scorer.loading import ScorerPaths


def images_option(otherwise: str) -> OptionInfo:
    """`--images`, with the place that is used without it."""
    option: OptionInfo = typer.Option(metavar="DIR", help=f"The images; else {otherwise}.")
    return option


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The model's published files; else $HSFIQ_WEIGHTS.",
        ),
    ] = None
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keeps images' features; else $HSFIQ_CACHE.")
    ] = None
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; else a GPU if any.")
    ] = None

    def paths(self, checkpoint: Path | None, images: Path | None) -> ScorerPaths:
        """The paths, with the default cache."""
        from hsfiq.model.features import default_root
        from hsfiq.model.scorer.loading import ScorerPaths

        return ScorerPaths(checkpoint, images, self.weights, self.cache or default_root())
