"""`hsfiq evaluate ... --system`: several systems in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.cli.common import print_result, requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.cli.evaluate_options import EvaluateOptions
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.model.evaluation.evaluate import ScorerRequest


def named_files(systems: Sequence[str]) -> dict[str, tuple[Path, ...]]:
    """The files of each `NAME=FILE[,FILE]`."""
    files: dict[str, tuple[Path, ...]] = {}
    for given in systems:
        name, equals, names = given.partition("=")
        if not (name and equals and names):
            raise UnreadableInput(
                "--system", f"{given!r} is not NAME=FILE", "such as sprc=sprc.json"
            )
        if name in files:
            raise UnreadableInput("--system", f"{name!r} is named twice")
        files[name] = tuple(map(Path, names.split(",")))
    return files


def check_options(options: EvaluateOptions, runs: Sequence[Path] | None) -> None:
    """With --system refuse the options for one system; without it, those that need it."""
    if options.system:
        refused: dict[str, object] = {
            "run": runs,
            "compare": options.compare,
            "text-only": options.text_only,
            "image-only": options.image_only,
            "per-query": options.per_query,
            "out": options.out,
        }
        what, remedy = "is for one system", "leave it out, or evaluate one system with --run"
    else:
        refused = {"release": options.release, "table": options.table}
        what, remedy = "needs --system", "name systems, or leave it out"
    for name, value in refused.items():
        if value:
            raise UnreadableInput(f"--{name}", what, remedy)


def report_systems(
    benchmark: Benchmark,
    scorer: ScorerRequest | None,
    options: EvaluateOptions,
    notes: Sequence[str],
) -> None:
    from hsfiq.model.evaluation.systems import SystemsRequest, evaluate_systems

    if options.release is not None:
        with requires("analysis"):
            from hsfiq.model.evaluation import comparison  # noqa: F401
    uncertainty = options.uncertainty
    uncertainty.check(benchmark, ())
    request = SystemsRequest(
        named_files(options.system or ()), options.release, options.allow_missing
    )
    if options.table is not None:
        with requires("analysis"):
            from hsfiq.model.evaluation.systems import require_table_file, write_tables
        require_table_file(options.table)
    report = evaluate_systems(benchmark, request, scorer, notes, uncertainty)
    lines = report.lines
    if options.table is not None:
        write_tables(options.table, report.tables, simulated=report.simulated)
        report.result["table"] = str(options.table)
        lines = [*lines, f"{options.table}: written"]
    print_result(report.result, "\n".join(lines), as_json=options.as_json)
