"""The report of sessions: figures by round, and people compared with simulators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.reports import document
from hsfiq.analysis.reports.charts import draw_legend, panels, panels_size, shorten, style_of_series
from hsfiq.analysis.reports.html import report_files
from hsfiq.analysis.reports.text import to_text
from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.sessions.measure import SessionAnalysis, SystemMeasures
from hsfiq.analysis.sessions.people import Compared, Comparison, PeopleAndSimulators
from hsfiq.analysis.sessions.ranks import Rules
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The report of sessions: curves by round, and a table of each system's figures.

ByRound = Mapping[str, Sequence[Estimate]]
"""Figures by name, one value a round."""

PANEL_HEIGHT = 2.6  # inches
RANKS = {"mean_rank_current": "mean rank", "mean_rank_best": "mean best rank"}
SIMULATED = "The texts come from simulators. Every figure describes the simulation, not people."
METHODS = (
    "Ranks count from 1; b is the best rank of a session so far. Hits@K is the share of sessions "
    "with b at most K, Recall@K the share with the rank at most K. BRI is the mean over rounds of "
    "ln b by the trapezoidal rule (PlugIR, ACL 2024). Rounds to success are Kaplan and Meier's "
    "estimate, in which sessions that end without success are censored. Differences compare two "
    "systems on their common queries, after their last common round. Intervals are 95% "
    "bootstrap intervals over clusters of sessions; all figures use the same draws. results.json "
    "and tables/*.csv hold every figure in full precision, with its n and method."
)
PEOPLE = (
    "This section compares people and simulators who searched for the same queries with the same "
    "systems. Each query counts once on each side, so the differences, simulator minus people, are "
    "paired by query. A "
    "simulator is optimistic if the interval of its difference in Hits@{k} after the last round is "
    "above 0, and pessimistic if it is below; people see {k} images and stop when they see their "
    "target."
)
AFTER_STOP = {
    "carry": "After the end of a session, its last list counts in later rounds.",
    "drop": "After its end, a session is excluded from Recall and from the current rank.",
}


def session_report(
    analysis: SessionAnalysis, people: PeopleAndSimulators | None = None
) -> dict[str, bytes]:
    """The content of the report's files, by their paths in its folder; see `report_files`."""
    results = analysis.to_json() | ({} if people is None else {"people": people.to_json()})
    return report_files(document_of(analysis, people), results)


def session_text(analysis: SessionAnalysis, people: PeopleAndSimulators | None = None) -> str:
    """The figures of the rounds that the rules print, as plain text; see `to_text`."""
    rules = analysis.rules
    return to_text(
        document_of(analysis, people, is_brief=True),
        f"{AFTER_STOP[rules.after_stop]} Ties: {rules.ties}.",
        f"Intervals: 95%, by resampling {count_text(analysis.n_clusters, 'cluster')} "
        f"({analysis.unit}); --json has all rounds and their methods.",
    )


def document_of(
    analysis: SessionAnalysis, people: PeopleAndSimulators | None = None, *, is_brief: bool = False
) -> document.Document:
    """The report; a brief one has only the rounds that the rules print."""
    n = sum(each.n_sessions for each in analysis.systems.values())
    caveats = [("Notes", ". ".join(analysis.notes))] if analysis.notes else []
    if analysis.simulated:
        caveats.insert(0, ("Simulated texts", SIMULATED))
    return document.Document(
        title="Searches over several rounds",
        summary=f"{count_text(n, 'session')} of {count_text(len(analysis.systems), 'system')}.",
        simulated=analysis.simulated,
        caveats=tuple(caveats),
        sections=(
            *sections(analysis, is_brief=is_brief),
            *(() if people is None else [people_section(people)]),
            document.Section("methods", "Methods", (methods_of(analysis.rules),)),
        ),
    )


