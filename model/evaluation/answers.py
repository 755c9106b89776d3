"""From runs to a benchmark's answers: every query asked is answered, and no other.

What would make figures wrong without anybody noticing is refused, or said in a note.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.evaluation.benchmark import TITLES, Answers, Benchmark
from hsfiq.model.evaluation.lists import Cleaned, clean, clean_subset
from hsfiq.readers.circo import canonical
from hsfiq.readers.submissions import Run
from hsfiq.records import RankedList
from hsfiq.text import first_few

"""Ids that a message names of many."""

_TRIPLET = re.compile(r"(?P<category>[\w-]+)\.(?P<split>[\w-]+)\.\d+")


@dataclass(frozen=True, slots=True)
class Listed:
    """A query's list, and its place in its file."""

    where: str
    ranked: RankedList


@dataclass(frozen=True, slots=True)
class Gathered:
    """The lists of several files by query; `subset` are CIRR's of the image sets."""

    files: str
    lists: dict[str, Listed]
    subset: dict[str, Listed]


def match(
    benchmark: Benchmark, runs: Sequence[Run], *, allow_missing: bool = False
) -> tuple[dict[str, Answers], list[str]]:
    """Take runs as the answers to a benchmark.

    Args:
        benchmark: what was asked.
        runs: one system's; for CIRR the ranking of the image sets may be one of them.
        allow_missing: whether a query may go without a list, which is a miss then.

    Returns:
        The answers by part, and what has to be said of them.

    Raises:
        UnreadableInput: with file and place; queries of something else, missing queries, images
            that are no candidates, an image twice in a list, lists of several systems.
    """
    gathered = gather(benchmark, runs)
    if gathered.subset and not gathered.lists:
        raise UnreadableInput(
            gathered.files, "holds rankings of the image sets alone", "give the recall run too"
        )
    notes = leave_other_categories(benchmark, gathered)
    for lists in (gathered.lists, gathered.subset):
        refuse_strangers(benchmark, lists)
    if not allow_missing:
        refuse_gaps(benchmark, gathered, "--allow-missing counts them as misses")
    answers = {}
    for part in benchmark.parts:
        cleaned = Cleaned(part, keeps_reference=benchmark.keeps_reference)
        asked = {query.query_id: query for query in part.queries}
        lists, subset = (
            {query_id: found[query_id] for query_id in asked if query_id in found}
            for found in (gathered.lists, gathered.subset)
        )
        answers[part.name] = Answers(
            {key: clean(cleaned, asked[key], it.where, it.ranked) for key, it in lists.items()},
            {key: clean_subset(cleaned, asked[key], it.where, it.ranked)
             for key, it in subset.items()},
        )  # fmt: skip
        prefix = f"{part.name}: " if len(benchmark.parts) > 1 else ""
        notes += [prefix + note for note in cleaned.notes(benchmark)]
    return answers, notes


def gather(benchmark: Benchmark, runs: Sequence[Run]) -> Gathered:
    """The runs' lists by query, of one system.

    Raises:
        UnreadableInput: with file and place.
    """
    gathered = Gathered(", ".join(str(run.path) for run in runs), {}, {})
    systems: set[str] = set()
    for run in runs:
        if run.metric is not None and benchmark.name != "cirr":
            raise UnreadableInput(
                str(run.path), f"is for CIRR's server, not of {TITLES[benchmark.name]}"
            )
        into = gathered.subset if run.metric == "recall_subset" else gathered.lists
        for where, ranked in run.lists:
            systems.add(ranked.system)
            if len(systems - {""}) > 1:
                names = " and ".join(sorted(systems - {""}))
                raise UnreadableInput(where, f"lists of {names}", "evaluate one system at a time")
            if ranked.query_id in into:
                raise UnreadableInput(
                    where,
                    f"query {ranked.query_id} comes twice",
                    f"{into[ranked.query_id].where} is the other",
                )
            if benchmark.name == "circo":
                ranked = with_canonical_ids(where, ranked)  # noqa: PLW2901
            into[ranked.query_id] = Listed(where, ranked)
    return gathered


def with_canonical_ids(where: str, ranked: RankedList) -> RankedList:
    """The list with COCO's ids as CIRCO writes them."""
    images = tuple(canonical(image, where) for image in ranked.images)
    if len(set(images)) < len(images):
        twice = next(image for image in images if images.count(image) > 1)
        raise UnreadableInput(where, f"the list of query {ranked.query_id} holds {twice} twice")
    return RankedList(ranked.query_id, ranked.system, images, ranked.scores)


def query_ids(benchmark: Benchmark) -> dict[str, str]:
    """The part that each query is of."""
    return {query.query_id: part.name for part in benchmark.parts for query in part.queries}


