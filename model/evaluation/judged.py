"""`hsfiq evaluate judged`: graded and negative judgements, of one or several systems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ir_measures
from ir_measures import AP, Judged, Measure, P, nDCG

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.lists import lists_by_query, require_one_system
from hsfiq.model.evaluation.metrics import (
    Figure,
    QueryRow,
    aligned,
    percent,
    reasons_of,
    require_per_query_file,
    write_rows,
)
from hsfiq.readers.judged import JudgedQuery, JudgedSet
from hsfiq.readers.runs import PlacedList, Run, read_run
from hsfiq.text import count_text, first_few

if TYPE_CHECKING:
    from hsfiq.analysis.resampling.intervals import ConfidenceInterval


# Matching a system's runs to judged queries.

Lists = Mapping[str, tuple[str, ...]]
"""Ranked images, best first, by query id."""


def match_lists(judged: JudgedSet, runs: Sequence[Run], *, allow_missing: bool) -> Lists:
    """The lists of one system, whose runs may be several files.

    Raises:
        UnreadableInput: an unknown query or one without a list, an image outside of the query's
            database, or lists of several systems.
    """
    placed = collect(runs)
    files = ", ".join(str(run.path) for run in runs)
    known = {query.query_id: query for query in judged.queries}
    unknown = [query_id for query_id in placed if query_id not in known]
    if unknown:
        raise UnreadableInput(
            placed[unknown[0]].where,
            f"{len(unknown):,} of {len(placed):,} queries are not in {judged.name} "
            f"({first_few(unknown)})",
            f"its ids look like {judged.queries[0].query_id}",
        )
    missing = [query_id for query_id in known if query_id not in placed]
    if missing and not allow_missing:
        raise UnreadableInput(
            files,
            f"{len(missing):,} of {len(known):,} queries have no list ({first_few(missing)})",
            "--allow-missing counts them as misses",
        )
    for query_id, each in placed.items():
        require_candidates(judged, known[query_id], each)
    return {query_id: each.ranked.images for query_id, each in placed.items()}


def collect(runs: Sequence[Run]) -> dict[str, PlacedList]:
    """The lists by query id; raises as `match_lists`."""
    for run in runs:
        if run.metric is not None:
            raise UnreadableInput(str(run.path), "is a file for CIRR's server")
    placed = [each for run in runs for each in run.lists]
    require_one_system(placed)
    return lists_by_query(placed)


def require_candidates(judged: JudgedSet, query: JudgedQuery, each: PlacedList) -> None:
    database = judged.database_of(query)
    if database is None:
        return
    outside = [image for image in each.ranked.images if image not in database]
    if outside:
        whose = f" of group {query.group}" if query.group else ""
        raise UnreadableInput(
            each.where,
            f"image {outside[0]!r} of query {query.query_id} is not among the "
            f"{len(database):,} images of its database{whose}",
            "rank only the images of that database",
        )


# The value of each measure for each query's list, by `ir_measures`.
#
# Grades below 0 give no gain and are not relevant; only `wrong@k` tells them from 0. Lists keep
# their order: it decides, not the scores.

BATCH: Final = 100
"""Queries whose complete lists are passed to `ir_measures` at once."""

AP_ICIR = "ap_icir"
"""i-CIR's average precision, by the trapezoidal rule."""

Values = dict[str, float | None]
"""By figure: None if the list does not determine it; absent if the query has no such value."""


def values_by_query(judged: JudgedSet, lists: Lists, ks: Sequence[int]) -> dict[str, Values]:
    """The values of a system's lists by query; a query without a list is a miss.

    nDCG and AP are absent for queries without a relevant image. `wrong@k` and `judged@k` are absent
    for queries without a list, and in i-CIR's protocol, in which every image is judged.
    """
    values: dict[str, Values] = {}
    for start in range(0, len(judged.queries), BATCH):
        queries = judged.queries[start : start + BATCH]
        computed = computed_values(judged, queries, lists, ks)
        for query in queries:
            own = computed[query.query_id]
            values[query.query_id] = settled_values(judged, query, lists, own)
    return values