def sections(analysis: SessionAnalysis, *, is_brief: bool = False) -> Iterator[document.Section]:
    systems = analysis.systems
    hits = [f"hits@{k}" for k in analysis.rules.ks]
    by_round = {name: each.by_round for name, each in systems.items()}
    curves = (
        curve_chart("hits", "Hits by round", by_round, {name: name for name in hits}),
        curve_chart("ranks", "Ranks by round", by_round, RANKS, is_log=True),
    )
    yield document.Section("curves", "Curves", curves)
    for number, (name, system) in enumerate(systems.items(), start=1):
        rounds: Sequence[int] = range(1, system.n_rounds + 1)
        if is_brief:
            rounds = analysis.rules.printed_rounds(system.n_rounds)
        yield document.Section(
            f"system_{number}", name, tuple(system_blocks(number, name, system, rounds))
        )
    if analysis.differences:
        yield document.Section("differences", "Differences", (difference_table(analysis),))


def methods_of(rules: Rules) -> str:
    return f"{METHODS} {AFTER_STOP[rules.after_stop]}"


def system_blocks(
    number: int, name: str, system: SystemMeasures, rounds: Sequence[int]
) -> Iterator[document.Block]:
    stops = ", ".join(f"{reason} {n:,}" for reason, n in system.stops.items())
    yield (
        f"{count_text(system.n_sessions, 'session')} of "
        f"{count_text(system.n_queries, 'query', 'queries')}; ends: {stops}."
    )
    yield document.Table(
        f"rounds_{number}",
        f"{name}: figures by round",
        (
            document.Column("figure", "Figure"),
            *(document.Column(f"round_{n}", f"Round {n}") for n in rounds),
        ),
        tuple(
            (figure, *(document.estimate_cell(each[n - 1]) for n in rounds))
            for figure, each in system.by_round.items()
        ),
    )
    figures = dict(system.of_sessions)
    for figure, success in system.success.items():
        figures |= {f"{figure}, mean": success.mean, f"{figure}, median": success.median}
    yield document.Table(
        f"sessions_{number}",
        f"{name}: figures of sessions",
        (document.Column("figure", "Figure"), document.Column("value", "Value")),
        tuple((figure, document.estimate_cell(each)) for figure, each in figures.items()),
    )


def difference_table(analysis: SessionAnalysis) -> document.Table:
    (first, *_) = analysis.systems
    names = list(next(iter(analysis.differences.values())).figures)
    rows: list[document.Row] = [
        (
            figure,
            *(
                document.number_cell(each.value, each.reason, n=each.n, ci=each.ci, style="signed")
                for other in analysis.differences.values()
                for each in [other.figures[figure]]
            ),
        )
        for figure in names
    ]
    columns = (
        document.Column(f"system_{n}", name) for n, name in enumerate(analysis.differences, start=2)
    )
    return document.Table(
        "differences",
        f"Differences from {first}, after the last round",
        (document.Column("figure", "Figure"), *columns),
        tuple(rows),
    )


def people_section(people: PeopleAndSimulators) -> document.Section:
    """Curves of people and simulators, a table of their differences, and the order of systems."""
    hits = f"hits@{people.k}"
    blocks: list[document.Block] = [
        PEOPLE.format(k=people.k),
        *([f"Notes: {'; '.join(people.notes)}."] if people.notes else []),
        curve_chart("people", "People and simulators", people_curves(people), {hits: hits}),
        *(comparison_table(number, each) for number, each in enumerate(people.comparisons, 1)),
    ]
    if people.orders:
        blocks.append(order_table(people))
    return document.Section("people", "People and simulators", tuple(blocks))


def people_curves(people: PeopleAndSimulators) -> dict[str, ByRound]:
    """The figures of both sides of each comparison, by the names of their curves.

    People have several curves if they share different queries with different simulators.
    """
    curves: dict[str, ByRound] = {}
    for each in people.comparisons:
        name, figures = f"{each.system}, people", each.figures
        own = {key: [each_round.people for each_round in values] for key, values in figures.items()}
        if curves.get(name, own) != own:
            name = f"{name} ({each.simulator}'s queries)"
        curves[name] = own
        curves[f"{each.system}, {each.simulator}"] = {
            key: [each_round.simulator for each_round in values] for key, values in figures.items()
        }
    return curves


