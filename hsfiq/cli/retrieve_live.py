"""`hsfiq retrieve serve` and `check`: live retrievers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires, warn
from hsfiq.cli.images import image_root
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.retrieve import DRAWN, benchmark_of
from hsfiq.cli.scorer_options import ScorerOptions
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.text import count_text, first_few

if TYPE_CHECKING:
    from hsfiq.model.ranker import Candidates

HOST, PORT = "127.0.0.1", 8100

SHORTEST_TOKEN = 16

TokenFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Holds the token that requests must have."),
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
        int, typer.Option(metavar="N", min=0, max=65535, help="To listen on; 0: any free one.")
    ] = PORT
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="To listen on; other machines need a token.")
    ] = HOST
    token_file: TokenFileOption = None
    max_batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Searches of one request.")
    ] = 64
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="PyTorch's, for each request on a CPU. More help large models; small ones are "
            "slower with them where other programs run.",
        ),
    ] = 1


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: hsfiq retrieve serve --checkpoint runs/sprc --images fashion-iq/images",
    )(with_option_groups(serve))
    app.command(
        epilog="Example: hsfiq retrieve check http://127.0.0.1:8100",
    )(check)


def serve(
    checkpoint: Annotated[
        Path,
        typer.Option(metavar="CKPT", help="A run's folder, best.json or last.json; or hf:DIR."),
    ],
    images: Annotated[
        str,
        typer.Option(metavar="DIR|drawn", help="The images to search in, or the catalogue."),
    ],
    *,
    options: ServeOptions,
) -> None:
    """Answer searches over HTTP with a retrieval system or a scorer."""
    token = read_token(options.token_file) if options.token_file else None
    if token is None and not is_loopback(options.host):
        raise UnreadableInput("--host", f"{options.host} needs a token", "add --token-file")
    with requires("live"):
        from hsfiq.http_server import accept_connections, listening
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.ranker import load_ranker
        from hsfiq.model.runtime import device_of
        from hsfiq.model.serving import serve as answer

    with closing(listening(options.host, options.port)) as listener:
        candidates = candidates_of(checkpoint, images, options)
        paths = options.paths(checkpoint, candidates.folder)
        with TrainingBar(lambda line: typer.echo(line, err=True)) as bar:
            ranker, missing = load_ranker(
                paths, candidates, device_of(options.device), bar, options.max_batch
            )
        if missing:
            n = f"{len(missing):,} of {len(candidates.image_ids):,} images"
            warn([f"{n} are missing or unreadable and left out ({first_few(missing)})"])
        accept_connections(listener)
        system, port = ranker.system(), listener.getsockname()[1]
        typer.echo(
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
    folder = existing_folder(Path(images))
    if options.corpus == "all":
        return folder_candidates(folder)
    if options.corpus == "paths":
        return folder_candidates(folder, by_path=True)
    benchmark = benchmark_of(folder, checkpoint)
    return benchmark_candidates(benchmark, options.corpus, image_root(folder))


def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as http://127.0.0.1:8100.")],
    token_file: TokenFileOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="To wait for each answer.")
    ] = 10.0,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The corpus' images; one is sent as an image of the client's own, and must get "
            "the list of its id.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a server follows the protocol of live retrievers: exit code 1 if it does not."""
    with requires("live"):
        from hsfiq.live.client import LiveRetriever
        from hsfiq.live.conformance import check_conformance

    token = read_token(token_file) if token_file else None
    file_of = ImageFolder(existing_folder(images)).find if images else None
    with LiveRetriever(url, token, timeout) as retriever:
        report = check_conformance(retriever, file_of)
    print_result(report.to_json(), report.as_text(), as_json=as_json)
    if report.failed:
        raise NothingToDo(f"{url}: {len(report.failed)} of {len(report.results)} rules are broken")


def read_token(path: Path) -> str:
    """The only line of a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInput(str(path), "cannot be read", "name the file of the token") from error
    if len(token) < SHORTEST_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise UnreadableInput(
            str(path),
            f"holds no token of {SHORTEST_TOKEN} or more letters, digits and signs",
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