def leave_other_categories(benchmark: Benchmark, gathered: Gathered) -> list[str]:
    """Take FashionIQ's other categories out of a run that answers those asked for too.

    Returns:
        A note where there were any.
    """
    if benchmark.name != "fashioniq":
        return []
    asked = {part.name for part in benchmark.parts}
    categories = {
        query_id: match["category"]
        for query_id in gathered.lists
        if (match := _TRIPLET.fullmatch(query_id.removesuffix(REVERSED))) is not None
        and match["split"] == benchmark.split
    }
    others = [query_id for query_id, category in categories.items() if category not in asked]
    if len(others) == len(categories):
        return []
    for query_id in others:
        del gathered.lists[query_id]
    names = " and ".join(sorted({categories[query_id] for query_id in others}))
    return [f"{len(others):,} lists of {names} are left aside"] if others else []


def refuse_strangers(benchmark: Benchmark, lists: Mapping[str, Listed]) -> None:
    """Refuse queries that the benchmark does not ask, and say what they are.

    Raises:
        UnreadableInput: naming the first few.
    """
    known = query_ids(benchmark)
    strangers = [query_id for query_id in lists if query_id not in known]
    if not strangers:
        return
    raise UnreadableInput(
        lists[strangers[0]].where,
        f"{len(strangers):,} of {len(lists):,} queries are not of {name_of(benchmark)} "
        f"({first_few(strangers)})",
        what_they_are(benchmark, strangers, known),
    )


def what_they_are(benchmark: Benchmark, strangers: Collection[str], known: Collection[str]) -> str:
    """What queries of something else have in common, with the option that asks them."""
    seen = f"its ids are like {next(iter(known))}"
    if benchmark.name != "fashioniq":
        return f"{seen}; another split has others (--split)"
    found = [_TRIPLET.fullmatch(query_id.removesuffix(REVERSED)) for query_id in strangers]
    named = [match for match in found if match is not None]
    if len(named) < len(found):
        return seen
    splits = sorted({match["split"] for match in named})
    categories = sorted({match["category"] for match in named})
    if benchmark.split not in splits:
        return f"they are all of split {' and '.join(splits)}"
    if not set(categories) & {part.name for part in benchmark.parts}:
        options = " ".join(f"--category {name}" for name in categories)
        return f"they are all of {' and '.join(categories)}: {options} asks them too"
    return other_order(strangers, known) or seen


def other_order(strangers: Collection[str], known: Collection[str]) -> str:
    """The option that asks these queries, where they are the known ones in the other order."""
    triplets = {query_id.removesuffix(REVERSED) for query_id in known}
    if not {query_id.removesuffix(REVERSED) for query_id in strangers} <= triplets:
        return ""
    if all(query_id.endswith(REVERSED) for query_id in strangers):
        return "they all have the captions reversed: --captions reversed, or both"
    return "they all have the captions in order: --captions forward, or both"


def refuse_gaps(benchmark: Benchmark, gathered: Gathered, mend: str) -> None:
    """Refuse runs that leave queries out; `mend` says what else can be done.

    Raises:
        UnreadableInput: naming the first few.
    """
    asked = query_ids(benchmark)
    given = [(gathered.lists, "list"), (gathered.subset, "ranking of the image set")]
    for found, what in [it for it in given if it[0]] or given[:1]:
        missing = [query_id for query_id in asked if query_id not in found]
        if missing:
            raise UnreadableInput(
                gathered.files,
                f"{len(missing):,} of {len(asked):,} queries of {name_of(benchmark)} have no "
                f"{what} ({first_few(missing)})",
                what_is_missing(asked, missing) + mend,
            )


def what_is_missing(asked: Mapping[str, str], missing: Collection[str]) -> str:
    """The parts, or the captions' order, that are missing altogether, with what leaves them out."""
    answered = asked.keys() - set(missing)
    parts = dict.fromkeys(asked.values())
    there = [name for name in parts if any(asked[query_id] == name for query_id in answered)]
    if 0 < len(there) < len(parts):
        options = " ".join(f"--category {name}" for name in there)
        return f"{' and '.join(there)} alone can be asked with {options}; "
    orders = [{query_id.endswith(REVERSED) for query_id in ids} for ids in (answered, missing)]
    if orders == [{False}, {True}]:
        return "captions in order alone can be asked with --captions forward; "
    return ""


def name_of(benchmark: Benchmark) -> str:
    """The benchmark with its split and what else decides its queries."""
    name = f"{TITLES[benchmark.name]} {benchmark.split}"
    if benchmark.captions is None:
        return name
    parts = ", ".join(part.name for part in benchmark.parts)
    return f"{name} ({parts}; captions {benchmark.captions})"
