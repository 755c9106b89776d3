"""What `hsfiq evaluate judged` prints of one or several systems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.judged.figures import JudgedFigures, figure_names, judged_figures
from hsfiq.model.evaluation.judged.match import match_lists
from hsfiq.model.evaluation.metrics import Figure
from hsfiq.model.evaluation.table import aligned, percent
from hsfiq.model.evaluation.uncertainty.per_query import (
    QueryRow,
    require_per_query_file,
    write_rows,
)
from hsfiq.readers.judged.judged_set import JudgedSet
from hsfiq.readers.submissions import read_run
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.analysis.resampling.interval import ConfidenceInterval

PART = "judged"
"""The name of the only part, in files of values by query."""


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """What is asked for.

    Attributes:
        runs: the files of each system.
        per_query: a new file for the values by query.
    """

    runs: tuple[tuple[Path, ...], ...]
    ks: tuple[int, ...]
    intervals: bool = False
    per_query: Path | None = None
    seed: int = 0
    allow_missing: bool = False


def evaluate_judged(judged: JudgedSet, request: JudgedRequest) -> tuple[dict[str, Any], list[str]]:
    """The result and the printed lines: a row for each system.

    Raises:
        UnreadableInput: runs that do not fit the queries, or a system that is named twice.
    """
    names = [", ".join(map(str, files)) for files in request.runs]
    if len(set(names)) < len(names):
        raise UnreadableInput("--run", "names a run twice", "name different files")
    if request.per_query is not None:
        require_per_query_file(request.per_query)
    systems = []
    for name, files in zip(names, request.runs, strict=True):
        runs = [read_run(path) for path in files]
        lists = match_lists(judged, runs, allow_missing=request.allow_missing)
        systems.append(judged_figures(judged, name, lists, request.ks))
    notes = notes_on(judged, systems[0])
    result: dict[str, Any] = about(judged) | {"notes": notes, "systems": {}}
    lines = [title(judged), *tables(judged, systems, request.ks)]
    for system in systems:
        result["systems"][system.system] = system.to_json()
        lines += reasons_of(system)
    if request.intervals:
        lines += add_intervals(result, judged, systems, request.seed)
    if request.per_query is not None:
        write_rows(request.per_query, {each.system: rows_of(judged, each) for each in systems})
        result["per_query"] = str(request.per_query)
        lines.append(f"{request.per_query}: written")
    return result, lines + [f"note: {note}" for note in notes]


def about(judged: JudgedSet) -> dict[str, Any]:
    grades = [grade for own in judged.grades.values() for grade in own.values()]
    databases = None
    if judged.databases is not None:
        used = {query.group for query in judged.queries}
        sizes = [len(judged.databases[group]) for group in used]
        databases = {"n": len(sizes), "smallest": min(sizes), "largest": max(sizes)}
    return {
        "queries": judged.name,
        "n_queries": len(judged.queries),
        "n_clusters": len({query.cluster for query in judged.queries}),
        "databases": databases,
        "judgements": {
            "relevant": sum(grade > 0 for grade in grades),
            "not_relevant": sum(grade == 0 for grade in grades),
            "wrong": sum(grade < 0 for grade in grades),
        },
    }


def title(judged: JudgedSet) -> str:
    counts = about(judged)
    queries = count_text(counts["n_queries"], "query", "queries")
    clusters = count_text(counts["n_clusters"], "cluster")
    judgements = counts["judgements"]
    if judged.protocol == "icir":
        grades = f"{judgements['relevant']:,} right answers, all other images wrong"
    else:
        texts = (f"{count:,} {name.replace('_', ' ')}" for name, count in judgements.items())
        grades = f"judgements: {', '.join(texts)}"
    return f"{judged.name}: {queries} in {clusters}; {candidates_text(counts)}; {grades}"


def candidates_text(counts: Mapping[str, Any]) -> str:
    databases = counts["databases"]
    if databases is None:
        return "candidates unknown"
    sizes = dict.fromkeys(f"{databases[end]:,}" for end in ("smallest", "largest"))
    return f"{count_text(databases['n'], 'database')} of {' to '.join(sizes)} images"


def notes_on(judged: JudgedSet, system: JudgedFigures) -> list[str]:
    n_without = len(judged.queries) - system.n_counted["ap"]
    n_unjudged = sum(not own for own in judged.grades.values())
    notes = []
    if judged.databases is None:
        notes.append("no --databases: whether listed images are candidates was not checked")
    if n_unjudged:
        notes.append(f"{count_text(n_unjudged, 'query', 'queries')} without any judgement")
    if n_without:
        notes.append(
            f"{count_text(n_without, 'query', 'queries')} without a relevant image: left out of "
            "nDCG and AP"
        )
    if judged.n_ignored:
        notes.append(f"{count_text(judged.n_ignored, 'judgement')} of other queries ignored")
    return notes


def reasons_of(system: JudgedFigures) -> list[str]:
    lines = [
        f"{system.system}: {name} is undefined: {figure.reason}"
        for name, figure in system.figures.items()
        if figure.value is None
    ]
    if system.n_missing:
        queries = count_text(system.n_missing, "query", "queries")
        lines.append(f"MISSING: {system.system}: {queries} without a list, each counted as a miss")
    return lines


def tables(judged: JudgedSet, systems: Sequence[JudgedFigures], ks: Sequence[int]) -> list[str]:
    """A row for each system; below, the means over groups."""
    names = figure_names(judged, ks)
    lines = figure_table({each.system: each.figures for each in systems}, names)
    if systems[0].group_means:
        n_groups = len({query.group for query in judged.queries})
        lines += [f"means over the means of {n_groups:,} groups:"]
        lines += figure_table({each.system: each.group_means for each in systems}, names)
    return lines


def figure_table(rows: Mapping[str, Mapping[str, Figure]], names: Sequence[str]) -> list[str]:
    cells = [[system, *(percent(own[name]) for name in names)] for system, own in rows.items()]
    return aligned([["", *names], *cells])


def rows_of(judged: JudgedSet, system: JudgedFigures) -> list[QueryRow]:
    """The values of each query, None also where the query has no such value."""
    return [
        QueryRow(
            query.query_id,
            PART,
            query.cluster,
            {name: system.values[query.query_id].get(name) for name in system.figures},
        )
        for query in judged.queries
    ]


def add_intervals(
    result: dict[str, Any], judged: JudgedSet, systems: Sequence[JudgedFigures], seed: int
) -> list[str]:
    lines = []
    for system in systems:
        intervals = judged_intervals(judged, system, seed)
        own = result["systems"][system.system]
        own["ci"] = {name: each.to_json()["ci"] for name, each in intervals.items()}
        own["ci_method"] = next(iter(intervals.values())).to_json()["ci_method"]
        lines.append(f"95% intervals over clusters of queries: {system.system}")
        width = max(map(len, intervals))
        lines += [
            f"  {name.ljust(width)}  {percent(system.figures[name])} {ends_text(each)}"
            for name, each in intervals.items()
            if system.figures[name].value is not None
        ]
    return lines


def ends_text(interval: ConfidenceInterval) -> str:
    if interval.reason is not None:
        return f"- ({interval.reason})"
    return f"[{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def judged_intervals(
    judged: JudgedSet, system: JudgedFigures, seed: int
) -> dict[str, ConfidenceInterval]:
    """Bootstrap of clusters, for each figure over the queries that have a value."""
    from hsfiq.model.evaluation.uncertainty.comparison import (  # noqa: PLC0415
        OVERALL,
        figure_intervals,
    )

    names_by_queries: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in system.figures:
        counted = tuple(query for query, own in system.values.items() if name in own)
        names_by_queries[counted].append(name)
    clusters = {query.query_id: query.cluster for query in judged.queries}
    intervals: dict[str, ConfidenceInterval] = {}
    for counted, names in names_by_queries.items():
        rows = [
            QueryRow(q, PART, clusters[q], {name: system.values[q][name] for name in names})
            for q in counted
        ]
        if rows:
            intervals |= figure_intervals(rows, seed)[OVERALL]
    return {
        name: replace(intervals[name], unit="cluster of queries")
        for name in system.figures
        if name in intervals
    }
