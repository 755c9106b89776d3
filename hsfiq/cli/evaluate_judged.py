"""`hsfiq evaluate judged` and `icir`: ranked lists on queries with judged images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.option_groups import with_option_groups

if TYPE_CHECKING:
    from hsfiq.readers.judged import JudgedSet

DEFAULT_KS = (5, 10)


@dataclass(frozen=True, kw_only=True)
class JudgedOptions:
    """The options that are the same for every set of judged queries."""

    run: Annotated[
        list[str],
        typer.Option(
            metavar="FILE[,FILE]", help="A system's ranked lists; repeat it: a row for each system."
        ),
    ]
    k: Annotated[
        list[int] | None,
        typer.Option(metavar="K", min=1, help="First k images; may be repeated. Default: 5, 10."),
    ] = None
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Count queries without a list as misses.")
    ] = False
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add 95% intervals over clusters of queries.")
    ] = False
    per_query: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write each query's values: .csv, .jsonl or .parquet.",
            dir_okay=False,
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0
    as_json: JsonOption = False


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: hsfiq evaluate judged --queries queries.csv --qrels qrels.txt --run a.trec"
    )(judged)
    app.command(epilog="Example: hsfiq evaluate icir --data icir --run basic.jsonl")(icir)


@with_option_groups
def judged(
    queries: Annotated[
        Path, typer.Option(metavar="FILE", help="query_id, and any of group, cluster, reference.")
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
    *,
    options: JudgedOptions,
) -> None:
    """Graded and negative judgements: nDCG, AP, precision, judged-wrong images, coverage."""
    from hsfiq.readers.judged import read_judged

    report(read_judged(queries, qrels, databases), options)


@with_option_groups
def icir(
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Holds query_files.csv and database_files.csv of i-CIR."),
    ],
    *,
    options: JudgedOptions,
) -> None:
    """The instance-level set i-CIR: mAP over a database for each instance."""
    from hsfiq.readers.judged import read_icir

    report(read_icir(existing_folder(data)), options)


def report(judged_set: JudgedSet, options: JudgedOptions) -> None:
    with requires("analysis"):
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
    print_result(result, "\n".join(lines), as_json=options.as_json)
