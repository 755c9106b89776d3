"""`hsfiq retrieve`, `retriever` and `weights`: ranked lists, live retrievers, published weights."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from hsfiq.cli import common
from hsfiq.cli.images import image_root
from hsfiq.cli.score import ScorerOptions, images_option
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.text import count_text, first_few

if TYPE_CHECKING:
    from hsfiq.model.checkpoints import Checkpoint
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.model.ranker import Candidates

app = common.Commands()
retriever_app = common.Commands(help="Serve and check live retrievers.", no_args_is_help=True)


DatasetName = Literal["fashioniq", "cirr", "circo", "fisd"]
DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(ScorerOptions):
    """The images that are ranked."""

    images: Annotated[Path | None, images_option("in --data's folder")] = None
    dataset: Annotated[
        DatasetName | None,
        typer.Option(
            help="The dataset of --data; else the one that the checkpoint was trained for."
        ),
    ] = None
    split: Annotated[str, typer.Option(metavar="NAME", help="The dataset's split.")] = "val"
    corpus: Annotated[
        Literal["split", "union"],
        typer.Option(help="FashionIQ: the whole split file, or references and targets alone."),
    ] = "split"


@dataclass(frozen=True, kw_only=True)
class RetrieveOptions(CorpusOptions):
    checkpoint: Annotated[
        Path,
        typer.Option(metavar="DIR", help="A checkpoint folder, best.json or last.json; or hf:DIR."),
    ]
    data: Annotated[
        str, typer.Option(metavar="DIR|drawn", help="A dataset's folder, or the catalogue.")
    ]
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The run as JSONL; a stopped run is resumed.")
    ]
    system: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The expected system; a checkpoint of another system is refused."
        ),
    ] = None
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
            help="Search N clusters of an approximate index (extra: index) instead of all images; "
            "its recall of the exact lists is printed.",
        ),
    ] = None
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Continue without missing images.")
    ] = False
    as_json: common.JsonOption = False


@app.command(
    epilog="Example: hsfiq retrieve --checkpoint runs/sprc --data fashion-iq --corpus union "
    "--drop-reference --out sprc.jsonl"
)
def retrieve(*, options: RetrieveOptions) -> None:
    """Write the ranked lists of a retrieval system or a scorer, for import runs and evaluate."""
    if options.out.exists():
        raise UnreadableInput(str(options.out), "exists already", "name another file with --out")
    common.existing_folder(options.out.parent)
    folder = None if options.data == DRAWN else common.existing_folder(Path(options.data))
    if options.probes is not None:
        with common.requires("index"):
            import faiss  # noqa: F401 -- only whether it is installed
    with common.requires("model"):
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
        options.system,
        options.k,
        options.query,
        options.allow_missing,
        options.probes,
    )
    with TrainingBar() as bar:
        result = write_lists(request, bar)
    result["notes"] += notes
    common.print_result(result, as_text(result), as_json=options.as_json)


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
        f"ranking used at most {result['memory_mb']} MB besides the model",
    ]
    for name, recall in result.get("index", {}).get("recall", {}).items():
        share = f"{recall['recall']:.4f} of the exact lists of {recall['n']:,} queries"
        lines.append(f"{name}: the index found {share}")
    lines += [f"note: {note}" for note in result["notes"]]
    return "\n".join(lines)


# `hsfiq retriever serve` and `check`: live retrievers.

HOST, PORT = "127.0.0.1", 8100

SHORTEST_TOKEN = 16

TokenFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The file with the token required in requests."),
]


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ScorerOptions):
    corpus: Annotated[
        Literal["split", "union", "all", "paths"],
        typer.Option(
            help="Every image, by name or, for own data, by path; or those of a dataset's "
            "validation split, or its references and targets alone: DIR is the dataset's folder "
            "then."
        ),
    ] = "all"
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="The port to listen on; 0: any free port."
        ),
    ] = PORT
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen on; an address that "
            "other machines can reach needs a token.",
        ),
    ] = HOST
    token_file: TokenFileOption = None
    max_batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="The most searches in a request.")
    ] = 64
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="PyTorch's threads for each request on a CPU. More threads speed up large "
            "models, and slow down small ones on a busy machine.",
        ),
    ] = 1


@retriever_app.command(
    epilog="Example: hsfiq retriever serve --checkpoint runs/sprc --images fashion-iq/images"
)
def serve(
    options: ServeOptions,
    checkpoint: Annotated[
        Path,
        typer.Option(metavar="DIR", help="A checkpoint folder, best.json or last.json; or hf:DIR."),
    ],
    images: Annotated[
        str,
        typer.Option(metavar="DIR|drawn", help="The images to search in, or the catalogue."),
    ],
) -> None:
    """Serve a retrieval system or a scorer over HTTP."""
    token = read_token(options.token_file) if options.token_file else None
    if token is None and not is_loopback(options.host):
        raise UnreadableInput("--host", f"{options.host} needs a token", "add --token-file")
    with common.requires("live"):
        from hsfiq.http_server import accept_connections, listening
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.ranker import load_ranker
        from hsfiq.model.retriever_server import serve as answer
        from hsfiq.model.runtime import device_of

    with closing(listening(options.host, options.port)) as listener:
        candidates = candidates_of(checkpoint, images, options)
        paths = options.paths(checkpoint, candidates.folder)
        with TrainingBar() as bar:
            ranker, missing = load_ranker(
                paths, candidates, device_of(options.device), bar, options.max_batch
            )
        if missing:
            n = f"{len(missing):,} of {len(candidates.image_ids):,} images"
            common.warn([f"{n} are missing or unreadable and were left out ({first_few(missing)})"])
        accept_connections(listener)
        system, port = ranker.system(), listener.getsockname()[1]
        common.print_text(
            f"serving {system.name} ({system.version[:12]}) on "
            f"{count_text(system.corpus.size, 'image')} at "
            f"http://{options.host}:{port}; Ctrl-C stops it"
        )
        answer(ranker, listener, token, options.threads)


def candidates_of(checkpoint: Path, images: str, options: ServeOptions) -> Candidates:
    """The images that the options name; the catalogue's pictures are drawn."""
    from hsfiq.model.evaluation.drawn import drawn_for_scorer
    from hsfiq.model.ranker import benchmark_candidates, folder_candidates

    if images == DRAWN:
        if options.corpus == "paths":
            raise UnreadableInput("--corpus paths", "needs a folder", "name it with --images")
        split: Literal["val", "test"] = "test" if options.corpus == "all" else "val"
        benchmark, folder, _ = drawn_for_scorer(split, checkpoint, None)
        return benchmark_candidates(benchmark, options.corpus, folder)
    folder = common.existing_folder(Path(images))
    if options.corpus == "all":
        return folder_candidates(folder)
    if options.corpus == "paths":
        return folder_candidates(folder, by_path=True)
    benchmark = benchmark_of(folder, checkpoint)
    return benchmark_candidates(benchmark, options.corpus, image_root(folder))