def comparison_table(number: int, comparison: Comparison) -> document.Table:
    title = (
        f"{comparison.system}: {comparison.simulator} is {comparison.verdict}; "
        f"{count_text(comparison.n_queries, 'query', 'queries')}"
    )
    rows: list[document.Row] = [
        (f"{name}, round {place}", *compared_cells(each))
        for name, rounds in comparison.figures.items()
        for place, each in enumerate(rounds, start=1)
    ]
    columns = ("figure", "people", "simulator", "difference")
    return document.Table(
        f"people_{number}",
        title,
        tuple(document.Column(name, name.capitalize()) for name in columns),
        (*rows, ("words per text", *compared_cells(comparison.words))),
    )


def compared_cells(compared: Compared) -> tuple[document.Cell, ...]:
    difference = compared.difference
    return (
        document.estimate_cell(compared.people),
        document.estimate_cell(compared.simulator),
        signed_cell(difference),
    )


def order_table(people: PeopleAndSimulators) -> document.Table:
    agrees = {True: "yes", False: "no", None: "not defined"}
    return document.Table(
        "orders",
        f"Every pair of systems: Hits@{people.k} of the second minus that of the first",
        tuple(
            document.Column(name, name.capitalize())
            for name in ("systems", "simulator", "people", "simulated", "agree")
        ),
        tuple(
            (
                ", ".join(each.systems),
                each.simulator,
                signed_cell(each.people),
                signed_cell(each.by_simulator),
                agrees[each.agrees],
            )
            for each in people.orders
        ),
    )


def signed_cell(estimate: Estimate) -> document.Cell:
    return document.number_cell(
        estimate.value, estimate.reason, n=estimate.n, ci=estimate.ci, style="signed"
    )


def curve_chart(
    name: str,
    title: str,
    systems: Mapping[str, ByRound],
    figures: Mapping[str, str],
    *,
    is_log: bool = False,
) -> document.Chart:
    """A panel for each figure, with a line for each system."""

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import (  # noqa: PLC0415 (only charts need it)
            LogLocator,
            MaxNLocator,
            NullLocator,
            StrMethodFormatter,
        )

        for axes, (key, label) in zip(panels(figure, len(figures)), figures.items(), strict=True):
            for index, (system, by_round) in enumerate(systems.items()):
                draw_curve(axes, index, shorten(system), by_round[key])
            axes.set_title(label)
            axes.set_xlabel("round")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(axis="y")
            if is_log:
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
                axes.yaxis.set_minor_locator(NullLocator())
        if len(systems) > 1:
            draw_legend(figure, figure.axes[0])

    values = [
        each.value for by_round in systems.values() for key in figures for each in by_round[key]
    ]
    return document.Chart(
        name,
        title,
        f"{title}, with 95% intervals.",
        "A panel for each figure, with a line for each system over the rounds; the tables list the "
        "figures.",
        panels_size(len(figures), PANEL_HEIGHT),
        paint,
        is_wide=True,
        is_empty=bool(np.isnan(values).all()),
    )


def draw_curve(axes: Axes, index: int, name: str, estimates: Sequence[Estimate]) -> None:
    style = style_of_series(index)
    rounds = np.arange(1, len(estimates) + 1)
    values = [each.value for each in estimates]
    low, high = (
        [getattr(each.ci, end) if each.ci else each.value for each in estimates]
        for end in ("low", "high")
    )
    axes.fill_between(rounds, low, high, color=style.colour, alpha=0.15, linewidth=0)
    axes.plot(
        rounds,
        values,
        color=style.colour,
        marker=style.mark,
        markerfacecolor=style.face,
        linestyle=style.line,
        label=name,
        ms=4,
    )
