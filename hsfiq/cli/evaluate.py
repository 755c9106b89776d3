"""`hsfiq evaluate`: the field's figures of a system's ranked lists. Needs no extra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result
from hsfiq.cli.evaluate_scorer import (
    ImagesOption,
    OutOption,
    ScorerOption,
    Scoring,
    about_scorer,
    chosen,
    drawn_benchmark,
    judged_by_scorer,
    ranked_by_scorer,
    with_scorer,
)
from hsfiq.cli.scorer_options import (
    CacheOption,
    DeviceOption,
    ScorerOptions,
    WeightsOption,
    images_option,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.evaluation.benchmark import Answers, Benchmark

app = typer.Typer(
    help="The field's figures of a system's ranked lists on a benchmark.", no_args_is_help=True
)

RunOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Ranked lists: JSONL, TREC run, {query id: [image ids]}; in parts: several times.",
    ),
]
AllowMissingOption = Annotated[
    bool,
    typer.Option(
        "--allow-missing",
        help="Count queries without a list as misses; a scorer goes without missing images.",
    ),
]
SubmissionOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write what the benchmark's server takes, as a new folder."),
]


@app.command(epilog="Example: hsfiq evaluate fashioniq --data fashion-iq --run sprc.json")
def fashioniq(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Holds captions/ and image_splits/.")],
    run: RunOption = None,
    category: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this category; may come several times."),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="One with targets.")] = "val",
    corpus: Annotated[
        Literal["split", "union"],
        typer.Option(help="The whole split file, or references and targets alone (VAL, CoSMo)."),
    ] = "split",
    captions: Annotated[
        Literal["forward", "reversed", "both"],
        typer.Option(help="The captions' order; both asks each triplet twice (ids with ~)."),
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

    asked = benchmarks.fashioniq(existing_folder(data), category or (), split, corpus, captions)
    scoring = chosen(data, run or (), scorer, images, weights, cache, device, out)
    report(asked, run or (), scoring, None, allow_missing=allow_missing, as_json=as_json)


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

    asked = benchmarks.cirr(existing_folder(data), split)
    scoring = chosen(data, run or (), scorer, images, weights, cache, device, out)
    report(asked, run or (), scoring, submission, allow_missing=allow_missing, as_json=as_json)


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

    asked = benchmarks.circo(existing_folder(data), split)
    scoring = chosen(data, run or (), scorer, images, weights, cache, device, out)
    report(asked, run or (), scoring, submission, allow_missing=allow_missing, as_json=as_json)


@app.command(epilog="Example: hsfiq evaluate drawn --scorer runs/drawn --split test")
def drawn(
    scorer: Annotated[
        Path,
        typer.Option(metavar="CKPT", help="Ranks the catalogue; beside --run: its CIRQRS@k."),
    ],
    run: RunOption = None,
    split: Annotated[
        Literal["val", "test"],
        typer.Option(help="What training validates on, or combinations that it never shows."),
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
    asked, folder, notes = drawn_benchmark(split, scorer, images)
    options = ScorerOptions(scorer, folder, weights, cache, device)
    scoring = with_scorer(run or (), Scoring(options, out))
    report(asked, run or (), scoring, None, notes, allow_missing=allow_missing, as_json=as_json)


def report(
    asked: Benchmark,
    files: Sequence[Path],
    scoring: Scoring | None,
    submission: Path | None,
    notes: Sequence[str] = (),
    *,
    allow_missing: bool,
    as_json: bool,
) -> None:
    """Print the figures, or where the benchmark withholds its targets what can be said instead.

    Raises:
        UnreadableInput: a place to write to is taken, or a scorer is to judge what has no figures.
    """
    from hsfiq.model.evaluation.benchmarks import about
    from hsfiq.model.evaluation.figures import evaluate
    from hsfiq.model.evaluation.report import to_table
    from hsfiq.model.evaluation.submission import refuse_taken

    if submission is not None:
        refuse_taken(submission)
    if asked.withholds_targets and files and scoring is not None:
        raise UnreadableInput(
            "--scorer",
            f"judges a run beside its figures, and the targets of {asked.split} are withheld",
            "leave out --scorer or --run",
        )
    if asked.withholds_targets and submission is None and (scoring is None or scoring.out is None):
        check_submission(asked, files, as_json=as_json)
        return
    given = lists_given(asked, files, scoring, allow_missing=allow_missing)
    result: dict[str, Any]
    if asked.withholds_targets:
        result = without_figures(asked) | {"notes": list(given.notes)} | given.about
        lines = [f"note: {note}" for note in given.notes]
    else:
        said = [*about(asked), *notes, *given.notes]
        evaluation = evaluate(given.benchmark, given.answers, said)
        about_given = given.about
        if files and scoring is not None:
            evaluation, about_given = judged_by_scorer(
                evaluation, given.answers, scoring, allow_missing=allow_missing
            )
        result = evaluation.to_json()
        missing = result.get("missing", {}) | about_given.get("missing", {})
        result |= about_given | ({"missing": missing} if missing else {})
        lines = [to_table(evaluation, given.whose)]
    if files:
        result["run"] = [str(path) for path in files]
    if submission is not None:
        result["submission"] = write_submission(given.benchmark, given.answers, submission)
        lines += [f"{path}: written" for path in result["submission"]]
    if scoring is not None and scoring.out is not None:
        result["out"] = str(scoring.out)
        lines.append(f"{scoring.out}: written")
    print_result(result, "\n".join(lines), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Given:
    """One system's answers, whoever the system is; `benchmark` has the candidates it ranked."""

    benchmark: Benchmark
    answers: dict[str, Answers]
    notes: Sequence[str]
    whose: str
    about: dict[str, Any]


