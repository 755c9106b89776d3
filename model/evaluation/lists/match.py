"""Matching runs (files of ranked lists) to a benchmark: all of its queries and no others.

Lists that would make figures wrong are refused; those that make them incomparable are noted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.evaluation.benchmarks import TITLES, Benchmark, SystemLists
from hsfiq.model.evaluation.lists.collect import lists_by_query, require_one_system
from hsfiq.model.evaluation.lists.list_checks import ListChecks
from hsfiq.readers.circo import canonical
from hsfiq.readers.runs import PlacedList
from hsfiq.readers.submissions import Run
from hsfiq.text import first_few

_TRIPLET = re.compile(r"(?P<category>[\w-]+)\.(?P<split>[\w-]+)\.\d+")


@dataclass(frozen=True, slots=True)
class CollectedRuns:
    """The lists of several files by query; `subset` holds CIRR's rankings of the image sets."""

    files: str
    lists: dict[str, PlacedList]
    subset: dict[str, PlacedList]


def match_runs(
    benchmark: Benchmark, runs: Sequence[Run], *, allow_missing: bool = False
) -> tuple[dict[str, SystemLists], list[str]]:
    """Match one system's runs to a benchmark; return the lists by part, and notes on them.

    For CIRR, one run may be the ranking of the image sets. With `allow_missing`, queries without a
    list count as misses. UnreadableInput, with file and place, for other or missing queries, images
    that are not candidates, an image twice in a list, and lists of several systems.
    """
    collected = collect(benchmark, runs)
    if collected.subset and not collected.lists:
        raise UnreadableInput(
            collected.files, "holds only rankings of the image sets", "give the recall run too"
        )
    notes = drop_other_categories(benchmark, collected)
    drop_outside(benchmark, collected)
    for lists in (collected.lists, collected.subset):
        refuse_unknown_queries(benchmark, lists)
    if not allow_missing:
        refuse_missing_queries(benchmark, collected, "--allow-missing counts them as misses")
    matched = {}
    for part in benchmark.parts:
        checks = ListChecks(part, keeps_reference=benchmark.keeps_reference)
        matched[part.name] = SystemLists(
            {
                query.query_id: checks.candidates_of(query, placed.where, placed.ranked)
                for query in part.queries
                if (placed := collected.lists.get(query.query_id)) is not None
            },
            {
                query.query_id: checks.members_of(query, placed.where, placed.ranked)
                for query in part.queries
                if (placed := collected.subset.get(query.query_id)) is not None
            },
        )
        prefix = f"{part.name}: " if len(benchmark.parts) > 1 else ""
        notes += [prefix + note for note in checks.notes(benchmark)]
    return matched, notes


def collect(benchmark: Benchmark, runs: Sequence[Run]) -> CollectedRuns:
    for run in runs:
        if run.metric is not None and benchmark.name != "cirr":
            raise UnreadableInput(
                str(run.path), f"is a file for CIRR's server, not for {TITLES[benchmark.name]}"
            )
    require_one_system(each for run in runs for each in run.lists)
    is_circo = benchmark.name == "circo"
    lists, subset = (
        lists_by_query(
            with_canonical_ids(each) if is_circo else each
            for run in runs
            if (run.metric == "recall_subset") is of_subset
            for each in run.lists
        )
        for of_subset in (False, True)
    )
    return CollectedRuns(", ".join(str(run.path) for run in runs), lists, subset)


def with_canonical_ids(placed: PlacedList) -> PlacedList:
    """The list with COCO's ids as CIRCO writes them."""
    where, ranked = placed
    images = tuple(canonical(image, where) for image in ranked.images)
    if len(set(images)) < len(images):
        twice = next(image for image in images if images.count(image) > 1)
        raise UnreadableInput(where, f"the list of query {ranked.query_id} holds {twice} twice")
    return PlacedList(where, replace(ranked, images=images))


def parts_by_query(benchmark: Benchmark) -> dict[str, str]:
    return {query.query_id: part.name for part in benchmark.parts for query in part.queries}


