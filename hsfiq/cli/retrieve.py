"""`hsfiq retrieve`: the ranked lists of a retrieval system, as a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.images import image_root
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.model.evaluation.benchmarks import Benchmark

app = typer.Typer(
    help="Write a retrieval system's ranked lists, for import runs and evaluate.",
    no_args_is_help=True,
)

DatasetName = Literal["fashioniq", "cirr", "circo", "fisd"]
DRAWN = "drawn"
SCORER = "scorer"
SYSTEMS = ("clip4cir", "bi-blip4cir", "covr-blip", "sprc", "mapnet")


@dataclass(frozen=True, kw_only=True)
class RetrieveOptions(ScorerOptions):
    checkpoint: Annotated[
        Path,
        typer.Option(metavar="CKPT", help="A run's folder, best.json or last.json; or hf:DIR."),
    ]
    data: Annotated[
        str, typer.Option(metavar="DIR|drawn", help="A dataset's folder, or the catalogue.")
    ]
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The run, as JSONL; a stopped one goes on.")
    ]
    images: Annotated[Path | None, images_option("in --data's folder")] = None
    dataset: Annotated[
        DatasetName | None,
        typer.Option(help="Of --data; else the one that CKPT was trained for."),
    ] = None
    split: Annotated[str, typer.Option(metavar="NAME", help="The dataset's split.")] = "val"
    corpus: Annotated[
        Literal["split", "union"],
        typer.Option(help="FashionIQ: the whole split file, or references and targets alone."),
    ] = "split"
    captions: Annotated[
        Literal["forward", "reversed", "both"],
        typer.Option(help="FashionIQ: the captions' order; both: two queries (ids with ~)."),
    ] = "forward"
    k: Annotated[int, typer.Option("--k", metavar="N", min=1, help="Images of each list.")] = 50
    drop_reference: Annotated[
        bool, typer.Option("--drop-reference", help="Leave a query's reference out of its list.")
    ] = False
    query: Annotated[
        Literal["both", "text", "image"],
        typer.Option(help="text: with a blank reference; image: without the text."),
    ] = "both"
    probes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Search N groups of an index (extra: index) instead of all images; the share of "
            "the exact lists that it finds is printed.",
        ),
    ] = None
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Go on without images that are missing.")
    ] = False
    as_json: JsonOption = False


def retrieve(system: str | None, options: RetrieveOptions) -> None:
    """Write the lists of a system, or of a scorer if None."""
    if options.out.exists():
        raise UnreadableInput(str(options.out), "exists already", "name another file with --out")
    existing_folder(options.out.parent)
    folder = None if options.data == DRAWN else existing_folder(Path(options.data))
    if options.probes is not None:
        with requires("index"):
            import faiss  # noqa: F401 -- only whether it is installed
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.evaluation.drawn import drawn_for_scorer
        from hsfiq.model.evaluation.retrieve import Request
        from hsfiq.model.evaluation.retrieve import retrieve as write_lists
        from hsfiq.model.runtime import device_of

    notes: tuple[str, ...] = ()
    if folder is None:
        split = drawn_split(options.split)
        benchmark, root, notes = drawn_for_scorer(split, options.checkpoint, options.images)
    else:
        chosen = (options.dataset, options.split, options.corpus, options.captions)
        benchmark = benchmark_of(folder, options.checkpoint, *chosen)
        root = options.images or image_root(folder)
    if options.drop_reference:
        benchmark = replace(benchmark, keeps_reference=False)
    request = Request(
        benchmark,
        options.paths(options.checkpoint, root),
        device_of(options.device),
        options.out,
        system,
        options.k,
        options.query,
        options.allow_missing,
        options.probes,
    )
    with TrainingBar(lambda line: typer.echo(line, err=True)) as bar:
        result = write_lists(request, bar)
    result["notes"] += notes
    print_result(result, as_text(result), as_json=options.as_json)


def drawn_split(name: str) -> Literal["val", "test"]:
    if name == "val":
        return "val"
    if name == "test":
        return "test"
    raise UnreadableInput("--split", "drawn has val and test", "choose one of them")


def benchmark_of(
    folder: Path,
    checkpoint: Path,
    dataset: DatasetName | None = None,
    split: str = "val",
    corpus: Literal["split", "union"] = "split",
    captions: Literal["forward", "reversed", "both"] = "forward",
) -> Benchmark:
    """The benchmark in a folder: of the dataset that is named, or else the checkpoint's."""
    from hsfiq.model.checkpoints import read
    from hsfiq.model.encoders.registry import is_specification
    from hsfiq.model.retrieval.loading import recipe_of

    if dataset is None and is_specification(checkpoint):
        raise UnreadableInput(str(checkpoint), "was trained for no dataset", "add --dataset")
    chosen = dataset or recipe_of(read(checkpoint)).dataset
    if chosen not in get_args(DatasetName):
        raise UnreadableInput(
            str(checkpoint),
            "was trained on the drawn catalogue",
            "use --data drawn, or --dataset",
        )
    return named_benchmark(cast("DatasetName", chosen), folder, split, corpus, captions)


def named_benchmark(
    dataset: DatasetName,
    folder: Path,
    split: str,
    corpus: Literal["split", "union"],
    captions: Literal["forward", "reversed", "both"] = "forward",
) -> Benchmark:
    from hsfiq.model.evaluation import benchmarks

    if dataset == "fashioniq":
        return benchmarks.fashioniq(folder, (), split, corpus, captions)
    if dataset == "cirr":
        return benchmarks.cirr(folder, split)
    if dataset == "fisd":
        return benchmarks.fisd(folder)
    return benchmarks.circo(folder, split)


def as_text(result: dict[str, Any]) -> str:
    sizes = ", ".join(f"{name} {n:,}" for name, n in result["corpora"].items())
    lists = f"{count_text(result['n_lists'], 'list')} of {count_text(result['k'], 'image')}"
    lines = [
        f"{result['run']}: {lists}, {result['system']}",
        f"candidates: {sizes}; the reference "
        + ("is one of them" if result["reference_is_candidate"] else "is left out"),
        f"ranking held at most {result['memory_mb']} MB besides the model",
    ]
    for name, recall in result.get("index", {}).get("recall", {}).items():
        share = f"{recall['recall']:.4f} of the exact lists of {recall['n']:,} queries"
        lines.append(f"{name}: the index found {share}")
    lines += [f"note: {note}" for note in result["notes"]]
    return "\n".join(lines)


def command_for(system: str | None) -> Callable[..., None]:
    """The command that ranks with one system, or with a scorer."""

    def command(*, options: RetrieveOptions) -> None:
        retrieve(system, options)

    name = system or SCORER
    command.__doc__ = f"Rank with {name}." if system else "Rank with a trained scorer."
    return with_option_groups(command)


for each in SYSTEMS:
    app.command(
        each,
        epilog=f"Example: hsfiq retrieve {each} --checkpoint runs/{each} --data fashion-iq "
        f"--corpus union --drop-reference --out {each}.jsonl",
    )(command_for(each))
app.command(
    SCORER,
    epilog="Example: hsfiq retrieve scorer --checkpoint runs/qure --data drawn --out qure.jsonl",
)(command_for(None))
