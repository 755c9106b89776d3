"""The options of `hsfiq train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import JsonOption, existing_folder
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput

DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ScorerOptions):
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The run's folder; the same command resumes a stopped run."
        ),
    ]
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="FashionIQ's or CIRR's folder, or the catalogue; for preference, the triplets "
            "to measure recall on and to mix in with --set mix=W.",
        ),
    ] = None
    init: Annotated[
        Path | None, typer.Option(metavar="CKPT", help="A checkpoint to start from.")
    ] = None
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The release that preference trains on.")
    ] = None
    images: Annotated[Path | None, images_option("in --data's folder")] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run the image encoder at every step instead.")
    ] = False
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another value for the recipe; repeatable."
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, help="About N triplets only, for a trial run."),
    ] = None
    as_json: JsonOption = False

    @property
    def values(self) -> dict[str, str]:
        """The values of `--set`, by their keys."""
        values = {}
        for setting in self.settings or ():
            key, sign, text = setting.partition("=")
            if not sign:
                raise UnreadableInput(
                    "--set", f"{setting!r} is not KEY=VALUE", "write --set epochs=10"
                )
            values[key] = text
        return values

    @property
    def folder(self) -> Path | None:
        """The folder of `--data`, which has to exist; None for the catalogue and without data."""
        return None if self.data in (None, DRAWN) else existing_folder(Path(str(self.data)))
