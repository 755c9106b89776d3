"""The numbers that the field reports of a benchmark, from one system's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import fsum

from hsfiq.model.evaluation.benchmark import Answers, Benchmark, Part, Query
from hsfiq.model.evaluation.metrics import average_precision, recall
from hsfiq.model.evaluation.results import Evaluation, Figure, PartFigures

RECALL_KS = (1, 5, 10, 50)
CIRCO_KS = (5, 10, 25, 50)
SUBSET_KS = (1, 2, 3)
SEMANTIC_K = 10

SUMMARY = {"fashioniq": ("recall@10", "recall@50"), "cirr": ("recall@5", "recall_subset@1")}
"""The figures of which `mean` is the mean, as papers on either benchmark report it."""

Value = Callable[[Query, Sequence[str]], float | None]
"""What a query's list is worth; None where the list leaves it open."""


def evaluate(
    benchmark: Benchmark, answers: Mapping[str, Answers], notes: Sequence[str] = ()
) -> Evaluation:
    """Take the benchmark's figures of one system.

    Args:
        benchmark: one that tells its targets.
        answers: by part.
        notes: go into the result.

    Raises:
        ValueError: the benchmark withholds its targets.
    """
    parts = tuple(figures_of(benchmark, part, answers[part.name]) for part in benchmark.parts)
    whole = parts[0] if len(parts) == 1 else over_parts(parts)
    if benchmark.name in SUMMARY:
        named = {name: whole.figures[name] for name in SUMMARY[benchmark.name]}
        whole = replace(whole, figures=whole.figures | {"mean": mean_of(named)})
    asked = [(answers[part.name], query) for part in benchmark.parts for query in part.queries]
    return Evaluation(
        benchmark=benchmark,
        whole=whole,
        parts=parts,
        n_missing=sum(query.query_id not in given.lists for given, query in asked),
        n_missing_subset=sum(
            bool(given.subset) and query.query_id not in given.subset for given, query in asked
        ),
        notes=tuple(notes),
    )


def figures_of(benchmark: Benchmark, part: Part, answers: Answers) -> PartFigures:
    """The figures of one part."""
    size = None if part.corpus.images is None else len(part.corpus.images)
    n_candidates = size if size is None or benchmark.keeps_reference else size - 1
    mean = partial(mean_over, lists=answers.lists, why=mend_short(benchmark, part))
    figures: dict[str, Figure] = {}
    aspects: dict[str, Figure] = {}
    is_circo = benchmark.name == "circo"
    if is_circo:
        figures = {f"map@{k}": mean(part.queries, precision_at(k, n_candidates)) for k in CIRCO_KS}
        aspects = {
            aspect: mean(queries, precision_at(SEMANTIC_K, n_candidates))
            for aspect, queries in by_aspect(part.queries).items()
        }
    for k in CIRCO_KS if is_circo else RECALL_KS:
        figures[f"recall@{k}"] = mean(part.queries, recall_at(k, n_candidates))
    if benchmark.name == "cirr":
        figures |= subset_figures(part, answers)
    return PartFigures(
        name=part.name,
        n_queries=len(part.queries),
        corpus=part.corpus.name,
        corpus_size=size,
        figures=figures,
        aspects=aspects,
        n_missing=part.corpus.n_missing,
    )


def subset_figures(part: Part, answers: Answers) -> dict[str, Figure]:
    """Recall_subset@k: the ranking of the image set, apart or as the whole list holds it."""
    mend = (
        "give 3 for each, not counting the reference"
        if answers.subset
        else "give the recall_subset run too"
    )
    return {
        f"recall_subset@{k}": mean_over(
            part.queries,
            recall_within_set(k),
            lists=answers.subset or answers.lists,
            why=f"leave open which {k} of the image set come first; {mend}",
        )
        for k in SUBSET_KS
    }


def recall_at(k: int, n_candidates: int | None) -> Value:
    """Recall@k of the target."""
    return lambda query, ranked: recall(ranked, target_of(query), k, n_candidates)


def precision_at(k: int, n_candidates: int | None) -> Value:
    """AP@k over the truths."""
    return lambda query, ranked: average_precision(ranked, query.truths, k, n_candidates)


def recall_within_set(k: int) -> Value:
    """Recall@k of the target in what the list holds of the image set."""

    def value(query: Query, ranked: Sequence[str]) -> float | None:
        members = [image for image in ranked if image in query.subset]
        return recall(members, target_of(query), k, len(query.subset))

    return value


def target_of(query: Query) -> str:
    """The target, which the benchmark must tell."""
    if query.target is None:
        raise ValueError(f"query {query.query_id} has no target")
    return query.target


def mean_over(
    queries: Sequence[Query], value: Value, *, lists: Mapping[str, tuple[str, ...]], why: str
) -> Figure:
    """The mean over queries, undefined if any value is; a query without a list is worth 0.

    `why` says what is wrong with lists that leave the value open.
    """
    values = [
        value(query, lists[query.query_id]) if query.query_id in lists else 0.0 for query in queries
    ]
    known = [it for it in values if it is not None]
    if len(known) < len(values):
        return Figure(None, f"{len(values) - len(known):,} of {len(values):,} lists {why}")
    return Figure(fsum(known) / len(known))


def mend_short(benchmark: Benchmark, part: Part) -> str:
    """What is wrong with a list that leaves a figure open, and what helps."""
    end = "end too early to tell"
    if part.corpus.left_out:
        return f"{end}, after the cut to the union; give longer ones, or rank the union alone"
    if not benchmark.keeps_reference:
        return f"{end}; give 50 images for each, not counting the reference"
    return f"{end}; give 50 images for each"


def by_aspect(queries: Sequence[Query]) -> dict[str, list[Query]]:
    """The queries that have each semantic aspect, the aspects in alphabetical order."""
    names = sorted({aspect for query in queries for aspect in query.aspects})
    return {name: [query for query in queries if name in query.aspects] for name in names}


def over_parts(parts: Sequence[PartFigures]) -> PartFigures:
    """The mean of each figure over the parts, each part counting the same."""
    sizes = [part.corpus_size for part in parts if part.corpus_size is not None]
    return PartFigures(
        name="mean",
        n_queries=sum(part.n_queries for part in parts),
        corpus=parts[0].corpus,
        corpus_size=sum(sizes) if len(sizes) == len(parts) else None,
        figures={
            name: mean_of({part.name: part.figures[name] for part in parts})
            for name in parts[0].figures
        },
        aspects={},
        n_missing=sum(part.n_missing for part in parts),
    )


def mean_of(figures: Mapping[str, Figure]) -> Figure:
    """The mean of named figures; undefined, for the first one's reason, if any is."""
    values = []
    for name, figure in figures.items():
        if figure.value is None:
            return Figure(None, f"{name}: {figure.reason}")
        values.append(figure.value)
    return Figure(fsum(values) / len(values))
