"""The section on the systems that returned the sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import (
    DASH,
    bounds_text,
    estimate_cell,
    mark_best,
    number_cell,
    number_text,
)
from hsfiq.analysis.reports.document import MANY, Block, Chart, Column, Row, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.sections.systems.pairs import (
    model_table,
    pairs_table,
    side_sentence,
    spa_differences_table,
)
from hsfiq.analysis.reports.sections.systems.ranks import (
    duels_table,
    rank_cells,
    win_matrix_table,
)
from hsfiq.analysis.systems.ranking import OrderAgreement
from hsfiq.analysis.systems.systems import Systems

NO_SIMILARITY = (
    "No scores file with a system's name gives that system's own similarity for both sets, so the "
    "rate of CIRQRS section 5.4 is undefined."
)


def systems_section(systems: Systems) -> Section:
    if systems.reason is not None:
        return Section("systems", "Systems", (f"{DASH} Undefined: {systems.reason}.",))
    names, sentence = by_win_rate(systems), side_sentence(systems)
    blocks = (
        _chart(systems),
        _people_table(systems),
        win_matrix_table(systems.duels, names),
        duels_table(systems, names),
        _strength_table(systems),
        *([sentence] if sentence else []),
        model_table(systems, names),
        *_agreement(systems),
        _set_score_table(systems),
    )
    return Section("systems", "Systems", blocks)


def _agreement(systems: Systems) -> Iterator[Block]:
    """How far the metrics agree with people; nothing without metrics."""
    if systems.metrics:
        yield _order_table(systems)
        yield pairs_table(systems)
    if systems.spa_differences:
        yield spa_differences_table(systems)


def by_win_rate(systems: Systems) -> list[str]:
    """The systems' names by win rate, best first, undefined rates last."""
    rates = {name: figures.win_rate.value for name, figures in systems.figures.items()}
    return sorted(rates, key=lambda name: (isnan(rates[name]), -rates[name], name))


def _people_table(systems: Systems) -> Table:
    names = by_win_rate(systems)
    figures = [systems.figures[name] for name in names]
    wins = mark_best([estimate_cell(system.win_rate) for system in figures])
    has_similarity = any(system.own_similarity.reason is None for system in figures)
    rows: list[Row] = []
    for name, win, system in zip(names, wins, figures, strict=True):
        similarity = (estimate_cell(system.own_similarity),) if has_similarity else ()
        rank, cluster = rank_cells(systems.ranks, name)
        rows.append((name, win, estimate_cell(system.mean_score), rank, cluster, *similarity))
    if not has_similarity:
        return table("systems", rows, note=NO_SIMILARITY)
    return table(
        "systems", rows, Column("own_similarity", "ge by own similarity", "own_similarity")
    )


def _set_score_table(systems: Systems) -> Table:
    """CIRQRS Table 6."""
    names = sorted(systems.figures)
    categories = sorted(
        {name for figures in systems.metrics.values() for name in figures.by_category}
    )
    no_sets = number_cell(float("nan"), "no sets")
    rows: list[Row] = []
    for metric, figures in systems.metrics.items():
        groups = [figures.by_category.get(category, {}) for category in categories]
        columns = [
            mark_best([estimate_cell(group[name]) if name in group else no_sets for name in names])
            for group in (*groups, figures.set_score)
        ]
        rows += [(metric, name, *cells) for name, *cells in zip(names, *columns, strict=True)]
    k = "k" if systems.k is None else str(systems.k)
    titles = (
        *(Column(category, f"{category} @{k}", "set_score") for category in categories),
        Column("all", f"All sets @{k}", "set_score"),
    )
    note = "The sets have different sizes k." if systems.k is None else None
    return table("table6_set_scores", rows, *titles, note=note, k=k)


def _strength_table(systems: Systems) -> Table:
    """Strength and rank of each system, according to people and to each metric."""
    judges = {
        "people": (
            {name: figures.strength for name, figures in systems.figures.items()},
            systems.ranks,
        )
    } | {metric: (figures.strength, figures.ranks) for metric, figures in systems.metrics.items()}
    rows: list[Row] = [
        (
            judge,
            name,
            replace(estimate_cell(strength[name]), style="signed"),
            *rank_cells(ranks, name),
        )
        for judge, (strength, ranks) in judges.items()
        for name in by_win_rate(systems)
    ]
    return table("systems_strength", rows)


def _order_table(systems: Systems) -> Table:
    rows = (
        (
            metric,
            number_cell(figures.order.tau, figures.order.reason, ci=figures.order.ci),
            _reversed_pairs(figures.order),
            figures.ranks.text(),
        )
        for metric, figures in systems.metrics.items()
    )
    return table("systems_order", rows)


def _reversed_pairs(order: OrderAgreement) -> str:
    return ", ".join(f"{better} / {worse}" for better, worse in order.swapped) or "none"


def _chart(systems: Systems) -> Chart:
    names = by_win_rate(systems)
    series = {"people": [estimate_cell(systems.figures[name].strength) for name in names]}
    for metric, figures in systems.metrics.items():
        series[metric] = [estimate_cell(figures.strength[name]) for name in names]
    return charts.interval_chart(
        "systems",
        "Strength of each system, according to people and to each metric",
        _caption(systems),
        "For each system, its Bradley-Terry strength with interval, according to people and to "
        "each metric.",
        rows=names,
        series=series,
        x_label="Bradley-Terry strength (log)",
        reference=(0.0, "mean system"),
        colours=(charts.INK, *charts.COLOURS),
    )


def _caption(systems: Systems) -> str:
    best = by_win_rate(systems)[0]
    rate = systems.figures[best].win_rate
    if isnan(rate.value):
        return "No two systems were compared."
    caption = f"People prefer {best} most often: its win rate is {number_text(rate.value)}"
    caption += f" {bounds_text((rate.ci.low, rate.ci.high))}." if rate.ci else "."
    same = [
        metric
        for metric, figures in systems.metrics.items()
        if figures.order.reason is None and not figures.order.swapped
    ]
    if len(systems.metrics) > MANY:
        return f"{caption} {len(same)} of {len(systems.metrics)} metrics rank them as people do."
    if same:
        verb = "ranks" if len(same) == 1 else "rank"
        caption += f" {_joined(same)} {verb} the systems in the same order as people do."
    for metric, figures in systems.metrics.items():
        if figures.order.reason is not None:
            caption += f" The ranking by {metric} is undefined."
        elif figures.order.swapped:
            caption += f" {metric} reverses {_reversed_pairs(figures.order)}."
    return caption


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