def drop_other_categories(benchmark: Benchmark, collected: CollectedRuns) -> list[str]:
    """Drop lists of FashionIQ's other categories, with a note, if some are of the chosen ones."""
    if benchmark.name != "fashioniq":
        return []
    chosen = {part.name for part in benchmark.parts}
    categories = {
        query_id: match["category"]
        for query_id in collected.lists
        if (match := _TRIPLET.fullmatch(query_id.removesuffix(REVERSED))) is not None
        and match["split"] == benchmark.split
    }
    others = [query_id for query_id, category in categories.items() if category not in chosen]
    if not others or len(others) == len(categories):
        return []
    for query_id in others:
        del collected.lists[query_id]
    names = " and ".join(sorted({categories[query_id] for query_id in others}))
    return [f"{len(others):,} lists of {names} are ignored"]


def drop_outside(benchmark: Benchmark, collected: CollectedRuns) -> None:
    """Drop lists of queries that a chosen subset leaves out."""
    outside = frozenset().union(*(part.outside for part in benchmark.parts))
    for lists in (collected.lists, collected.subset):
        for query_id in outside & lists.keys():
            del lists[query_id]


def refuse_unknown_queries(benchmark: Benchmark, lists: Mapping[str, PlacedList]) -> None:
    known = parts_by_query(benchmark)
    unknown = [query_id for query_id in lists if query_id not in known]
    if unknown:
        raise UnreadableInput(
            lists[unknown[0]].where,
            f"{len(unknown):,} of {len(lists):,} queries are not in {full_name(benchmark)} "
            f"({first_few(unknown)})",
            explain_unknown(benchmark, unknown, known),
        )


def explain_unknown(benchmark: Benchmark, unknown: Collection[str], known: Collection[str]) -> str:
    """What the unknown queries have in common, with the option that includes them."""
    example = f"its ids look like {next(iter(known))}"
    if benchmark.name != "fashioniq":
        return f"{example}; another split has others (--split)"
    matches = [_TRIPLET.fullmatch(query_id.removesuffix(REVERSED)) for query_id in unknown]
    triplets = [match for match in matches if match is not None]
    if len(triplets) < len(matches):
        return example
    splits = sorted({match["split"] for match in triplets})
    categories = sorted({match["category"] for match in triplets})
    if benchmark.split not in splits:
        return f"they are all of split {' and '.join(splits)}"
    if not set(categories) & {part.name for part in benchmark.parts}:
        options = " ".join(f"--category {name}" for name in categories)
        return f"they are all of {' and '.join(categories)}: add {options}"
    return explain_caption_order(unknown, known) or example


def explain_caption_order(unknown: Collection[str], known: Collection[str]) -> str:
    """The option that includes these queries, if they are the known ones in the other order."""
    triplets = {query_id.removesuffix(REVERSED) for query_id in known}
    if not {query_id.removesuffix(REVERSED) for query_id in unknown} <= triplets:
        return ""
    if all(query_id.endswith(REVERSED) for query_id in unknown):
        return "they all have the captions reversed: --captions reversed, or both"
    return "they all have the captions in order: --captions forward, or both"


def refuse_missing_queries(benchmark: Benchmark, collected: CollectedRuns, remedy: str) -> None:
    known = parts_by_query(benchmark)
    given = [(collected.lists, "list"), (collected.subset, "ranking of the image set")]
    for lists, kind in [pair for pair in given if pair[0]] or given[:1]:
        missing = [query_id for query_id in known if query_id not in lists]
        if missing:
            raise UnreadableInput(
                collected.files,
                f"{len(missing):,} of {len(known):,} queries of {full_name(benchmark)} have no "
                f"{kind} ({first_few(missing)})",
                explain_missing(known, missing) + remedy,
            )


def explain_missing(known: Mapping[str, str], missing: Collection[str]) -> str:
    """The option that leaves out the missing queries, if they are a part or a captions' order."""
    answered = known.keys() - set(missing)
    parts = dict.fromkeys(known.values())
    present = [name for name in parts if any(known[query_id] == name for query_id in answered)]
    if 0 < len(present) < len(parts):
        options = " ".join(f"--category {name}" for name in present)
        return f"{options} evaluates {' and '.join(present)} alone; "
    orders = [{query_id.endswith(REVERSED) for query_id in ids} for ids in (answered, missing)]
    if orders == [{False}, {True}]:
        return "--captions forward evaluates captions in order alone; "
    return ""


def full_name(benchmark: Benchmark) -> str:
    """The benchmark with its split and the options that decide its queries."""
    name = f"{TITLES[benchmark.name]} {benchmark.split}"
    if benchmark.captions is None:
        return name
    parts = ", ".join(part.name for part in benchmark.parts)
    return f"{name} ({parts}; captions {benchmark.captions})"
