"""The files that CIRR's and CIRCO's servers take: made from answers, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hsfiq.atomic_files import write_folder
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.answers import Listed, gather, refuse_gaps, refuse_strangers
from hsfiq.model.evaluation.benchmark import TITLES, Answers, Benchmark, Query
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


def check(benchmark: Benchmark, runs: Sequence[Run]) -> None:
    """Check files as the benchmark's server does.

    Args:
        benchmark: CIRR's or CIRCO's; it needs no targets.
        runs: the files; CIRR's two, or one of them.

    Raises:
        UnreadableInput: the first thing that the server would refuse.
    """
    for run in runs:
        check_file(benchmark, run)
    gathered = gather(benchmark, runs)
    lists, subset = gathered.lists, gathered.subset
    for found in (lists, subset):
        refuse_strangers(benchmark, found)
    refuse_gaps(benchmark, gathered, "the server wants all")
    for query in benchmark.parts[0].queries:
        if lists:
            check_list(benchmark, query, lists[query.query_id])
        if subset:
            check_subset(query, subset[query.query_id])


def check_file(benchmark: Benchmark, run: Run) -> None:
    """What a server asks of the file itself."""
    where, title = str(run.path), TITLES[benchmark.name]
    if run.form != "object" or (benchmark.name == "cirr" and run.metric is None):
        raise UnreadableInput(
            where,
            f"is no file for {title}'s server"
            + (", its keys 'version' and 'metric' are missing" if run.form == "object" else ""),
            "--submission DIR makes one of a run",
        )
    size = run.path.stat().st_size
    if benchmark.name == "cirr" and size > MAX_BYTES:
        raise UnreadableInput(where, f"has {size:,} bytes, {title}'s server takes {MAX_BYTES:,}")


def check_list(benchmark: Benchmark, query: Query, listed: Listed) -> None:
    """What a server asks of a list over the whole corpus."""
    images, corpus = listed.ranked.images, benchmark.parts[0].corpus.images
    length = CIRCO_LENGTH if benchmark.name == "circo" else LENGTHS["recall"]
    check_length(listed, length)
    if not benchmark.keeps_reference and query.reference in images:
        raise UnreadableInput(listed.where, f"holds the reference {query.reference!r}")
    known = set(corpus or images)
    unknown = next((image for image in images if image not in known), None)
    if unknown is not None:
        raise UnreadableInput(
            listed.where, f"image {unknown!r} is not among the {len(known):,} of the split"
        )


def check_subset(query: Query, listed: Listed) -> None:
    """What CIRR's server asks of a ranking of the image set."""
    check_length(listed, LENGTHS["recall_subset"])
    for image in listed.ranked.images:
        if image not in query.subset:
            what = "is the reference" if image == query.reference else "is not of the image set"
            raise UnreadableInput(listed.where, f"image {image!r} {what}")


def check_length(listed: Listed, length: int) -> None:
    """The server wants neither more nor less."""
    if len(listed.ranked.images) != length:
        raise UnreadableInput(
            listed.where, f"{len(listed.ranked.images)} images, the server wants {length}"
        )


def make(benchmark: Benchmark, answers: Answers) -> dict[str, bytes]:
    """The server's files by name, from answers to CIRR or CIRCO.

    Raises:
        UnreadableInput: a query has no list, or too short a one.
    """
    queries = benchmark.parts[0].queries
    if benchmark.name == "circo":
        lists = first_of(queries, answers.lists, CIRCO_LENGTH)
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
            metric, first_of(queries, chosen[metric], LENGTHS[metric])
        )
        for metric in METRICS
    }


def first_of(
    queries: Sequence[Query], lists: Mapping[str, tuple[str, ...]], length: int
) -> dict[str, tuple[str, ...]]:
    """The first images of every query's list, as many as the server wants."""
    for query in queries:
        found = len(lists.get(query.query_id, ()))
        if found < length:
            what = "candidates" if length > LENGTHS["recall_subset"] else "of the image set"
            raise UnreadableInput(
                f"query {query.query_id}",
                f"its list holds {found} {what}, the server wants {length}",
                "give longer lists" if what == "candidates" else "give the recall_subset run too",
            )
    return {query.query_id: lists[query.query_id][:length] for query in queries}


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files as a new folder, all or none.

    Raises:
        UnreadableInput: the folder is there and not empty, or the place cannot be written to.
    """
    refuse_taken(folder)
    try:
        write_folder(folder, files)
    except OSError as error:
        raise UnreadableInput(str(folder), f"cannot be written ({error.strerror})") from error


def refuse_taken(folder: Path) -> None:
    """Refuse a place where something is.

    Raises:
        UnreadableInput: it is no folder, or not empty.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnreadableInput(str(folder), "is there and is no folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UnreadableInput(str(folder), "is not empty", "name another folder")