def lists_given(
    asked: Benchmark, files: Sequence[Path], scoring: Scoring | None, *, allow_missing: bool
) -> Given:
    """The answers of the runs or, where there are none, of the scorer."""
    if scoring is not None and not files:
        found = ranked_by_scorer(asked, scoring, allow_missing=allow_missing)
        said = about_scorer(found.loaded, found.missing)
        return Given(
            found.benchmark, found.answers, found.notes, str(scoring.options.checkpoint), said
        )
    from hsfiq.model.evaluation.answers import match
    from hsfiq.readers.submissions import read_run

    runs = [read_run(path) for path in files]
    answers, notes = match(asked, runs, allow_missing=allow_missing)
    return Given(asked, answers, notes, ", ".join(map(str, files)), {})


def check_submission(asked: Benchmark, files: Sequence[Path], *, as_json: bool) -> None:
    """Say that the files are what the server takes.

    Raises:
        UnreadableInput: they are not, or there are none.
    """
    from hsfiq.model.evaluation.submission import check
    from hsfiq.readers.submissions import read_run

    if not files:
        raise UnreadableInput(
            f"--split {asked.split}",
            "its targets are withheld, so there are no figures",
            "write the scorer's lists with --submission DIR or --out FILE",
        )
    check(asked, [read_run(path) for path in files])
    result = without_figures(asked) | {"valid_submission": True}
    text = f"{', '.join(map(str, files))}: valid submission, {result['n_queries']:,} queries"
    print_result(result | {"run": [str(path) for path in files]}, text, as_json=as_json)


def without_figures(benchmark: Benchmark) -> dict[str, Any]:
    """What is said of a benchmark that withholds its targets."""
    n_queries = sum(len(part.queries) for part in benchmark.parts)
    return {"benchmark": benchmark.name, "split": benchmark.split, "n_queries": n_queries}


def write_submission(benchmark: Benchmark, answers: dict[str, Answers], folder: Path) -> list[str]:
    """Write the server's files and give back their paths."""
    from hsfiq.model.evaluation.submission import make, write

    files = make(benchmark, answers[benchmark.parts[0].name])
    write(files, folder)
    return [str(folder / name) for name in files]
