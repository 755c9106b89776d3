"""Tables of ranks: the systems' rank ranges, wins over each other, and the ranks of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from hsfiq.analysis.reports.cells import estimate_cell, number_cell, stars
from hsfiq.analysis.reports.document import Cell, Column, NumberCell, Row, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.sections.comparison import NAMES
from hsfiq.analysis.systems.metric_ranks import MetricRank
from hsfiq.analysis.systems.rank_ranges import RankRanges
from hsfiq.analysis.systems.systems import Systems
from hsfiq.analysis.systems.win_matrix import Duel

NOT_SIGNIFICANT = "n.s."


def rank_cells(ranks: RankRanges, system: str) -> tuple[Cell, Cell]:
    """The rank of a system with its range, and its cluster."""
    if ranks.reason is not None:
        undefined = number_cell(float("nan"), ranks.reason)
        return undefined, undefined
    place = ranks.systems[system]
    bounds = (float(place.low), float(place.high))
    return NumberCell(float(place.rank), bounds=bounds, style="short"), place.cluster


def win_matrix_table(duels: Sequence[Duel], names: Sequence[str]) -> Table:
    """How often the system of the row was preferred to that of the column."""
    rates = {(duel.system, duel.other): estimate_cell(duel.rate) for duel in duels}
    rows = (
        (name, *(_rate(rates[name, other]) if name != other else "" for other in names))
        for name in names
    )
    columns = (Column(f"against_{name}", name) for name in names)
    return table("win_matrix", rows, *columns)


def duels_table(systems: Systems, names: Sequence[str]) -> Table:
    place = {name: number for number, name in enumerate(names)}
    duels = sorted(systems.duels, key=lambda duel: (place[duel.system], place[duel.other]))
    rows = (
        (
            duel.system,
            duel.other,
            duel.wins,
            duel.ties,
            duel.losses,
            estimate_cell(duel.rate),
        )
        for duel in duels
        if place[duel.system] < place[duel.other]
    )
    return table("duels", rows)


def metric_ranks_section(ranks: Mapping[str, Sequence[MetricRank]]) -> Section:
    title = "Ranks of the metrics"
    tables = tuple(_metric_table(name, each) for name, each in ranks.items() if each)
    return Section("metric_ranks", title, tables or ("Ranks need at least two metrics.",))


def _metric_table(statistic: str, ranks: Sequence[MetricRank]) -> Table:
    rows: list[Row] = []
    for place, rank in enumerate(ranks):
        marks: list[Cell] = [""] * (place + 1)
        marks += [_mark(rank.p_below[worse.metric]) for worse in ranks[place + 1 :]]
        rows.append((place + 1, rank.metric, number_cell(rank.value), rank.rank, *marks[1:]))
    columns = (Column(f"above_{place}", str(place)) for place in range(2, len(ranks) + 1))
    return table("metric_ranks", rows, *columns, key=statistic, statistic=NAMES[statistic])


def _mark(p: float) -> str:
    return "p undefined" if isnan(p) else stars(p) or NOT_SIGNIFICANT


def _rate(cell: NumberCell) -> NumberCell:
    return number_cell(cell.value, cell.reason, n=cell.n)
