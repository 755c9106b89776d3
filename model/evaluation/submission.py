"""The files that CIRR's and CIRCO's evaluation servers take: making and checking them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hsfiq.atomic_files import write_folder
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import TITLES, Benchmark, Query, SystemLists
from hsfiq.model.evaluation.lists.match import (
    collect,
    refuse_missing_queries,
    refuse_unknown_queries,
)
from hsfiq.readers.runs import PlacedList
from hsfiq.readers.submissions import (
    CIRCO_LENGTH,
    LENGTHS,
    MAX_BYTES,
    METRICS,
    CirrMetric,
    Run,
    write_circo,
    write_cirr,
)


def check_submission(benchmark: Benchmark, runs: Sequence[Run]) -> None:
    """Check files for CIRR or CIRCO as the benchmark's server does; CIRR takes one or two."""
    for run in runs:
        check_file(benchmark, run)
    collected = collect(benchmark, runs)
    for lists in (collected.lists, collected.subset):
        refuse_unknown_queries(benchmark, lists)
    refuse_missing_queries(benchmark, collected, "the server requires all")
    for query in benchmark.parts[0].queries:
        if collected.lists:
            check_list(benchmark, query, collected.lists[query.query_id])
        if collected.subset:
            check_subset(query, collected.subset[query.query_id])


def check_file(benchmark: Benchmark, run: Run) -> None:
    where, title = str(run.path), TITLES[benchmark.name]
    if run.form != "object" or (benchmark.name == "cirr" and run.metric is None):
        raise UnreadableInput(
            where,
            f"is not a file for {title}'s server"
            + (", its keys 'version' and 'metric' are missing" if run.form == "object" else ""),
            "--submission DIR makes one from a run",
        )
    size = run.path.stat().st_size
    if benchmark.name == "cirr" and size > MAX_BYTES:
        raise UnreadableInput(
            where, f"has {size:,} bytes, {title}'s server takes at most {MAX_BYTES:,}"
        )


def check_list(benchmark: Benchmark, query: Query, placed: PlacedList) -> None:
    images, corpus = placed.ranked.images, benchmark.parts[0].corpus.images
    check_length(placed, CIRCO_LENGTH if benchmark.name == "circo" else LENGTHS["recall"])
    if not benchmark.keeps_reference and query.reference in images:
        raise UnreadableInput(placed.where, f"holds the reference {query.reference!r}")
    known = set(corpus or images)
    unknown = next((image for image in images if image not in known), None)
    if unknown is not None:
        raise UnreadableInput(
            placed.where, f"image {unknown!r} is not among the {len(known):,} of the split"
        )


def check_subset(query: Query, placed: PlacedList) -> None:
    check_length(placed, LENGTHS["recall_subset"])
    for image in placed.ranked.images:
        if image not in query.subset:
            problem = "is the reference" if image == query.reference else "is not in the image set"
            raise UnreadableInput(placed.where, f"image {image!r} {problem}")


def check_length(placed: PlacedList, length: int) -> None:
    if len(placed.ranked.images) != length:
        raise UnreadableInput(
            placed.where, f"{len(placed.ranked.images)} images, the server requires {length}"
        )


def make_submission(benchmark: Benchmark, answers: SystemLists) -> dict[str, bytes]:
    """The files for CIRR's or CIRCO's server by name; refuse missing lists and short ones."""
    queries = benchmark.parts[0].queries
    if benchmark.name == "circo":
        lists = cut_lists(queries, answers.lists, CIRCO_LENGTH)
        return {f"submission_{benchmark.split}.json": write_circo(lists)}
    subset = answers.subset or {
        query.query_id: tuple(
            image for image in answers.lists[query.query_id] if image in query.subset
        )
        for query in queries
        if query.query_id in answers.lists
    }
    chosen: dict[CirrMetric, Mapping[str, tuple[str, ...]]] = {
        "recall": answers.lists,
        "recall_subset": subset,
    }
    return {
        f"{benchmark.split}_pred_ranks_{metric}.json": write_cirr(
            metric, cut_lists(queries, chosen[metric], LENGTHS[metric])
        )
        for metric in METRICS
    }


def cut_lists(
    queries: Sequence[Query], lists: Mapping[str, tuple[str, ...]], length: int
) -> dict[str, tuple[str, ...]]:
    for query in queries:
        n = len(lists.get(query.query_id, ()))
        if n < length:
            is_subset = length == LENGTHS["recall_subset"]
            raise UnreadableInput(
                f"query {query.query_id}",
                f"its list holds {n} {'of the image set' if is_subset else 'candidates'}, "
                f"the server requires {length}",
                "give the recall_subset run too" if is_subset else "give longer lists",
            )
    return {query.query_id: lists[query.query_id][:length] for query in queries}


def write_submission(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files as a new folder, all or none."""
    require_free(folder)
    write_folder(folder, files)


def require_free(folder: Path) -> None:
    """Refuse a path that is not an empty or a new folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnreadableInput(str(folder), "exists and is not a folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UnreadableInput(str(folder), "is not empty", "name another folder")
