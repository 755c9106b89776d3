"""Ranked lists of systems: reading them, and the files that evaluation servers take."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePath

from hsfiq.atomic_files import write_folder
from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.evaluation.benchmarks import TITLES, Benchmark, Part, Query, SystemLists
from hsfiq.readers.datasets import canonical
from hsfiq.readers.runs import (
    CIRCO_LENGTH,
    LENGTHS,
    MAX_BYTES,
    METRICS,
    CirrMetric,
    PlacedList,
    Run,
    write_circo,
    write_cirr,
)
from hsfiq.records import RankedList
from hsfiq.text import first_few

# Collecting one system's ranked lists from several files.


def require_one_system(placed: Iterable[PlacedList]) -> None:
    """UnreadableInput at the first list of another system; lists may leave their system out."""
    systems: set[str] = set()
    for where, ranked in placed:
        systems.add(ranked.system)
        if len(systems - {""}) > 1:
            names = " and ".join(sorted(systems - {""}))
            raise UnreadableInput(where, f"lists of {names}", "evaluate one system at a time")


def lists_by_query(placed: Iterable[PlacedList]) -> dict[str, PlacedList]:
    """The lists by query id; UnreadableInput if a query has two."""
    lists: dict[str, PlacedList] = {}
    for each in placed:
        query_id = each.ranked.query_id
        if query_id in lists:
            first = f"first at {lists[query_id].where}"
            raise UnreadableInput(each.where, f"query {query_id} occurs twice", first)
        lists[query_id] = each
    return lists


# Checking that ranked lists hold candidates only; and notes on the lists of a part.


@dataclass(slots=True)
class ListChecks:
    """Checks the lists of a part, and counts what the notes report."""

    part: Part
    keeps_reference: bool
    candidates: frozenset[str] | None = field(init=False)
    left_out: frozenset[str] = field(init=False)
    named: set[str] = field(default_factory=set)
    n_lists: int = 0
    n_with_reference: int = 0
    n_cut: int = 0
    n_rising: int = 0

    def __post_init__(self) -> None:
        images = self.part.corpus.images
        self.candidates = None if images is None else frozenset(images)
        self.left_out = frozenset(self.part.corpus.left_out)

    def candidates_of(self, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
        """The candidates of a list, best first; refuse images that are not of the split."""
        if self.candidates is not None:
            for image in ranked.images:
                if image not in self.candidates and image not in self.left_out:
                    has_extension = PurePath(image).stem in self.candidates
                    raise UnreadableInput(
                        where,
                        f"image {image!r} is not among the {len(self.candidates):,} candidates",
                        "leave out the folder and the extension"
                        if has_extension
                        else "rank only the corpus of this split",
                    )
        self.n_lists += 1
        self.named.update(ranked.images)
        scores = ranked.scores or ()
        self.n_rising += any(score < following for score, following in pairwise(scores))
        kept = self._without_reference(query, ranked.images)
        if self.left_out:
            kept = tuple(image for image in kept if image not in self.left_out)
            self.n_cut += len(kept) < len(ranked.images)
        return kept

    def members_of(self, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
        """The members of the image set in a ranking of it, best first; refuse other images."""
        for image in ranked.images:
            if image not in query.subset and image != query.reference:
                raise UnreadableInput(where, f"image {image!r} is not in the query's image set")
        return self._without_reference(query, ranked.images)

    def _without_reference(self, query: Query, images: tuple[str, ...]) -> tuple[str, ...]:
        self.n_with_reference += query.reference in images
        if self.keeps_reference:
            return images
        return tuple(image for image in images if image != query.reference)

    def notes(self, benchmark: Benchmark) -> list[str]:
        notes = []
        if self.n_cut:
            notes.append(
                f"{self.n_cut:,} of {self.n_lists:,} lists named images outside of the union; "
                "these were removed, which gives the ranking of the union alone"
            )
        if self.n_with_reference and not self.keeps_reference:
            notes.append(
                f"lists that held their query's reference: {self.n_with_reference:,}; "
                "it was removed before counting"
            )
        if self.n_rising:
            notes.append(
                f"in {self.n_rising:,} of {self.n_lists:,} lists a score is above the one before "
                "it; the order of the list (in TREC files the rank) was used, not the scores"
            )
        if benchmark.name == "fashioniq" and self.n_lists:
            notes += self._protocol_notes()
        return notes

    def _protocol_notes(self) -> list[str]:
        """Signs that FashionIQ's lists were made under another protocol."""
        notes = []
        if not self.n_with_reference:
            notes.append(
                "no list holds its query's reference: was it removed? Most protocols keep it as "
                "a candidate (CoVR's does not), and figures without it are higher"
            )
        images = self.part.corpus.images or ()
        union = {image for query in self.part.queries for image in (query.reference, query.target)}
        if self.part.corpus.name == "split" and len(union) < len(images) and self.named <= union:
            notes.append(
                f"ALL listed images are in the union of references and targets ({len(union):,} "
                f"images), though the corpus is the split ({len(images):,}): the lists were "
                "probably made over the union, whose figures are higher; see --corpus union"
            )
        return notes


# Matching runs (files of ranked lists) to a benchmark: all of its queries and no others.
#
# Lists that would make figures wrong are refused; lists that make them incomparable are noted.

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
    """The common property of the unknown queries, with the option that includes them."""
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
        return f"they all belong to split {' and '.join(splits)}"
    if not set(categories) & {part.name for part in benchmark.parts}:
        options = " ".join(f"--category {name}" for name in categories)
        return f"they all belong to {' and '.join(categories)}: add {options}"
    return explain_caption_order(unknown, known) or example


def explain_caption_order(unknown: Collection[str], known: Collection[str]) -> str:
    """The option that includes these queries, if they are the known ones in the other order."""
    triplets = {query_id.removesuffix(REVERSED) for query_id in known}
    if not {query_id.removesuffix(REVERSED) for query_id in unknown} <= triplets:
        return ""
    if all(query_id.endswith(REVERSED) for query_id in unknown):
        return "all have captions reversed: use --captions reversed, or both"
    return "all have captions in order: use --captions forward, or both"


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


# The files that CIRR's and CIRCO's evaluation servers take: making and checking them.


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
