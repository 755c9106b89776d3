"""Evaluating one system on a benchmark: lists from files, or ranked by a scorer; or both.

The result is the output of `hsfiq evaluate`. torch is imported only if there is a scorer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation import lists
from hsfiq.model.evaluation.benchmarks import DEPTH, Benchmark, SystemLists, comparability_notes
from hsfiq.model.evaluation.composition import NO_COMPOSITION, CompositionRequest, add_composition
from hsfiq.model.evaluation.metrics import Evaluation, evaluate, to_table
from hsfiq.model.evaluation.uncertainty import NOTHING, UncertaintyRequest, add_uncertainty
from hsfiq.readers.runs import read_run

if TYPE_CHECKING:
    import torch

    from hsfiq.model.retrieval.loading import LoadedRetriever
    from hsfiq.model.scorer.job import Callback
    from hsfiq.model.scorer.loading import ScorerPaths


@dataclass(frozen=True, slots=True)
class ScorerRequest:
    """A scorer to evaluate, or to compute CIRQRS@k of a run with; its own lists go to `out`."""

    paths: ScorerPaths
    device: torch.device
    callback: Callback
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    result: dict[str, Any]
    lines: list[str]
    by_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # as in `Evaluation`


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's lists, and the benchmark with the candidates that it ranked."""

    name: str
    benchmark: Benchmark
    answers: dict[str, SystemLists]
    notes: Sequence[str]
    about: dict[str, Any] = field(default_factory=dict)  # entries of the result on the scorer


def evaluate_system(
    benchmark: Benchmark,
    files: Sequence[Path],
    scorer: ScorerRequest | None,
    submission: Path | None = None,
    notes: Sequence[str] = (),
    uncertainty: UncertaintyRequest = NOTHING,
    composition: CompositionRequest = NO_COMPOSITION,
    *,
    name: str = "",
    allow_missing: bool = False,
) -> EvaluationReport:
    """Compute the figures of runs or, without runs, of a scorer's own lists.

    If the benchmark withholds its targets, check submission files or write a submission instead.

    Args:
        files: one system's runs; may be empty if there is a scorer.
        scorer: ranks the corpus if there are no runs, else adds CIRQRS@k to their figures.
        submission: a new folder for the files of the benchmark's server.
        uncertainty: intervals, runs to compare with, and a file of values by query.
        composition: the system's runs with one input alone.
        name: what the system is called, else by its files.
        allow_missing: whether to continue without lists of some queries, or without some images.

    Raises:
        UnreadableInput: invalid runs, an output that exists, or a request for figures that cannot
            be computed.
    """
    if submission is not None:
        lists.require_free(submission)
    uncertainty.check(benchmark, files)
    composition.check(benchmark)
    out = scorer.out if scorer is not None else None
    if benchmark.withholds_targets:
        if files and scorer is not None:
            raise UnreadableInput(
                "--checkpoint",
                f"adds CIRQRS@k to a run's figures, and the targets of {benchmark.split} are "
                "withheld",
                "leave out --checkpoint or --run",
            )
        if submission is None and out is None:
            return submission_check(benchmark, files)
    if files or scorer is None:
        runs = [read_run(path) for path in files]
        answers, list_notes = lists.match_runs(benchmark, runs, allow_missing=allow_missing)
        system = RankedSystem(name or ", ".join(map(str, files)), benchmark, answers, list_notes)
    else:
        system = system_of_scorer(benchmark, scorer, allow_missing=allow_missing)
    if benchmark.withholds_targets:
        result = without_figures(benchmark) | {"notes": list(system.notes)} | system.about
        report = EvaluationReport(result, [f"note: {note}" for note in system.notes])
    else:
        cirqrs_scorer = scorer if files else None
        report = report_figures(
            benchmark, system, cirqrs_scorer, notes, allow_missing=allow_missing
        )
    if files:
        report.result["run"] = [str(path) for path in files]
    add_uncertainty(
        report.result,
        report.lines,
        system.name,
        system.benchmark,
        system.answers,
        uncertainty,
        report.by_query,
        allow_missing=allow_missing,
    )
    add_composition(
        report.result,
        report.lines,
        system.benchmark,
        system.answers,
        composition,
        allow_missing=allow_missing,
    )
    written = []
    if submission is not None:
        contents = lists.make_submission(system.benchmark, system.answers[benchmark.parts[0].name])
        lists.write_submission(contents, submission)
        written = report.result["submission"] = [str(submission / name) for name in contents]
    if out is not None:
        report.result["out"] = str(out)
        written = [*written, str(out)]
    report.lines.extend(f"{path}: written" for path in written)
    return report


