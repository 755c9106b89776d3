"""The benchmarks that lie in a folder: their queries, and the candidates of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED
from hsfiq.model.data.texts import mining_text
from hsfiq.model.data.triplets import distinct
from hsfiq.model.evaluation.benchmark import TITLES, Benchmark, CaptionOrder, Corpus, Part, Query
from hsfiq.readers import circo as circo_files
from hsfiq.readers import cirr as cirr_files
from hsfiq.readers import fashioniq as fashioniq_files
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet

CorpusRule = Literal["split", "union"]
"""FashionIQ's candidates: all images of the split file, or (VAL, CoSMo) only those that are the
reference or the target of a triplet."""

PUBLISHED: dict[tuple[str, str], tuple[int, int]] = {
    ("dress", "val"): (2017, 3817),
    ("shirt", "val"): (2038, 6346),
    ("toptee", "val"): (1961, 5373),
    ("cirr", "val"): (4181, 2297),
    ("cirr", "test1"): (4148, 2315),
}
"""Triplets and split images of the published files, by part and split."""

PUBLISHED_CIRCO = {"val": 220, "test": 800}

COCO = "COCO 2017 unlabeled"


def fashioniq(
    folder: Path,
    categories: Sequence[str] = (),
    split: str = "val",
    corpus: CorpusRule = "split",
    captions: CaptionOrder = "forward",
) -> Benchmark:
    """FashionIQ, a part for each category. The reference stays a candidate.

    Args:
        folder: holds `captions/` and `image_splits/`.
        categories: only these; all that the split has if none is named.
        split: one with targets: the published test files have none.
        corpus: the candidates.
        captions: `both` asks every triplet twice (VAL, CoSMo).

    Raises:
        UnreadableInput: with file and place; a triplet has no target.
    """
    parts = []
    for source in fashioniq_files.read(folder, categories, [split]):
        for triplet in source.triplets:
            if triplet.target is None:
                raise UnreadableInput(
                    str(source.path),
                    f"triplet {triplet.external_id} has no target, so there is nothing to find",
                    "FashionIQ's figures are of --split val",
                )
        queries = tuple(it for triplet in source.triplets for it in asked(triplet, captions))
        category = source.corpus.rpartition(".")[0]
        parts.append(Part(category, sound(queries, source.path), candidates(source, corpus)))
    return Benchmark("fashioniq", split, tuple(parts), keeps_reference=True, captions=captions)


def asked(triplet: Triplet, captions: CaptionOrder) -> list[Query]:
    """A triplet's query or, in both orders, queries."""
    ways = [("", triplet.captions), (REVERSED, triplet.captions[::-1])]
    chosen = {"forward": ways[:1], "reversed": ways[1:], "both": ways}[captions]
    return [
        Query(triplet.external_id + suffix, triplet.reference, mining_text(texts), triplet.target)
        for suffix, texts in chosen
    ]


def candidates(source: Source, rule: CorpusRule) -> Corpus:
    """A category's candidates, in the split file's order."""
    images = distinct(source.images)
    if rule == "split":
        return Corpus("split", images)
    named = {image for it in source.triplets for image in (it.reference, it.target)}
    return Corpus(
        "union",
        tuple(image for image in images if image in named),
        tuple(image for image in images if image not in named),
    )


def cirr(folder: Path, split: str = "val") -> Benchmark:
    """CIRR rc2. The reference is no candidate; `subset` is the image set without it.

    Args:
        folder: holds `captions/` and `image_splits/`, or a folder `cirr` that does.
        split: `val`, or `test1`, which has no targets.

    Raises:
        UnreadableInput: with file and place.
    """
    (source,) = cirr_files.read(folder, [split])
    known = set(source.images)
    queries = tuple(with_image_set(source, triplet, known) for triplet in source.triplets)
    corpus = Corpus("split", distinct(source.images))
    part = Part("cirr", sound(queries, source.path), corpus)
    return Benchmark("cirr", split, (part,), keeps_reference=False)


