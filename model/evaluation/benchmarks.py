"""Benchmarks: their queries and candidates, and reading them from a dataset's folder."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.data import distinct, mining_text
from hsfiq.readers import datasets
from hsfiq.readers.judged import LabelledQuery, read_labelled_queries
from hsfiq.records import Source, Triplet
from hsfiq.text import count_text

BenchmarkName = Literal["fashioniq", "cirr", "circo", "fisd", "drawn"]
CaptionOrder = Literal["forward", "reversed", "both"]
"""How FashionIQ's two captions are joined: in order, reversed, or one query for each order."""
CorpusRule = Literal["split", "union"]
"""FashionIQ's candidates: all images of the split file, or (VAL, CoSMo) only references and targets
of its triplets."""

TITLES: dict[BenchmarkName, str] = {
    "fashioniq": "FashionIQ",
    "cirr": "CIRR",
    "circo": "CIRCO",
    "fisd": "FISD",
    "drawn": "the drawn catalogue",
}

DEPTH = 50
"""Images of a scorer's list: the largest k of any benchmark."""

PUBLISHED: dict[tuple[str, str], tuple[int, int]] = {
    ("dress", "val"): (2017, 3817),
    ("shirt", "val"): (2038, 6346),
    ("toptee", "val"): (1961, 5373),
    ("cirr", "val"): (4181, 2297),
    ("cirr", "test1"): (4148, 2315),
}
"""Triplets and split images of the published files, by part and split."""

CAPTION = "{caption}"
"""The place of the caption in a prompt."""

PUBLISHED_CIRCO = {"val": 220, "test": 800}

COCO = "COCO 2017 unlabeled"


@dataclass(frozen=True, slots=True)
class Query:
    query_id: str  # as in runs
    reference: str
    text: str  # as in the benchmark, not yet normalised for an encoder
    target: str | None  # None if the dataset withholds it
    subset: tuple[str, ...] = ()  # CIRR: the other five images of the set, in the file's order
    truths: tuple[str, ...] = ()  # CIRCO: all ground truths, the target first
    aspects: tuple[str, ...] = ()  # CIRCO: the semantic aspects of the text
    hard_negatives: tuple[str, ...] = ()  # FISD


@dataclass(frozen=True, slots=True)
class Corpus:
    """The candidates, each once.

    Attributes:
        images: None if the folder does not hold their list.
        left_out: images of the same split that are not candidates. Without them, a list over the
            complete split is the list over this corpus.
        n_missing: further candidates that a scorer could not rank since their files are missing.
    """

    name: str
    images: tuple[str, ...] | None
    left_out: tuple[str, ...] = ()
    n_missing: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Queries with the same corpus: a category of FashionIQ, or all of CIRR or CIRCO.

    Attributes:
        outside: the ids of the part's queries that a chosen subset leaves out.
    """

    name: str
    queries: tuple[Query, ...]
    corpus: Corpus
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A split of a benchmark; a figure over several parts is their mean."""

    name: BenchmarkName
    split: str
    parts: tuple[Part, ...]
    keeps_reference: bool  # whether the reference image is a candidate (not in CIRR)
    captions: CaptionOrder | None = None  # FashionIQ
    subset: str | None = None  # the file, with its label, of the chosen queries
    prompt: str | None = None  # CIRCO: what was written around the captions, at `CAPTION`

    @property
    def withholds_targets(self) -> bool:
        """Whether only the benchmark's server can compute figures."""
        return any(query.target is None for part in self.parts for query in part.queries)


@dataclass(frozen=True, slots=True)
class SystemLists:
    """One system's ranked lists for a part, best first, by query id.

    They hold candidates only (in CIRR not the reference), each once. `subset` holds CIRR's rankings
    of the image set alone, empty if there are none. A query without a list was not answered.
    """

    lists: dict[str, tuple[str, ...]]
    subset: dict[str, tuple[str, ...]]


