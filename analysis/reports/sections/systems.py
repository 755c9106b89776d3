"""The report's section on the systems behind the sets."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import ends, mark_best, measured, number, of_estimate, of_rate
from hsfiq.analysis.reports.document import Block, Cell, Chart, Column, Section, Table, undefined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hsfiq.analysis.systems.ranking import OrderAgreement
    from hsfiq.analysis.systems.systems import Systems

NO_SIMILARITY = (
    "No scores file of a system's name gives its own similarity of both sets, so CIRQRS 5.4's rate "
    "is not known."
)


def systems_section(found: Systems) -> Section:
    """Lay out what people and metrics say of each system, and whether the orders agree."""
    blocks: tuple[Block, ...] = (f"\N{EM DASH} Not known: {found.reason}.",)
    if found.reason is None:
        blocks = (
            _chart(found),
            _people_table(found),
            _strength_table(found),
            _order_table(found),
            set_score_table(found),
        )
    return Section("systems", "Systems", blocks)


def ordered(found: Systems) -> list[str]:
    """The systems by win rate, best first; undefined ones last."""
    rates = {name: each.win_rate.value for name, each in found.figures.items()}
    return sorted(rates, key=lambda name: (isnan(rates[name]), -rates[name], name))


def _people_table(found: Systems) -> Table:
    names = ordered(found)
    every = [found.figures[name] for name in names]
    wins = mark_best([of_estimate(each.win_rate) for each in every])
    known = [name for name in names if found.figures[name].own_similarity.reason is None]
    rows: list[tuple[Cell, ...]] = []
    for name, win, each in zip(names, wins, every, strict=True):
        own = (of_rate(each.own_similarity),) if known else ()
        rows.append((name, win, of_estimate(each.mean_score), *own))
    columns = (
        Column("system", "System"),
        Column("win_rate", "Win rate", "win_rate"),
        Column("mean_score", "Mean score"),
        *((Column("own_similarity", "ge by own similarity", "own_similarity"),) if known else ()),
    )
    note = None if known else NO_SIMILARITY
    return Table("systems", "What people say of each system", columns, tuple(rows), note)


def set_score_table(found: Systems) -> Table:
    """CIRQRS Table 6: each system's set score by metric, by category and over all sets."""
    names = sorted(found.figures)
    categories = sorted({name for each in found.metrics.values() for name in each.by_category})
    rows: list[tuple[Cell, ...]] = []
    for metric, each in found.metrics.items():
        parts = [each.by_category.get(category, {}) for category in categories]
        columns = [
            mark_best(
                [
                    of_estimate(part[name]) if name in part else undefined("no sets")
                    for name in names
                ]
            )
            for part in (*parts, each.set_score)
        ]
        rows += [(metric, name, *cells) for name, *cells in zip(names, *columns, strict=True)]
    size = "k" if found.k is None else str(found.k)
    columns_of = (
        Column("metric", "Metric"),
        Column("system", "System"),
        *(Column(category, f"{category} @{size}", "set_score") for category in categories),
        Column("all", f"All sets @{size}", "set_score"),
    )
    note = None if found.k is not None else "The sets differ in size, so k is not one number."
    caption = f"Set score of each system by metric, @{size} (as CIRQRS Table 6)"
    return Table("table6_set_scores", caption, columns_of, tuple(rows), note)


def _strength_table(found: Systems) -> Table:
    by = {"people": {name: each.strength for name, each in found.figures.items()}}
    by |= {metric: dict(each.strength) for metric, each in found.metrics.items()}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(replace(of_estimate(each[name]), style="signed") for each in by.values()))
        for name in ordered(found)
    )
    columns = (
        Column("system", "System"),
        *(Column(f"by_{who}", f"By {who}", "strength") for who in by),
    )
    caption = "Strength (log) of each system, by people and as each metric would have it"
    return Table("systems_strength", caption, columns, rows)


def _order_table(found: Systems) -> Table:
    rows = tuple(
        (metric, measured(each.tau, None, each.ci, each.reason), _swapped(each))
        for metric, each in ((metric, by.order) for metric, by in found.metrics.items())
    )
    columns = (
        Column("metric", "Metric"),
        Column("tau", "Kendall's tau with people", "order"),
        Column("swapped", "Pairs the other way round, people's better first"),
    )
    return Table("systems_order", "Whether each metric puts the systems in order", columns, rows)


def _swapped(order: OrderAgreement) -> str:
    return ", ".join(f"{better} / {worse}" for better, worse in order.swapped) or "none"


def _chart(found: Systems) -> Chart:
    names = ordered(found)
    series = {"people": [of_estimate(found.figures[name].strength) for name in names]}
    for metric, each in found.metrics.items():
        series[metric] = [of_estimate(each.strength[name]) for name in names]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        charts.intervals(axes, names, series, colours=(charts.INK, *charts.COLOURS))
        charts.reference(axes, 0.0, "mean system")
        axes.set_xlabel("Bradley-Terry strength (log)")
        charts.legend(figure, axes)

    return Chart(
        "systems",
        "Systems by people's preferences, and as each metric would have them",
        _caption(found),
        "For each system its Bradley-Terry strength with interval, by people and by each metric.",
        (charts.WIDTH, charts.height(len(names), len(series), 1.2)),
        paint,
    )


def _caption(found: Systems) -> str:
    names = ordered(found)
    first = found.figures[names[0]].win_rate
    if isnan(first.value):
        return "No two systems were compared."
    said = f"People prefer {names[0]} most often: it wins {number(first.value)} of its comparisons"
    interval = first.ci
    said += f" {ends((interval.low, interval.high))}." if interval else "."
    for metric, each in found.metrics.items():
        if each.order.reason is not None:
            said += f" The order by {metric} is not known."
        elif each.order.swapped:
            said += f" {metric} has {_swapped(each.order)} the other way round."
        else:
            said += f" {metric} puts the systems in people's order."
    return said
