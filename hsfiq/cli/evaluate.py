"""`hsfiq evaluate`: standard metrics of systems' ranked lists on a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.cli import common
from hsfiq.cli.images import image_root
from hsfiq.cli.score import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.model.evaluation.composition import CompositionRequest
    from hsfiq.model.evaluation.evaluate import ScorerRequest
    from hsfiq.model.evaluation.uncertainty import UncertaintyRequest
    from hsfiq.readers.judged import JudgedSet

app = common.Commands(help="Evaluate ranked lists on a benchmark.", no_args_is_help=True)


# The options that the commands of `hsfiq evaluate` share.

PerQueryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the metrics of each query: .csv, .jsonl or .parquet.",
        dir_okay=False,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the scorer's ranked lists as JSONL.", dir_okay=False),
]


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ScorerOptions):
    """The options that are the same for every benchmark."""

    out: OutOption = None
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Count queries without a list as misses; leave missing images out of the ranking.",
        ),
    ] = False
    subset: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:LABEL]",
            help="Only the queries in a file, such as CIRCUS' labels, or those with one of its "
            "labels.",
        ),
    ] = None
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add 95% intervals; needs the analysis extra.")
    ] = False
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare every two of the named runs, with intervals and tests.",
        ),
    ] = False
    release: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With named runs: preference rates by the scores in RELEASE.scores/NAME.parquet.",
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With named runs: write the tables, .csv or .tex.", dir_okay=False
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
    per_query: PerQueryOption = None
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of the resamples and permutations.")
    ] = 0
    as_json: common.JsonOption = False

    def uncertainty(self, compared: Mapping[str, tuple[Path, ...]]) -> UncertaintyRequest:
        from hsfiq.model.evaluation.uncertainty import UncertaintyRequest

        return UncertaintyRequest(
            intervals=self.intervals,
            compared=compared,
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


# `hsfiq evaluate ... --run NAME=FILE`: several systems in one table.


@dataclass(frozen=True, slots=True)
class Runs:
    """What `--run [NAME=]FILE` names: the files of one system, or those of several by name."""

    files: tuple[Path, ...]
    named: Mapping[str, tuple[Path, ...]]


def runs_of(given: Sequence[str] | None) -> Runs:
    """`UnreadableInput` if some are named and others are not, or if a name occurs twice."""
    files: list[Path] = []
    named: dict[str, tuple[Path, ...]] = {}
    for each in given or ():
        name, names = common.named_run(each)
        if name is None:
            files.append(Path(names))
        elif name in named:
            raise UnreadableInput("--run", f"{name!r} is named twice", "write FILE,FILE")
        else:
            named[name] = files_of(names)
    if files and named:
        raise UnreadableInput(
            "--run", f"{files[0]} has no name, but other runs have one", "name all runs or none"
        )
    return Runs(tuple(files), named)


def check_runs(runs: Runs, options: EvaluateOptions) -> None:
    """Refuse options for one system beside named runs, and options that need named runs."""
    if runs.named:
        refused: dict[str, object] = {
            "text-only": options.text_only,
            "image-only": options.image_only,
            "per-query": options.per_query,
            "out": options.out,
        }
        what, remedy = "is for one system", "leave it out, or leave out the name in --run"
    else:
        refused = {"release": options.release, "table": options.table}
        what, remedy = "needs named runs", "name them, --run sprc=sprc.json, or leave it out"
    for name, value in refused.items():
        if value:
            raise UnreadableInput(f"--{name}", what, remedy)


def report_systems(
    benchmark: Benchmark,
    runs: Runs,
    scorer: ScorerRequest | None,
    options: EvaluateOptions,
    notes: Sequence[str],
) -> None:
    from hsfiq.model.evaluation.systems_table import SystemsRequest, evaluate_systems

    if options.release is not None:
        with common.requires("analysis"):
            from hsfiq.model.evaluation import comparison  # noqa: F401
    uncertainty = options.uncertainty({})
    uncertainty.check(benchmark, ())
    request = SystemsRequest(dict(runs.named), options.release, options.allow_missing)
    if options.table is not None:
        with common.requires("analysis"):
            from hsfiq.model.evaluation.systems_table import require_table_file, write_tables
        require_table_file(options.table)
    report = evaluate_systems(benchmark, request, scorer, notes, uncertainty)
    lines = report.lines
    if options.table is not None:
        write_tables(options.table, report.tables, simulated=report.simulated)
        report.result["table"] = str(options.table)
        lines = [*lines, f"{options.table}: written"]
    common.print_result(report.result, "\n".join(lines), as_json=options.as_json)


RunOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE",
        help="Ranked lists: JSONL, TREC run, {query id: [image ids]}. Without names, all files "
        "belong to one system; each NAME=FILE[,FILE] adds a row to a table of systems with "
        "published figures.",
    ),
]
ScorerOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="A scorer: ranks the corpus; with --run: CIRQRS@k."
    ),
]
ImagesOption = Annotated[Path | None, images_option("in --data's folder")]
SubmissionOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the files for the benchmark's server, a new folder."),
]


@app.command(epilog="Example: hsfiq evaluate fashioniq --data fashion-iq --run sprc.json")
def fashioniq(
    options: EvaluateOptions,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Holds captions/ and image_splits/.")],
    run: RunOption = None,
    category: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this category."),
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
) -> None:
    """Recall@1/5/10/50 for each category, and their mean."""
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.fashioniq(
        common.existing_folder(data), category or (), split, corpus, captions
    )
    report(benchmark, data, run, scorer, images, options)


@app.command(epilog="Example: hsfiq evaluate cirr --data cirr_dataset --run recall.json")
def cirr(
    options: EvaluateOptions,
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
) -> None:
    """Recall@1/5/10/50 and Recall_subset@1/2/3.

    The runs may be the server's two files.
    """
    from hsfiq.model.evaluation import benchmarks

    benchmark = benchmarks.cirr(common.existing_folder(data), split)
    report(benchmark, data, run, scorer, images, options, submission)


@app.command(epilog="Example: hsfiq evaluate circo --data CIRCO --run submission_val.json")
def circo(
    options: EvaluateOptions,
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
) -> None:
    """mAP@5/10/25/50, and Recall@5/10/25/50 of the target.

    mAP counts all ground truths.
    """
    from hsfiq.model.evaluation import benchmarks

    if scorer is None and prompt != benchmarks.CAPTION:
        raise UnreadableInput(
            "--prompt", "needs --checkpoint", "add that option, or leave this one out"
        )
    benchmark = benchmarks.circo(common.existing_folder(data), split, prompt)
    report(benchmark, data, run, scorer, images, options, submission)


@app.command(epilog="Example: hsfiq evaluate drawn --checkpoint runs/drawn --split test")
def drawn(
    options: EvaluateOptions,
    run: RunOption = None,
    scorer: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="A scorer: ranks the catalogue; with --run: CIRQRS@k.",
        ),
    ] = None,
    split: Annotated[
        Literal["val", "test"],
        typer.Option(help="The validation triplets, or combinations that training never shows."),
    ] = "val",
    images: Annotated[Path | None, images_option("in the scorer's own folder")] = None,
) -> None:
    """Recall@1/5/10/50 on the drawn catalogue.

    The catalogue is the one that the scorer was trained on; without a scorer, the recipes' default.
    """
    with common.requires("model"):
        from hsfiq.model.evaluation.drawn import drawn_by_recipes, drawn_for_scorer
    if scorer is None:
        report(drawn_by_recipes(split), Path(), run, None, images, options)
        return
    benchmark, folder, notes = drawn_for_scorer(split, scorer, images)
    report(benchmark, folder, run, scorer, folder, options, notes=notes)


def check_options(
    runs: Runs,
    scorer: Path | None,
    images: Path | None,
    options: EvaluateOptions,
) -> None:
    """Refuse incomplete options, and an output file that exists or conflicts with runs."""
    check_runs(runs, options)
    if scorer is None:
        if not runs.files and not runs.named:
            raise UnreadableInput(
                "--run", "there is nothing to evaluate", "name ranked lists, or a --checkpoint"
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
                    f"--{name}", "needs --checkpoint", "add that option, or leave this one out"
                )
    if options.out is None:
        return
    if runs.files:
        raise UnreadableInput("--out", "is for a scorer's own lists", "leave out --run or --out")
    if options.out.exists():
        raise UnreadableInput(str(options.out), "exists already", "name another file with --out")
    common.existing_folder(options.out.parent)


def report(
    benchmark: Benchmark,
    data: Path,
    given_runs: Sequence[str] | None,
    scorer: Path | None,
    images: Path | None,
    options: EvaluateOptions,
    submission: Path | None = None,
    notes: Sequence[str] = (),
) -> None:
    from hsfiq.model.evaluation.evaluate import ScorerRequest, evaluate_system

    runs = runs_of(given_runs)
    first, compared = "", dict[str, tuple[Path, ...]]()
    if options.compare:
        if len(runs.named) < 2:
            raise UnreadableInput("--compare", "needs two named runs", "add --run NAME=FILE")
        first, *others = runs.named
        compared = {name: runs.named[name] for name in others}
        runs = Runs(runs.named[first], {})
    check_options(runs, scorer, images, options)
    if submission is not None and runs.named:
        raise UnreadableInput("--submission", "is for one system", "leave out the names in --run")
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
            with common.requires("model"):
                from hsfiq.cli.training_bar import TrainingBar
                from hsfiq.model.runtime import device_of
            bar = stack.enter_context(TrainingBar())
            request = ScorerRequest(
                options.paths(scorer, root), device_of(options.device), bar, options.out
            )
        if runs.named:
            report_systems(benchmark, runs, request, options, notes)
            return
        evaluation = evaluate_system(
            benchmark,
            runs.files,
            request,
            submission,
            notes,
            options.uncertainty(compared),
            options.composition,
            name=first,
            allow_missing=options.allow_missing,
        )
    common.print_result(evaluation.result, "\n".join(evaluation.lines), as_json=options.as_json)


# `hsfiq evaluate judged` and `icir`: ranked lists on queries with judged images.

DEFAULT_KS = (5, 10)


@dataclass(frozen=True, kw_only=True)
class JudgedOptions:
    """The options that are the same for every set of judged queries."""

    run: Annotated[
        list[str],
        typer.Option(
            metavar="FILE[,FILE]",
            help="A system's ranked lists; repeat the option for each system.",
        ),
    ]
    k: Annotated[
        list[int] | None,
        typer.Option(metavar="K", min=1, help="First k images; default: 5, 10."),
    ] = None
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Count queries without a list as misses.")
    ] = False
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add 95% intervals over clusters of queries.")
    ] = False
    per_query: PerQueryOption = None
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0
    as_json: common.JsonOption = False


@app.command(
    epilog="Example: hsfiq evaluate judged --queries queries.csv --qrels qrels.txt --run a.trec"
)
def judged(
    options: JudgedOptions,
    queries: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Columns: query_id, and any of group, cluster, reference."
        ),
    ],
    qrels: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="TREC qrels, or query_id, image_id, grade; below 0: wrong."
        ),
    ],
    databases: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="image_id and group: the candidates of each group."),
    ] = None,
) -> None:
    """nDCG, AP and more, from graded and negative judgements.

    Also precision, judged-wrong images and coverage.
    """
    from hsfiq.readers.judged import read_judged

    report_judged(read_judged(queries, qrels, databases), options)


@app.command(epilog="Example: hsfiq evaluate icir --data icir --run basic.jsonl")
def icir(
    options: JudgedOptions,
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Holds query_files.csv and database_files.csv of i-CIR."),
    ],
) -> None:
    """i-CIR: mAP over a database for each instance."""
    from hsfiq.readers.judged import read_icir

    report_judged(read_icir(common.existing_folder(data)), options)


def report_judged(judged_set: JudgedSet, options: JudgedOptions) -> None:
    with common.requires("analysis"):
        from hsfiq.model.evaluation.judged import JudgedRequest, evaluate_judged
    request = JudgedRequest(
        runs=tuple(tuple(Path(name) for name in names.split(",")) for names in options.run),
        ks=tuple(dict.fromkeys(options.k or DEFAULT_KS)),
        intervals=options.intervals,
        per_query=options.per_query,
        seed=options.seed,
        allow_missing=options.allow_missing,
    )
    result, lines = evaluate_judged(judged_set, request)
    common.print_result(result, "\n".join(lines), as_json=options.as_json)


# `hsfiq evaluate fisd`, and drawing its aspects on garments.


@dataclass(frozen=True, kw_only=True)
class FisdOptions(ScorerOptions):
    out: OutOption = None
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0
    as_json: common.JsonOption = False


@app.command(epilog="Example: hsfiq evaluate fisd --data fisd-drawn --checkpoint runs/sprc")
def fisd(
    options: FisdOptions,
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
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="A system or scorer that ranks each aspect's images.",
        ),
    ] = None,
    images: Annotated[Path | None, images_option("in --data's folder")] = None,
) -> None:
    """FISD: Recall@1/5/10, MRR and hard negatives by aspect.

    Each is computed with and without the reference image.
    """
    from hsfiq.model.evaluation import benchmarks

    if (scorer is None) == (not run):
        raise UnreadableInput("--run", "give either ranked lists or a --checkpoint")
    benchmark = benchmarks.fisd(common.existing_folder(data))
    with common.requires("analysis"):
        from hsfiq.model.evaluation.fisd import evaluate_fisd
    if scorer is None:
        report = evaluate_fisd(benchmark, data, run or (), None, options.seed)
    else:
        with common.requires("model"):
            from hsfiq.cli.training_bar import TrainingBar
            from hsfiq.model.evaluation.evaluate import ScorerRequest
            from hsfiq.model.runtime import device_of
        with TrainingBar() as bar:
            request = ScorerRequest(
                options.paths(scorer, images or image_root(data)),
                device_of(options.device),
                bar,
                options.out,
            )
            report = evaluate_fisd(benchmark, data, (), request, options.seed)
    common.print_result(report.result, "\n".join(report.lines), as_json=options.as_json)