def fashioniq(
    folder: Path,
    categories: Sequence[str] = (),
    split: str = "val",
    corpus: CorpusRule = "split",
    captions: CaptionOrder = "forward",
) -> Benchmark:
    """Read FashionIQ, one part for each category. The reference is a candidate.

    `folder` holds `captions/` and `image_splits/`; empty `categories` are all of the split. `split`
    needs targets, which the published test files lack. `captions="both"` makes two queries of
    every triplet (VAL, CoSMo).
    """
    parts = []
    for source in datasets.read_fashioniq(folder, categories, [split]):
        for triplet in source.triplets:
            if triplet.target is None:
                raise UnreadableInput(
                    str(source.path),
                    f"triplet {triplet.external_id} has no target",
                    "use --split val, on which FashionIQ's figures are reported",
                )
        queries = tuple(
            query for triplet in source.triplets for query in queries_of(triplet, captions)
        )
        category = source.corpus.rpartition(".")[0]
        parts.append(Part(category, checked(queries, source.path), candidates(source, corpus)))
    return Benchmark("fashioniq", split, tuple(parts), keeps_reference=True, captions=captions)


def queries_of(triplet: Triplet, captions: CaptionOrder) -> list[Query]:
    orders = [("", triplet.captions), (REVERSED, triplet.captions[::-1])]
    chosen = {"forward": orders[:1], "reversed": orders[1:], "both": orders}[captions]
    return [
        Query(triplet.external_id + suffix, triplet.reference, mining_text(texts), triplet.target)
        for suffix, texts in chosen
    ]


def candidates(source: Source, rule: CorpusRule) -> Corpus:
    """A category's candidates, in the split file's order."""
    images = distinct(source.images)
    if rule == "split":
        return Corpus("split", images)
    union = {image for entry in source.triplets for image in (entry.reference, entry.target)}
    return Corpus(
        "union",
        tuple(image for image in images if image in union),
        tuple(image for image in images if image not in union),
    )


def cirr(folder: Path, split: str = "val") -> Benchmark:
    """Read CIRR rc2. The reference is not a candidate; `subset` is the image set without it.

    `folder`, or a folder `cirr` in it, holds `captions/` and `image_splits/`. `test1` has no
    targets.
    """
    (source,) = datasets.read_cirr(folder, [split])
    known = set(source.images)
    queries = tuple(with_image_set(source, triplet, known) for triplet in source.triplets)
    part = Part("cirr", checked(queries, source.path), Corpus("split", distinct(source.images)))
    return Benchmark("cirr", split, (part,), keeps_reference=False)


def with_image_set(source: Source, triplet: Triplet, known: set[str]) -> Query:
    """A triplet as a query; its image set must hold the reference and the target."""
    members = source.image_sets.get(triplet.external_id, ())
    wanted = {triplet.reference, triplet.target or triplet.reference}
    if not wanted < set(members) <= known or len(set(members)) < len(members):
        raise UnreadableInput(
            f"{source.path}: pairid {triplet.external_id}",
            "its img_set must have the reference, the target and others of the split, once each",
        )
    return Query(
        query_id=triplet.external_id,
        reference=triplet.reference,
        text=triplet.captions[0],
        target=triplet.target,
        subset=tuple(member for member in members if member != triplet.reference),
    )


def circo(folder: Path, split: str = "val", prompt: str = CAPTION) -> Benchmark:
    """Read CIRCO. The reference is a candidate.

    `folder` holds `<split>.json` or `annotations/`; COCO's list of images may be below it. `test`
    has no targets. A text is the prompt with the caption in place of `CAPTION`.
    """
    if CAPTION not in prompt:
        raise UnreadableInput(
            "--prompt", f"{prompt!r} lacks a placeholder for the caption", f"insert {CAPTION}"
        )
    source = datasets.read_circo_annotations(folder, split)
    queries = tuple(
        Query(
            query_id=entry.query_id,
            reference=entry.reference,
            text=prompt.replace(CAPTION, entry.caption),
            target=entry.target,
            truths=entry.truths,
            aspects=entry.aspects,
        )
        for entry in source.queries
    )
    require_candidates(source.images, queries)
    part = Part("circo", checked(queries, source.path), Corpus(COCO, source.images))
    written = None if prompt == CAPTION else prompt
    return Benchmark("circo", split, (part,), keeps_reference=True, prompt=written)