@retriever_app.command(epilog="Example: hsfiq retriever check http://127.0.0.1:8100")
def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as http://127.0.0.1:8100.")],
    token_file: TokenFileOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The timeout of each request.")
    ] = 10.0,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The corpus' images; one of them is uploaded as a query and must get the same "
            "list as its id.",
        ),
    ] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Check that a server follows the live retrieval protocol.

    The exit code is 1 if it does not.
    """
    with common.requires("live"):
        from hsfiq.live.client import LiveRetriever
        from hsfiq.live.conformance import check_conformance

    token = read_token(token_file) if token_file else None
    file_of = ImageFolder(common.existing_folder(images)).find if images else None
    with LiveRetriever(url, token, timeout) as retriever:
        report = check_conformance(retriever, file_of)
    common.print_result(report.to_json(), report.as_text(), as_json=as_json)
    if report.failed:
        raise NothingToDo(
            f"{url}: {len(report.failed)} of {len(report.results)} rules are violated"
        )


def read_token(path: Path) -> str:
    """The only line of a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInput(str(path), "cannot be read", "name the file of the token") from error
    if len(token) < SHORTEST_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise UnreadableInput(
            str(path),
            f"holds no token of at least {SHORTEST_TOKEN} letters, digits and signs",
            "make one with: openssl rand -hex 32",
        )
    return token


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# `hsfiq weights`: published weights into this project's layouts, and between libraries.

