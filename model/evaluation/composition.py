"""The composition gap: how much a system needs both the image and the text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation import metrics
from hsfiq.model.evaluation.benchmarks import Benchmark, Query, SystemLists
from hsfiq.model.evaluation.lists import match_runs
from hsfiq.readers.runs import read_run

if TYPE_CHECKING:
    from hsfiq.analysis.resampling.intervals import ConfidenceInterval


# The composition gap of a system: its figures with both inputs, the text alone, the image alone.
#
# CIRCUS (Attimonelli et al. 2026) has two definitions. Its release subtracts: R@10 with both inputs
# less the better one of text and image alone. Its page divides: 1 - max(I, T) / MM, of the nDCG of
# complete rankings. A query is `shortcut_solvable` at K if the text or the image alone ranks the
# target among the first K, else `composition_required` if both inputs do, else `unresolved`; CIRCUS
# asks a pool of systems, here the system is the pool.

INPUTS = ("both", "text", "image")
LABELS = ("shortcut_solvable", "composition_required", "unresolved")
NDCG = "ndcg"

Answers = Mapping[str, SystemLists]
"""Lists by part."""


@dataclass(frozen=True, slots=True)
class ThreeAnswers:
    """The lists of a system with both inputs, with the text alone and with the image alone."""

    both: Answers
    text: Answers
    image: Answers


def ks_of(benchmark: Benchmark) -> tuple[int, ...]:
    return metrics.CIRCO_KS if benchmark.name == "circo" else metrics.RECALL_KS


def query_values(benchmark: Benchmark, answers: ThreeAnswers) -> list[metrics.QueryRow]:
    """The values of each query; None where a list does not determine one."""
    ks = ks_of(benchmark)
    rows = []
    for part in benchmark.parts:
        n_candidates = metrics.candidates_per_query(benchmark, part)
        for query in part.queries:
            lists = {
                name: getattr(answers, name)[part.name].lists.get(query.query_id) for name in INPUTS
            }
            values: dict[str, float | None] = {}
            for k in ks:
                hits = {name: hit(query, lists[name], k, n_candidates) for name in INPUTS}
                values |= {f"{name}@{k}": hits[name] for name in INPUTS}
                values |= {f"{name}@{k}": value for name, value in label_values(hits).items()}
            for name in INPUTS:
                values[f"{NDCG}_{name}@{max(ks)}"] = ndcg(query, lists[name], max(ks), n_candidates)
                values[f"{NDCG}_{name}"] = ndcg(query, lists[name], None, n_candidates)
            rows.append(
                metrics.QueryRow(
                    query.query_id, part.name, metrics.cluster_of(benchmark, query), values
                )
            )
    return rows


def hit(
    query: Query, images: Sequence[str] | None, k: int, n_candidates: int | None
) -> float | None:
    """Recall@k; 0 for a query without a list."""
    return (
        0.0 if images is None else metrics.recall(images, metrics.target_of(query), k, n_candidates)
    )


def label_values(hits: Mapping[str, float | None]) -> dict[str, float | None]:
    """1 for the query's label and 0 for the others, from its three hits."""
    both, text, image = (hits[name] for name in INPUTS)
    if both is None or text is None or image is None:
        return dict.fromkeys(LABELS)
    by_one = max(text, image)
    values = (by_one, (1 - by_one) * both, (1 - by_one) * (1 - both))
    return dict(zip(LABELS, values, strict=True))


def ndcg(
    query: Query, images: Sequence[str] | None, k: int | None, n_candidates: int | None
) -> float | None:
    """1 / log2(place of the target + 1); 0 below place k, or without a list.

    With k None the whole ranking counts: a list that ends before the target does not determine it.
    """
    if images is None:
        return 0.0
    target = metrics.target_of(query)
    if target in images:
        place = images.index(target) + 1
        return 1 / log2(place + 1) if k is None or place <= k else 0.0
    depth = len(images) + 1 if k is None else k
    return 0.0 if metrics.is_settled(images, depth, n_candidates) else None


def figures_of(rows: Sequence[metrics.QueryRow]) -> dict[str, metrics.Figure]:
    """All figures: means over parts, and the gaps between them."""
    means: dict[str, float] = {}
    figures: dict[str, metrics.Figure] = {}
    for name in rows[0].values:
        n_open = sum(row.values[name] is None for row in rows)
        if n_open:
            reason = f"{n_open:,} of {len(rows):,} queries have lists that are too short"
            figures[name] = metrics.Figure(None, reason)
        else:
            means[name] = mean_over_parts(rows, name)
            figures[name] = metrics.Figure(means[name])
    gaps = gaps_of(means)
    for name in gap_names(rows[0].values):
        if name in gaps:
            figures[name] = metrics.Figure(gaps[name])
        else:
            figures[name] = metrics.Figure(
                None, "it needs the figures of all three inputs, both above 0"
            )
    return figures


def mean_over_parts(rows: Sequence[metrics.QueryRow], name: str) -> float:
    by_part: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_part[row.part].append(row.values[name] or 0.0)
    return fsum(fsum(values) / len(values) for values in by_part.values()) / len(by_part)


def gap_names(names: Mapping[str, object]) -> list[str]:
    """The gaps of these values, in their order: `gap@K`, and `composition_gap` of nDCG."""
    gaps = []
    for name in names:
        first, at, k = name.partition("@")
        if first == "both":
            gaps.append(f"gap@{k}")
        elif first == f"{NDCG}_both":
            gaps.append(f"composition_gap{at}{k}")
    return gaps