def fisd(folder: Path) -> Benchmark:
    """Read FISD's aspects, one part for each: its candidates are the images of its triplets.

    A query's id is `<aspect>.<id>`. The reference is a candidate; `evaluation.fisd` also gives
    the figures without it.
    """
    parts = tuple(
        Part(
            aspect,
            tuple(
                Query(
                    query_id=f"{aspect}.{triplet.triplet_id}",
                    reference=triplet.reference,
                    text=triplet.caption,
                    target=triplet.target,
                    hard_negatives=triplet.hard_negatives,
                )
                for triplet in triplets
            ),
            Corpus("aspect", tuple(image for triplet in triplets for image in triplet.images)),
        )
        for aspect, triplets in datasets.read_fisd(folder).items()
    )
    return Benchmark("fisd", "test", parts, keeps_reference=True)


def require_candidates(images: Sequence[str] | None, queries: Sequence[Query]) -> None:
    """Refuse a list of images that lacks a reference or a ground truth."""
    if images is None:
        return
    known = frozenset(images)
    for query in queries:
        absent = [image for image in (query.reference, *query.truths) if image not in known]
        if absent:
            raise UnreadableInput(
                datasets.INDEX,
                f"lacks {absent[0]} of query {query.query_id} among its {len(known):,} images",
                f"use the complete list of {COCO}",
            )


def checked(queries: tuple[Query, ...], path: Path) -> tuple[Query, ...]:
    """Refuse an empty split, and one in which only some queries have a target."""
    if not queries:
        raise UnreadableInput(str(path), "holds no query")
    without = [query.query_id for query in queries if query.target is None]
    if 0 < len(without) < len(queries):
        raise UnreadableInput(
            str(path),
            f"{len(without):,} of {len(queries):,} queries have no target, {without[0]} first",
            "give every query a target, or, on a test split, none",
        )
    return queries


def comparability_notes(benchmark: Benchmark) -> list[str]:
    """Notes on why figures on this folder differ from published ones."""
    if benchmark.name == "drawn":  # its categories have FashionIQ's names
        return []
    notes = [
        f"the files of {part.name} {benchmark.split} have {own[0]:,} triplets and {own[1]:,} "
        f"images, the published ones {published[0]:,} and {published[1]:,}: not comparable"
        for part in benchmark.parts
        if (published := PUBLISHED.get((part.name, benchmark.split))) is not None
        and (own := size(part)) != published
    ]
    n_queries, _ = size(benchmark.parts[0])
    n_published = PUBLISHED_CIRCO.get(benchmark.split, n_queries)
    if benchmark.name == "circo" and n_queries != n_published:
        notes.append(
            f"the file has {n_queries:,} queries, the published one {n_published:,}: not comparable"
        )
    if benchmark.name == "cirr":
        n_candidates = len(benchmark.parts[0].corpus.images or ()) - 1
        notes.append(
            f"the reference is not a candidate: {n_candidates:,} candidates per query, "
            f"{TITLES['cirr']}'s own protocol"
        )
    if benchmark.name == "fashioniq" and len(benchmark.parts) == 2:
        names = " and ".join(part.name for part in benchmark.parts)
        notes.append(f"the mean is over {names}; published ones are over dress, shirt and toptee")
    return notes


def size(part: Part) -> tuple[int, int]:
    """The triplets, also those outside of a subset, and the images of the split."""
    ids = (*(query.query_id for query in part.queries), *part.outside)
    triplets = {query_id.removesuffix(REVERSED) for query_id in ids}
    return len(triplets), len(part.corpus.images or ()) + len(part.corpus.left_out)


# Choosing the queries of a benchmark that a file names, such as a subset of CIRCUS.

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
    labelled = read_labelled_queries(path, label)
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
    """Split `FILE:LABEL`; the name of an existing file may contain a colon."""
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
