"""`hsfiq evaluate fisd`, and drawing its aspects on garments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.images import image_root
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text


@dataclass(frozen=True, kw_only=True)
class FisdOptions(ScorerOptions):
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the scorer's lists, as JSONL.", dir_okay=False),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0
    as_json: JsonOption = False


def register(evaluate: typer.Typer, images: typer.Typer) -> None:
    evaluate.command(epilog="Example: hsfiq evaluate fisd --data fisd-drawn --scorer runs/sprc")(
        with_option_groups(fisd)
    )
    images.command(epilog="Example: hsfiq images draw-fisd fisd-drawn")(draw_fisd)


def fisd(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Holds a file for each aspect, and images/.")
    ],
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Ranked lists; repeat for several files. Query ids: <aspect>.<id>."
        ),
    ] = None,
    scorer: Annotated[
        Path | None, typer.Option(metavar="CKPT", help="Ranks each aspect's images itself.")
    ] = None,
    images: Annotated[Path | None, images_option("in --data's folder")] = None,
    *,
    options: FisdOptions,
) -> None:
    """Recall@1/5/10, MRR and hard negatives by aspect, with and without the reference."""
    from hsfiq.model.evaluation import benchmarks

    if (scorer is None) == (not run):
        raise UnreadableInput("--run", "name ranked lists or a --scorer, one of the two")
    benchmark = benchmarks.fisd(existing_folder(data))
    with requires("analysis"):
        from hsfiq.model.evaluation.fisd import evaluate_fisd
    if scorer is None:
        report = evaluate_fisd(benchmark, data, run or (), None, options.seed)
    else:
        with requires("model"):
            from hsfiq.cli.training_bar import TrainingBar
            from hsfiq.model.evaluation.evaluate import ScorerRequest
            from hsfiq.model.runtime import device_of
        with TrainingBar(lambda line: typer.echo(line, err=True)) as bar:
            request = ScorerRequest(
                options.paths(scorer, images or image_root(data)),
                device_of(options.device),
                bar,
                options.out,
            )
            report = evaluate_fisd(benchmark, data, (), request, options.seed)
    print_result(report.result, "\n".join(report.lines), as_json=options.as_json)


def draw_fisd(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    triplets: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Of each aspect; FISD has 200.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other triplets.")] = 0,
) -> None:
    """Draw FISD's six aspects on garments, for `hsfiq evaluate fisd`."""
    with requires("annotate"):
        from hsfiq.drawn.fisd import write_drawn_fisd
    n = write_drawn_fisd(out, seed, triplets)
    typer.echo(
        f"{out}: six aspects of {count_text(triplets, 'triplet')}, {count_text(n, 'picture')}"
    )