def report_figures(
    benchmark: Benchmark,
    system: RankedSystem,
    cirqrs_scorer: ScorerRequest | None,
    notes: Sequence[str],
    *,
    allow_missing: bool,
) -> EvaluationReport:
    all_notes = [*comparability_notes(benchmark), *notes, *system.notes]
    evaluation, about = evaluate(system.benchmark, system.answers, all_notes), system.about
    if cirqrs_scorer is not None:
        evaluation, about = add_cirqrs(
            evaluation, system.answers, cirqrs_scorer, allow_missing=allow_missing
        )
    result = evaluation.to_json()
    missing = result.get("missing", {}) | about.get("missing", {})
    result |= about | ({"missing": missing} if missing else {})
    return EvaluationReport(result, [to_table(evaluation, system.name)], evaluation.by_query)


def system_of_scorer(
    benchmark: Benchmark, scorer: ScorerRequest, *, allow_missing: bool, depth: int = DEPTH
) -> RankedSystem:
    """Rank with the scorer, and write its lists if that is requested."""
    from hsfiq.model.evaluation.rankings import rank_with_scorer, write_run  # noqa: PLC0415

    ranked = rank_with_scorer(
        benchmark,
        scorer.paths,
        scorer.device,
        scorer.callback,
        depth=depth,
        allow_missing=allow_missing,
    )
    if scorer.out is not None:
        write_run(scorer.out, ranked, ranked.loaded.system)
    about = about_scorer(ranked.loaded, ranked.missing)
    name = str(scorer.paths.required("checkpoint"))
    return RankedSystem(name, ranked.benchmark, ranked.answers, ranked.notes, about)


def add_cirqrs(
    evaluation: Evaluation,
    answers: Mapping[str, SystemLists],
    scorer: ScorerRequest,
    *,
    allow_missing: bool,
) -> tuple[Evaluation, dict[str, Any]]:
    """A run's figures with CIRQRS@k, and the entries that describe the scorer."""
    from hsfiq.model.evaluation.rankings import (  # noqa: PLC0415
        images_of_lists,
        prepare_scorer,
        with_cirqrs,
    )

    wanted = images_of_lists(evaluation.benchmark.parts, answers)
    prepared = prepare_scorer(
        scorer.paths, wanted, scorer.device, scorer.callback, allow_missing=allow_missing
    )
    about = about_scorer(prepared.loaded, prepared.missing_json())
    return with_cirqrs(evaluation, answers, prepared), about


def about_scorer(loaded: LoadedRetriever, missing: dict[str, Any]) -> dict[str, Any]:
    """The entries that describe a scorer, and the images that it lacked."""
    path, digest = loaded.checkpoint.path, loaded.checkpoint.sha256
    about: dict[str, Any] = {"scorer": {"checkpoint": str(path), "sha256": digest}}
    return about | ({"missing": missing} if missing else {})


def submission_check(benchmark: Benchmark, files: Sequence[Path]) -> EvaluationReport:
    """Check files for the server of a benchmark that withholds its targets."""
    if not files:
        raise UnreadableInput(
            f"--split {benchmark.split}",
            "its targets are withheld, so no figure can be computed",
            "write the scorer's lists with --submission DIR or --out FILE",
        )
    lists.check_submission(benchmark, [read_run(path) for path in files])
    result = without_figures(benchmark) | {"valid_submission": True}
    names = [str(path) for path in files]
    line = f"{', '.join(names)}: valid submission, {result['n_queries']:,} queries"
    return EvaluationReport(result | {"run": names}, [line])


def without_figures(benchmark: Benchmark) -> dict[str, Any]:
    n_queries = sum(len(part.queries) for part in benchmark.parts)
    return {"benchmark": benchmark.name, "split": benchmark.split, "n_queries": n_queries}
