"""Choosing the queries of a benchmark that a file names, such as a subset of CIRCUS."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.evaluation.benchmarks import TITLES, Benchmark, Part
from hsfiq.readers.labels.labelled_queries import LabelledQuery, read
from hsfiq.text import count_text

CIRCUS_OF_CIRCO = "circo_q_test_"
"""What CIRCUS puts before the id of a query of CIRCO's val."""

_WORD = re.compile(r"\w+")

Key = tuple[str, tuple[str, ...]]
"""A reference image and the words of a text in alphabetical order."""


def subset_of(benchmark: Benchmark, chosen: str) -> tuple[Benchmark, list[str]]:
    """The benchmark with the queries that `FILE` or `FILE:LABEL` names, and notes.

    Both caption orders of a triplet are in a subset or neither. The candidates stay the same.

    Raises:
        UnreadableInput: an unreadable file, an unknown label, or no query of the benchmark.
    """
    if benchmark.withholds_targets:
        raise UnreadableInput("--subset", f"the targets of {benchmark.split} are withheld")
    path, label = path_and_label(chosen)
    labelled = read(path, label)
    triplets, n_unknown = triplets_of(benchmark, labelled)
    in_file = count_text(len(labelled), "query", "queries")
    if not triplets:
        raise UnreadableInput(
            labelled[0].where,
            f"none of {in_file} is of {TITLES[benchmark.name]} {benchmark.split}",
            f"ids look like {benchmark.parts[0].queries[0].query_id}",
        )
    parts = [with_queries(part, triplets) for part in benchmark.parts]
    notes = [f"no query of {part.name} is in the subset" for part in parts if not part.queries]
    if n_unknown:
        notes.append(f"{n_unknown:,} of {in_file} in the subset's file are not in this benchmark")
    kept = tuple(part for part in parts if part.queries)
    return replace(benchmark, parts=kept, subset=chosen), notes


def path_and_label(chosen: str) -> tuple[Path, str | None]:
    """`FILE:LABEL` in two; a file whose own name has a colon is that file."""
    name, colon, label = chosen.rpartition(":")
    if not colon or Path(chosen).exists():
        return Path(chosen), None
    return Path(name), label


def triplets_of(
    benchmark: Benchmark, labelled: Sequence[LabelledQuery]
) -> tuple[frozenset[str], int]:
    """The triplets that the file names, and the number of its queries that are none of them.

    A reference and a text name all triplets that have both, as in M-BEIR, which makes one query of
    such triplets.
    """
    known: set[str] = set()
    by_content: defaultdict[Key, set[str]] = defaultdict(set)
    for part in benchmark.parts:
        for query in part.queries:
            triplet = query.query_id.removesuffix(REVERSED)
            known.add(triplet)
            by_content[key_of(query.reference, query.text)].add(triplet)
    chosen: set[str] = set()
    n_unknown = 0
    for each in labelled:
        own = named_by_id(benchmark, each, known) or named_by_content(each, by_content)
        chosen |= own
        n_unknown += not own
    return frozenset(chosen), n_unknown


def named_by_id(
    benchmark: Benchmark, each: LabelledQuery, known: Collection[str]
) -> frozenset[str]:
    if each.query_id is None:
        return frozenset()
    query_id = each.query_id.removesuffix(REVERSED)
    if benchmark.name == "circo":
        query_id = query_id.removeprefix(CIRCUS_OF_CIRCO)
    return frozenset({query_id}) if query_id in known else frozenset()


def named_by_content(each: LabelledQuery, by_content: dict[Key, set[str]]) -> frozenset[str]:
    if each.reference is None or each.text is None:
        return frozenset()
    return frozenset(by_content.get(key_of(each.reference, each.text), ()))


def key_of(reference: str, text: str) -> Key:
    """What M-BEIR leaves of a query: it changes capitals and punctuation.

    COCO's ids lose their leading zeros.
    """
    return reference.lstrip("0") or reference, tuple(sorted(_WORD.findall(text.lower())))


def with_queries(part: Part, triplets: Collection[str]) -> Part:
    """The part with the queries of these triplets; it remembers the others."""
    inside = [query.query_id.removesuffix(REVERSED) in triplets for query in part.queries]
    pairs = list(zip(part.queries, inside, strict=True))
    return replace(
        part,
        queries=tuple(query for query, is_inside in pairs if is_inside),
        outside=frozenset(query.query_id for query, is_inside in pairs if not is_inside),
    )