def computed_values(
    judged: JudgedSet, queries: Sequence[JudgedQuery], lists: Lists, ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    """All measures by query as if no other images were ranked; 0 without a list."""
    ids = [query.query_id for query in queries]
    run = {
        query_id: {image: -float(place) for place, image in enumerate(lists[query_id])}
        for query_id in ids
        if lists.get(query_id)
    }
    named: dict[Measure, str] = {AP: "ap"}
    for k in ks:
        named |= {nDCG @ k: f"ndcg@{k}", AP @ k: f"ap@{k}", P @ k: f"p@{k}"}
        named |= {Judged @ k: f"judged@{k}"}
    named_wrong: dict[Measure, str] = {P @ k: f"wrong@{k}" for k in ks}
    values = {
        query_id: dict.fromkeys([*named.values(), *named_wrong.values()], 0.0) for query_id in ids
    }
    relevant = changed_grades(judged, ids, lambda grade: max(grade, 0))
    wrong = changed_grades(judged, ids, lambda grade: int(grade < 0))
    for grades, names in ((relevant, named), (wrong, named_wrong)):
        for each in ir_measures.iter_calc(list(names), grades, run):
            values[each.query_id][names[each.measure]] = float(each.value)
    if judged.protocol == "icir":
        for query_id in ids:
            values[query_id][AP_ICIR] = trapezoidal_precision(
                lists.get(query_id, ()), relevant[query_id]
            )
    return values


def changed_grades(
    judged: JudgedSet, ids: Sequence[str], change: Callable[[int], int]
) -> dict[str, dict[str, int]]:
    return {
        query_id: {image: change(grade) for image, grade in judged.grades[query_id].items()}
        for query_id in ids
    }


def trapezoidal_precision(images: Sequence[str], grades: Mapping[str, int]) -> float:
    """i-CIR's average precision: between two right answers precision is taken as linear.

    Its code divides by the number of right answers plus 1e-5, here by that number; 0 without any.
    """
    n_relevant = sum(grade > 0 for grade in grades.values())
    area, n_found = 0.0, 0
    for place, image in enumerate(images):
        if grades.get(image, 0) > 0:
            before = n_found / place if place else 1.0
            n_found += 1
            area += (before + n_found / (place + 1)) / 2
    return area / n_relevant if n_relevant else 0.0


def settled_values(
    judged: JudgedSet, query: JudgedQuery, lists: Lists, computed: Mapping[str, float]
) -> Values:
    """The values that the query has; None where images after the list's end could change one."""
    grades = judged.grades[query.query_id]
    relevant = {image for image, grade in grades.items() if grade > 0}
    wrong = {image for image, grade in grades.items() if grade < 0}
    images = lists.get(query.query_id)
    settled: Values = {}
    for name, value in computed.items():
        kind, _, k = name.partition("@")
        if kind in ("wrong", "judged"):
            has_value = images is not None and judged.protocol == "trec"
        else:
            has_value = kind == "p" or bool(relevant)
        if not has_value:
            continue
        decisive = {"wrong": wrong, "judged": None}.get(kind, relevant)
        database = judged.database_of(query)
        is_settled = (
            images is None
            or (k != "" and len(images) >= int(k))
            or (database is not None and len(images) == len(database))
            or (decisive is not None and decisive <= set(images))
        )
        settled[name] = value if is_settled else None
    return settled


# The figures of one system on judged queries: means over queries, with their reasons.


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """The figures of one system.

    Attributes:
        figures: means over the queries that have a value.
        group_means: means over the groups' means; empty if there is one group.
        n_counted: the queries in each figure, by figure.
    """

    system: str
    figures: dict[str, Figure]
    group_means: dict[str, Figure]
    n_counted: dict[str, int]
    n_missing: int
    values: Mapping[str, Values]

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {name: each.value for name, each in self.figures.items()}
        if reasons := reasons_of(self.figures):
            result["reason"] = reasons
        result["n_counted"] = self.n_counted
        if self.group_means:
            result["group_means"] = {name: each.value for name, each in self.group_means.items()}
        if self.n_missing:
            result["missing"] = {"queries": self.n_missing}
        return result


def figure_names(judged: JudgedSet, ks: Sequence[int]) -> list[str]:
    """The figures in the order of the table."""
    is_icir = judged.protocol == "icir"
    kinds = ["ndcg", "ap", "p"] + ([] if is_icir else ["wrong", "judged"])
    return ["ap", *([AP_ICIR] if is_icir else []), *(f"{kind}@{k}" for kind in kinds for k in ks)]


def judged_figures(
    judged: JudgedSet, system: str, lists: Lists, ks: Sequence[int]
) -> JudgedFigures:
    values = values_by_query(judged, lists, ks)
    groups = {query.query_id: query.group for query in judged.queries}
    names = figure_names(judged, ks)
    of_figure = {
        name: {query_id: own[name] for query_id, own in values.items() if name in own}
        for name in names
    }
    has_groups = len(set(groups.values())) > 1
    return JudgedFigures(
        system,
        {name: mean_over_queries(own) for name, own in of_figure.items()},
        {name: mean_over_groups(own, groups) for name, own in of_figure.items()}
        if has_groups
        else {},
        {name: len(own) for name, own in of_figure.items()},
        len(judged.queries) - len(lists),
        values,
    )


def mean_over_queries(values: Mapping[str, float | None]) -> Figure:
    """The mean; undefined without a value, or if a list does not determine its value."""
    known = [value for value in values.values() if value is not None]
    if not values:
        return Figure(None, "no query has an image for this figure")
    if short := len(values) - len(known):
        lists = count_text(len(values), "list")
        return Figure(None, f"{short:,} of {lists} are too short; give longer ones")
    return Figure(fsum(known) / len(known))


def mean_over_groups(values: Mapping[str, float | None], groups: Mapping[str, str]) -> Figure:
    by_group: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for query_id, value in values.items():
        by_group[groups[query_id]][query_id] = value
    means = [mean_over_queries(own) for own in by_group.values()]
    known = [mean.value for mean in means if mean.value is not None]
    if not known or len(known) < len(means):
        return Figure(None, "the figure is undefined in a group")
    return Figure(fsum(known) / len(known))


# What `hsfiq evaluate judged` prints of one or several systems.

PART = "judged"
"""The name of the only part, in files of values by query."""


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """The requested outputs.

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
        lines += remarks_on(system)
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
        notes.append("without --databases, images were not compared with the candidates")
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


def remarks_on(system: JudgedFigures) -> list[str]:
    lines = [
        f"{system.system}: {name} is undefined: {reason}"
        for name, reason in reasons_of(system.figures).items()
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
    from hsfiq.model.evaluation.comparison import OVERALL, figure_intervals  # noqa: PLC0415

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