weights_app = common.Commands(no_args_is_help=True)


@weights_app.callback()
def weights() -> None:
    """Published weights: BLIP-2's between two layouts, and the retrieval systems'."""


@weights_app.command(epilog="Example: hsfiq weights convert lavis-files --out blip2-itm-vit-g")
def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="LAVIS' files, a folder of transformers', or a run of either's encoder.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder.")],
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="The model of LAVIS' files: blip2-vitg or blip2-coco."),
    ] = "blip2-vitg",
    as_json: common.JsonOption = False,
) -> None:
    """Convert BLIP-2's weights to the other layout.

    The values of the weights do not change. The new folder is written completely or not at all.
    """
    with common.requires("model"):
        from hsfiq.model.encoders import hf_conversion
        from hsfiq.model.encoders.lavis import architecture_named
    if not source.exists():
        raise UnreadableInput(str(source), "there is no such file or folder")
    if source.is_file() or any((source / name).is_file() for name in ("best.json", "last.json")):
        result = converted(hf_conversion.convert(source, out))
    elif (source / "config.json").is_file():
        architecture = hf_conversion.hf_to_lavis(source, out)
        result = {"from": "transformers", "to": "LAVIS", "model": architecture.name}
    else:
        hf_conversion.lavis_to_hf(architecture_named(model), source, out)
        result = {"from": "LAVIS", "to": "transformers", "model": model}
    text = (
        f"{out}: {result['model']}, from the layout of {result['from']} to that of {result['to']}"
    )
    common.print_result({"out": str(out), **result}, text, as_json=as_json)


@weights_app.command(
    "import",
    epilog="Example: hsfiq weights import tuned_clip_best.pt combiner.pt --dataset fashioniq "
    "--out runs/clip4cir",
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The published files of one system."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder.")],
    dataset: Annotated[
        Literal["fashioniq", "cirr"] | None,
        typer.Option(
            help="The training dataset. Not needed for files known by their SHA-1.",
        ),
    ] = None,
    weights_folder: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="DIR",
            help="The folder with the tokenizer's file; for SPRC and QuRe, BLIP-2's; else "
            "$HSFIQ_WEIGHTS.",
        ),
    ] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Create a checkpoint from weights published by the authors.

    The weights are those of a retrieval system, or of QuRe's scorer.
    """
    with common.requires("model"):
        from hsfiq.model.retrieval.import_weights import import_weights
    checkpoint = import_weights(files, out, dataset=dataset, weights=weights_folder)
    recipe = checkpoint.about["recipe"]
    kind, stage = recipe.get("system", "a scorer"), checkpoint.about.get("stage")
    sources = checkpoint.about["imported_from"]
    result = {
        "out": str(out),
        "system": recipe.get("system"),
        "recipe": recipe["name"],
        "stage": stage,
        "files": sources,
        "sha256": checkpoint.sha256,
    }
    lines = [f"{out}: {kind} for {recipe['dataset']}" + (f", stage {stage}" if stage else "")]
    for source in sources:
        known = source["known_as"] or f"unknown file, SHA-1 {source['sha1']}"
        lines.append(f"  {source['file']}: {known}")
    common.print_result(result, "\n".join(lines), as_json=as_json)


def converted(checkpoint: Checkpoint) -> dict[str, Any]:
    encoder = checkpoint.about["encoder"]["name"]
    to_hf = encoder == "blip2-hf"
    return {
        "from": "LAVIS" if to_hf else "transformers",
        "to": "transformers" if to_hf else "LAVIS",
        "model": f"a scorer with {encoder}",
        "sha256": checkpoint.sha256,
    }
