"""The options that the commands of `hsfiq evaluate` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption
from hsfiq.cli.scorer_options import ScorerOptions

if TYPE_CHECKING:
    from hsfiq.model.evaluation.composition import CompositionRequest
    from hsfiq.model.evaluation.uncertainty import UncertaintyRequest


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ScorerOptions):
    """The options that are the same for every benchmark."""

    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the scorer's lists, as JSONL.", dir_okay=False),
    ] = None
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Count queries without a list as misses; rank without missing images.",
        ),
    ] = False
    subset: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:LABEL]",
            help="Only the queries that a file names, such as CIRCUS' labels; of one label.",
        ),
    ] = None
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add 95% intervals; needs the analysis extra.")
    ] = False
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[,FILE]",
            help="Another system's run, to compare with --run, with intervals and tests; may be "
            "repeated.",
        ),
    ] = None
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE[,FILE]",
            help="A row of a table of systems, with published figures; may be repeated.",
        ),
    ] = None
    release: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --system: preference rates by RELEASE.scores/NAME.parquet."
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --system: write the tables, .csv or .tex.", dir_okay=False
        ),
    ] = None
    text_only: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,FILE]",
            help="The system's lists for the text alone; with --image-only: the composition gap.",
        ),
    ] = None
    image_only: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,FILE]", help="The system's lists for the reference image alone."
        ),
    ] = None
    per_query: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write each query's values: .csv, .jsonl or .parquet.",
            dir_okay=False,
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of the resamples and permutations.")
    ] = 0
    as_json: JsonOption = False

    @property
    def uncertainty(self) -> UncertaintyRequest:
        from hsfiq.model.evaluation.uncertainty import UncertaintyRequest

        return UncertaintyRequest(
            intervals=self.intervals,
            compared=tuple(map(files_of, self.compare or ())),
            per_query=self.per_query,
            seed=self.seed,
        )

    @property
    def composition(self) -> CompositionRequest:
        from hsfiq.model.evaluation.composition import CompositionRequest

        return CompositionRequest(
            files_of(self.text_only), files_of(self.image_only), self.intervals, self.seed
        )


def files_of(names: str | None) -> tuple[Path, ...]:
    """The files of `FILE[,FILE]`."""
    return () if names is None else tuple(map(Path, names.split(",")))