def gaps_of(means: Mapping[str, float]) -> dict[str, float]:
    """The gaps between means; a gap without a mean, or divided by 0, is left out."""
    gaps = {}
    for name, both in means.items():
        first, at, k = name.partition("@")
        if first == "both" and {f"text@{k}", f"image@{k}"} <= means.keys():
            gaps[f"gap@{k}"] = both - max(means[f"text@{k}"], means[f"image@{k}"])
        alone = [f"{NDCG}_{half}{at}{k}" for half in ("text", "image")]
        if first == f"{NDCG}_both" and both > 0 and means.keys() >= set(alone):
            gaps[f"composition_gap{at}{k}"] = 1 - max(means[key] for key in alone) / both
    return gaps


# Adding the composition gap to what is printed of a system.

DEFINITION = """\
gap of recall: both less the better of text and image alone; gap of nDCG: 1 - that / both (CIRCUS).
nDCG@{k} counts targets below place {k} as 0, which is ours; CIRCUS takes complete rankings."""


@dataclass(frozen=True, slots=True)
class CompositionRequest:
    """A system's runs with one input alone, the files of each; both or none."""

    text_only: tuple[Path, ...] = ()
    image_only: tuple[Path, ...] = ()
    intervals: bool = False
    seed: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.text_only and not self.image_only

    def check(self, benchmark: Benchmark) -> None:
        """Refuse what cannot be computed, before anything is read."""
        if self.is_empty:
            return
        for option, files in (("--text-only", self.text_only), ("--image-only", self.image_only)):
            if not files:
                what = "is missing: the gap compares both inputs with each one alone"
                raise UnreadableInput(option, what, "name the lists of that input too")
        if benchmark.withholds_targets:
            raise UnreadableInput("--text-only", f"the targets of {benchmark.split} are withheld")


NO_COMPOSITION = CompositionRequest()


def add_composition(
    result: dict[str, Any],
    lines: list[str],
    benchmark: Benchmark,
    answers: Mapping[str, SystemLists],
    request: CompositionRequest,
    *,
    allow_missing: bool,
) -> None:
    """Add the gap of the system whose lists with both inputs are `answers`."""
    if request.is_empty:
        return
    alone = []
    for files in (request.text_only, request.image_only):
        runs = [read_run(path) for path in files]
        alone.append(match_runs(benchmark, runs, allow_missing=allow_missing)[0])
    rows = query_values(benchmark, ThreeAnswers(answers, *alone))
    figures = figures_of(rows)
    composition: dict[str, Any] = {
        "text_only": [str(path) for path in request.text_only],
        "image_only": [str(path) for path in request.image_only],
    } | {name: figure.value for name, figure in figures.items()}
    if reasons := metrics.reasons_of(figures):
        composition["reason"] = reasons
    result["composition"] = composition
    lines += ["", *table(figures, ks_of(benchmark))]
    if request.intervals:
        intervals = composition_intervals(rows, figures, request.seed)
        composition["ci"] = {name: each.to_json()["ci"] for name, each in intervals.items()}
        composition["ci_method"] = next(iter(intervals.values())).to_json()["ci_method"]
        lines += interval_lines(figures, intervals)


def table(figures: Mapping[str, metrics.Figure], ks: Sequence[int]) -> list[str]:
    """A row for each K, and for nDCG; in per cent."""
    rows = [["composition", *INPUTS, "gap", *LABELS]]
    for k in ks:
        names = [f"{name}@{k}" for name in (*INPUTS, "gap", *LABELS)]
        rows.append([f"recall@{k}", *(metrics.percent(figures[name]) for name in names)])
    for end in (f"@{max(ks)}", ""):
        names = [*(f"{NDCG}_{name}{end}" for name in INPUTS), f"composition_gap{end}"]
        cells = [metrics.percent(figures[name]) for name in names]
        rows.append([f"{NDCG}{end}", *cells, *[""] * len(LABELS)])
    lines = metrics.aligned(rows)
    reasons = (figures[f"{NDCG}_{name}"].reason for name in INPUTS)
    if reason := next(filter(None, reasons), None):
        lines.append(f"{NDCG} is undefined: {reason}; give complete rankings")
    return [*lines, *DEFINITION.format(k=max(ks)).split("\n")]


def composition_intervals(
    rows: Sequence[metrics.QueryRow], figures: Mapping[str, metrics.Figure], seed: int
) -> dict[str, ConfidenceInterval]:
    """The intervals of the defined figures, all from the same resamples of clusters."""
    import numpy as np  # noqa: PLC0415 (with the analysis extra)

    from hsfiq.analysis.resampling.intervals import percentile_interval  # noqa: PLC0415
    from hsfiq.model.evaluation.comparison import UNIT, parts_of, resampled_parts, values_of  # noqa: PLC0415

    settled = [name for name in rows[0].values if figures[name].value is not None]
    parts = parts_of(rows)
    means = resampled_parts(parts, values_of(rows)[settled], seed).mean(axis=0)
    columns = dict(zip(settled, means.T, strict=True))
    gaps = [gaps_of(dict(zip(settled, row, strict=True))) for row in means.tolist()]
    for name in figures:
        if name not in columns and figures[name].value is not None:
            columns[name] = np.array([each.get(name, np.nan) for each in gaps])
    n_clusters = sum(part.n_clusters for part in parts)
    return {
        name: percentile_interval(columns[name], unit=UNIT, n_clusters=n_clusters, seed=seed)
        for name in figures
        if name in columns
    }


def interval_lines(
    figures: Mapping[str, metrics.Figure], intervals: Mapping[str, ConfidenceInterval]
) -> list[str]:
    """The intervals of the gaps; JSON has all."""
    return [
        f"  {name}  {metrics.percent(figures[name])} [{100 * each.low:.2f}, {100 * each.high:.2f}]"
        for name, each in intervals.items()
        if "gap" in name
    ]
