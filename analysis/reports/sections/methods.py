"""The section on how each figure is computed: its formula and source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.document import Block, Section
from hsfiq.analysis.reports.layout import read_toml, table
from hsfiq.analysis.resampling.bootstrap import FEWEST_FOR_PERCENTILES, Bootstrap
from hsfiq.analysis.resampling.interval import FEW_CLUSTERS
from hsfiq.analysis.statistics.compare import Comparison


class Method(NamedTuple):
    """How a figure is computed: the key that columns refer to, its name, formula and source."""

    key: str
    name: str
    formula: str
    source: str


METHODS = tuple(Method(**method) for method in read_toml("methods.toml")["methods"])
METHOD_NUMBERS = {method.key: number for number, method in enumerate(METHODS, 1)}
"""The note number of each method."""


def methods_section(bootstrap: Bootstrap, comparisons: Sequence[Comparison]) -> Section:
    rows = tuple(
        (str(number), method.name, method.formula, method.source)
        for number, method in enumerate(METHODS, 1)
    )
    blocks: list[Block] = [intervals_text(bootstrap)]
    swaps = comparisons[0].spearman.swaps if comparisons else None
    if swaps is not None:
        permutations = count_text(swaps.n, "permutation")
        blocks.append(
            f"Tests of differences: {permutations}, seed {swaps.seed}, p = (b + 1) / "
            "(permutations + 1)."
        )
    blocks += [
        (
            "results.json and tables/*.csv hold the figures in full precision, each with its n, "
            "clusters, method and seed. An undefined figure is a dash here and null in JSON, "
            "always with a reason."
        ),
        table("methods", rows),
    ]
    return Section("methods", "Methods", tuple(blocks))


def intervals_text(bootstrap: Bootstrap) -> str:
    """How intervals are computed with these resamples."""
    resamples = count_text(bootstrap.n_resamples, "resample")
    clusters = count_text(bootstrap.n_clusters_of(None), "cluster")
    draws = (
        f"{resamples}, seed {bootstrap.seed}, unit: {bootstrap.unit} ({clusters} in the release). "
        "Whole clusters are drawn with replacement. All figures use the same draws, so differences "
        "are paired."
    )
    if len(bootstrap.parts) > 1:
        return (
            "Intervals: 95%, Student's t. Participants share triplets, so the variance is that "
            "over resampled participants, plus that over resampled triplets, less that over "
            "resampled answers of one participant to one triplet (Cameron, Gelbach and Miller "
            f"2011), with Satterthwaite's degrees of freedom; {draws}"
        )
    return (
        f"Intervals: 95%, percentile bootstrap, {draws} With fewer than {FEW_CLUSTERS} clusters, "
        "intervals are expanded as Student's t requires (Hesterberg 2015); with fewer than "
        f"{FEWEST_FOR_PERCENTILES}, they are Student's with the variance over the resamples."
    )
