"""`hsfiq evaluate`: the field's figures of a system's ranked lists, or of a scorer's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.images import image_root
from hsfiq.cli.scorer_options import (
    CacheOption,
    DeviceOption,
    ScorerOptions,
    WeightsOption,
    images_option,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.evaluation.benchmarks import Benchmark

app = typer.Typer(
    help="The field's figures of a system's ranked lists on a benchmark.", no_args_is_help=True
)

RunOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Ranked lists: JSONL, TREC run, {query id: [image ids]}; repeat for several files.",
    ),
]
ScorerOption = Annotated[
    Path | None,
    typer.Option(metavar="CKPT", help="Ranks the corpus itself; with --run: its CIRQRS@k."),
]
ImagesOption = Annotated[Path | None, images_option("in --data's folder")]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the scorer's lists, as JSONL.", dir_okay=False),
]
AllowMissingOption = Annotated[
    bool,
    typer.Option(
        "--allow-missing",
        help="Count queries without a list as misses; rank without missing images.",
    ),
]
SubmissionOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the files for the benchmark's server, a new folder."),
]


@app.command(epilog="Example: hsfiq evaluate fashioniq --data fashion-iq --run sprc.json")
def fashioniq(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Holds captions/ and image_splits/.")],
    run: RunOption = None,
    category: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this category; may be repeated."),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="One with targets.")] = "val",
    corpus: Annotated[
        Literal["split", "union"],
        typer.Option(help="The whole split file, or references and targets alone (VAL, CoSMo)."),
    ] = "split",
    captions: Annotated[
        Literal["forward", "reversed", "both"],
        typer.Option(help="The captions' order; both: two queries per triplet (ids with ~)."),
    ] = "forward",
    scorer: ScorerOption = None,
    images: ImagesOption = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    out: OutOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recall@1/5/10/50 for each category, and their mean."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.fashioniq(existing_folder(data), category or (), split, corpus, captions)
    options = ScorerOptions(scorer, images, weights, cache, device)
    report(benchmark, data, run, options, out, allow_missing=allow_missing, as_json=as_json)


@app.command(epilog="Example: hsfiq evaluate cirr --data cirr_dataset --run recall.json")
def cirr(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Holds captions/ and image_splits/, or cirr/.")
    ],
    run: RunOption = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="val; files for the server of test1 are checked.")
    ] = "val",
    submission: SubmissionOption = None,
    scorer: ScorerOption = None,
    images: ImagesOption = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    out: OutOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recall@1/5/10/50 and Recall_subset@1/2/3; the runs may be the server's two files."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.cirr(existing_folder(data), split)
    options = ScorerOptions(scorer, images, weights, cache, device)
    report(
        benchmark, data, run, options, out, submission, allow_missing=allow_missing, as_json=as_json
    )


@app.command(epilog="Example: hsfiq evaluate circo --data CIRCO --run submission_val.json")
def circo(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Holds val.json, or annotations/ with it.")
    ],
    run: RunOption = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="val; files for the server of test are checked.")
    ] = "val",
    submission: SubmissionOption = None,
    scorer: ScorerOption = None,
    images: ImagesOption = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    out: OutOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonOption = False,
) -> None:
    """The mAP@5/10/25/50 over all ground truths, and Recall@5/10/25/50 of the single target."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.circo(existing_folder(data), split)
    options = ScorerOptions(scorer, images, weights, cache, device)
    report(
        benchmark, data, run, options, out, submission, allow_missing=allow_missing, as_json=as_json
    )


@app.command(epilog="Example: hsfiq evaluate drawn --scorer runs/drawn --split test")
def drawn(
    scorer: Annotated[
        Path,
        typer.Option(metavar="CKPT", help="Ranks the catalogue; with --run: its CIRQRS@k."),
    ],
    run: RunOption = None,
    split: Annotated[
        Literal["val", "test"],
        typer.Option(help="The validation triplets, or combinations that training never shows."),
    ] = "val",
    images: Annotated[Path | None, images_option("in the scorer's own folder")] = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    out: OutOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recall@1/5/10/50 on the drawn catalogue that the scorer was trained on."""
    with requires("model"):
        from hsfiq.model.evaluation.drawn import drawn_for_scorer
    benchmark, folder, notes = drawn_for_scorer(split, scorer, images)
    options = ScorerOptions(scorer, folder, weights, cache, device)
    report(
        benchmark,
        folder,
        run,
        options,
        out,
        notes=notes,
        allow_missing=allow_missing,
        as_json=as_json,
    )


def check_options(runs: Sequence[Path] | None, options: ScorerOptions, out: Path | None) -> None:
    """Refuse options that need a scorer, and an output file that exists or goes with runs."""
    if options.checkpoint is None:
        if not runs:
            raise UnreadableInput(
                "--run", "there is nothing to evaluate", "name ranked lists, or a --scorer"
            )
        for name, value in {**asdict(options), "out": out}.items():
            if value is not None:
                raise UnreadableInput(
                    f"--{name}", "needs --scorer", "name that too, or leave it out"
                )
    if out is None:
        return
    if runs:
        raise UnreadableInput("--out", "is for a scorer's own lists", "leave out --run or --out")
    if out.exists():
        raise UnreadableInput(str(out), "exists already", "name another file with --out")
    existing_folder(out.parent)


def report(
    benchmark: Benchmark,
    data: Path,
    runs: Sequence[Path] | None,
    options: ScorerOptions,
    out: Path | None,
    submission: Path | None = None,
    notes: Sequence[str] = (),
    *,
    allow_missing: bool,
    as_json: bool,
) -> None:
    from hsfiq.model.evaluation.evaluate_system import ScorerRequest, evaluate_system

    check_options(runs, options, out)
    with ExitStack() as stack:
        request = None
        if options.checkpoint is not None:
            options = replace(options, images=options.images or image_root(data))
            with requires("model"):
                from hsfiq.cli.training_bar import TrainingBar
                from hsfiq.model.runtime.distributed import device_of
            bar = stack.enter_context(TrainingBar(0, typer.echo))
            request = ScorerRequest(options.paths(), device_of(options.device), bar, out)
        evaluation = evaluate_system(
            benchmark, runs or (), request, submission, notes, allow_missing=allow_missing
        )
    print_result(evaluation.result, "\n".join(evaluation.lines), as_json=as_json)
