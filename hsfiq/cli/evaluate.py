"""`hsfiq evaluate`: the field's figures of a system's ranked lists, or of a scorer's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.cli.common import existing_folder, print_result, requires
from hsfiq.cli.evaluate_options import EvaluateOptions
from hsfiq.cli.evaluate_systems import check_options as check_system_options
from hsfiq.cli.evaluate_systems import report_systems
from hsfiq.cli.images import image_root
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import images_option
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
SubmissionOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the files for the benchmark's server, a new folder."),
]


@app.command(epilog="Example: hsfiq evaluate fashioniq --data fashion-iq --run sprc.json")
@with_option_groups
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
    *,
    options: EvaluateOptions,
) -> None:
    """Recall@1/5/10/50 for each category, and their mean."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.fashioniq(existing_folder(data), category or (), split, corpus, captions)
    report(benchmark, data, run, scorer, images, options)


@app.command(epilog="Example: hsfiq evaluate cirr --data cirr_dataset --run recall.json")
@with_option_groups
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
    *,
    options: EvaluateOptions,
) -> None:
    """Recall@1/5/10/50 and Recall_subset@1/2/3; the runs may be the server's two files."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.cirr(existing_folder(data), split)
    report(benchmark, data, run, scorer, images, options, submission)


@app.command(epilog="Example: hsfiq evaluate circo --data CIRCO --run submission_val.json")
@with_option_groups
def circo(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Holds val.json, or annotations/ with it.")
    ],
    run: RunOption = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="val; files for the server of test are checked.")
    ] = "val",
    prompt: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="What a scorer reads; QuRe: 'a photo of $ that {caption}'."
        ),
    ] = "{caption}",
    submission: SubmissionOption = None,
    scorer: ScorerOption = None,
    images: ImagesOption = None,
    *,
    options: EvaluateOptions,
) -> None:
    """The mAP@5/10/25/50 over all ground truths, and Recall@5/10/25/50 of the single target."""
    from hsfiq.model.evaluation import benchmarks

    if scorer is None and prompt != benchmarks.CAPTION:
        raise UnreadableInput("--prompt", "needs --scorer", "name that too, or leave it out")
    benchmark = benchmarks.circo(existing_folder(data), split, prompt)
    report(benchmark, data, run, scorer, images, options, submission)


@app.command(epilog="Example: hsfiq evaluate drawn --scorer runs/drawn --split test")
@with_option_groups
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
    *,
    options: EvaluateOptions,
) -> None:
    """Recall@1/5/10/50 on the drawn catalogue that the scorer was trained on."""
    with requires("model"):
        from hsfiq.model.evaluation.drawn import drawn_for_scorer
    benchmark, folder, notes = drawn_for_scorer(split, scorer, images)
    report(benchmark, folder, run, scorer, folder, options, notes=notes)


def check_options(
    runs: Sequence[Path] | None,
    scorer: Path | None,
    images: Path | None,
    options: EvaluateOptions,
) -> None:
    """Refuse options that need others, and an output file that exists or goes with runs."""
    check_system_options(options, runs)
    if scorer is None:
        if not runs and not options.system:
            raise UnreadableInput(
                "--run", "there is nothing to evaluate", "name ranked lists, or a --scorer"
            )
        need_scorer = {
            "images": images,
            "weights": options.weights,
            "cache": options.cache,
            "device": options.device,
            "out": options.out,
        }
        for name, value in need_scorer.items():
            if value is not None:
                raise UnreadableInput(
                    f"--{name}", "needs --scorer", "name that too, or leave it out"
                )
    if options.out is None:
        return
    if runs:
        raise UnreadableInput("--out", "is for a scorer's own lists", "leave out --run or --out")
    if options.out.exists():
        raise UnreadableInput(str(options.out), "exists already", "name another file with --out")
    existing_folder(options.out.parent)


def report(
    benchmark: Benchmark,
    data: Path,
    runs: Sequence[Path] | None,
    scorer: Path | None,
    images: Path | None,
    options: EvaluateOptions,
    submission: Path | None = None,
    notes: Sequence[str] = (),
) -> None:
    from hsfiq.model.evaluation.evaluate import ScorerRequest, evaluate_system

    check_options(runs, scorer, images, options)
    if submission is not None and options.system:
        raise UnreadableInput("--submission", "is for one system", "leave out --system")
    if options.subset is not None:
        from hsfiq.model.evaluation.benchmarks import subset_of

        if submission is not None:
            raise UnreadableInput("--submission", "needs all queries", "leave out --subset")
        benchmark, subset_notes = subset_of(benchmark, options.subset)
        notes = [*notes, *subset_notes]
    with ExitStack() as stack:
        request = None
        if scorer is not None:
            root = images or image_root(data)
            with requires("model"):
                from hsfiq.cli.training_bar import TrainingBar
                from hsfiq.model.runtime import device_of
            bar = stack.enter_context(TrainingBar(typer.echo))
            request = ScorerRequest(
                options.paths(scorer, root), device_of(options.device), bar, options.out
            )
        if options.system:
            report_systems(benchmark, request, options, notes)
            return
        evaluation = evaluate_system(
            benchmark,
            runs or (),
            request,
            submission,
            notes,
            options.uncertainty,
            options.composition,
            allow_missing=options.allow_missing,
        )
    print_result(evaluation.result, "\n".join(evaluation.lines), as_json=options.as_json)