def with_image_set(source: Source, triplet: Triplet, known: set[str]) -> Query:
    """A triplet as a query; its image set must hold the reference and the target."""
    members = source.image_sets.get(triplet.external_id, ())
    wanted = {triplet.reference, triplet.target or triplet.reference}
    if not wanted < set(members) <= known or len(set(members)) < len(members):
        raise UnreadableInput(
            f"{source.path}: pairid {triplet.external_id}",
            "its img_set is not the reference, the target and others of the split, each once",
        )
    return Query(
        query_id=triplet.external_id,
        reference=triplet.reference,
        text=triplet.captions[0],
        target=triplet.target,
        subset=tuple(member for member in members if member != triplet.reference),
    )


def circo(folder: Path, split: str = "val") -> Benchmark:
    """CIRCO. The reference stays a candidate, and the text is the caption alone.

    Args:
        folder: holds `<split>.json` or `annotations/`; COCO's list of images may lie below it.
        split: `val`, or `test`, which has no targets.

    Raises:
        UnreadableInput: with file and place; the list of images lacks a query's.
    """
    found = circo_files.read(folder, split)
    queries = tuple(
        Query(
            query_id=it.query_id,
            reference=it.reference,
            text=it.caption,
            target=it.target,
            truths=it.truths,
            aspects=it.aspects,
        )
        for it in found.queries
    )
    part = Part("circo", sound(queries, found.path), indexed(Corpus(COCO, found.images), queries))
    return Benchmark("circo", split, (part,), keeps_reference=True)


def indexed(corpus: Corpus, queries: Sequence[Query]) -> Corpus:
    """The corpus itself, which must hold every reference and truth if it is known.

    Raises:
        UnreadableInput: it is the list of other images, or of some of them.
    """
    images = frozenset(corpus.images or ())
    for query in queries if corpus.images is not None else ():
        absent = [it for it in (query.reference, *query.truths) if it not in images]
        if absent:
            raise UnreadableInput(
                circo_files.INDEX,
                f"has {len(images):,} images, and query {query.query_id}'s {absent[0]} is not one",
                f"put {COCO}'s there, whole",
            )
    return corpus


def sound(queries: tuple[Query, ...], path: Path) -> tuple[Query, ...]:
    """The queries themselves: one or more, and either all have a target or none."""
    if not queries:
        raise UnreadableInput(str(path), "holds no query")
    without = [query.query_id for query in queries if query.target is None]
    if 0 < len(without) < len(queries):
        raise UnreadableInput(
            str(path),
            f"{len(without):,} of {len(queries):,} queries have no target, {without[0]} first",
            "either all have one, or, on a test split, none",
        )
    return queries


def about(benchmark: Benchmark) -> list[str]:
    """What a reader of the figures has to know of the benchmark as it lies in the folder."""
    if benchmark.name == "drawn":  # its categories have FashionIQ's names
        return []
    notes = [
        f"the files of {part.name} {benchmark.split} have {here[0]:,} triplets and {here[1]:,} "
        f"images, the published ones {there[0]:,} and {there[1]:,}: not comparable"
        for part in benchmark.parts
        if (there := PUBLISHED.get((part.name, benchmark.split))) is not None
        and (here := size(part)) != there
    ]
    queries = benchmark.parts[0].queries
    published = PUBLISHED_CIRCO.get(benchmark.split, len(queries))
    if benchmark.name == "circo" and len(queries) != published:
        notes.append(
            f"the file has {len(queries):,} queries, the published one {published:,}: "
            "not comparable"
        )
    if benchmark.name == "cirr":
        n_candidates = len(benchmark.parts[0].corpus.images or ()) - 1
        notes.append(
            f"the reference is no candidate: {n_candidates:,} candidates a query, "
            f"{TITLES['cirr']}'s own protocol"
        )
    if benchmark.name == "fashioniq" and len(benchmark.parts) == 2:
        names = " and ".join(part.name for part in benchmark.parts)
        notes.append(f"the mean is over {names}; published ones are over dress, shirt and toptee")
    return notes


def size(part: Part) -> tuple[int, int]:
    """Triplets and images of the split, whatever the corpus and the captions' order."""
    triplets = {query.query_id.removesuffix(REVERSED) for query in part.queries}
    return len(triplets), len(part.corpus.images or ()) + len(part.corpus.left_out)
