"""People and simulators on the same queries, as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.text.format import folded
from hsfiq.analysis.reports.text.sessions import figure_text
from hsfiq.analysis.sessions.people import Compared, Comparison, Order, PeopleAndSimulators

LABEL, COLUMN = 22, 26  # characters


def comparison_text(people: PeopleAndSimulators) -> str:
    """Lines of at most 100 characters, without a final newline; figures of the last round."""
    blocks = [list(comparison_lines(each, people.k)) for each in people.comparisons]
    if people.orders:
        blocks.append([f"order of systems by hits@{people.k}, second minus first"])
        blocks[-1] += [order_line(each) for each in people.orders]
    if people.notes:
        blocks.append([f"note: {note}" for note in people.notes])
    return "\n\n".join("\n".join(map(folded, block)) for block in blocks)


def comparison_lines(comparison: Comparison, k: int) -> Iterator[str]:
    n_rounds = len(comparison.figures[f"hits@{k}"])
    yield (
        f"{comparison.system}: people ({count_text(comparison.n_people_sessions, 'session')}) and "
        f"{comparison.simulator} ({count_text(comparison.n_simulator_sessions, 'session')}) on "
        f"{count_text(comparison.n_queries, 'query', 'queries')}"
    )
    titles = ("people", comparison.simulator, "difference")
    yield " " * LABEL + "".join(f"{title:<{COLUMN}}" for title in titles).rstrip()
    hits = f"hits@{k}"
    for number, each in enumerate(comparison.figures[hits], start=1):
        yield line(f"{hits}, round {number}", each)
    yield f"  after round {n_rounds}:"
    for name, figures in comparison.figures.items():
        if name != hits:
            yield line(name, figures[-1])
    yield line("words of a text", comparison.words)
    yield f"  by {hits} after round {n_rounds} the simulator is {comparison.verdict}"


def line(label: str, compared: Compared) -> str:
    cells = [
        figure_text(compared.people),
        figure_text(compared.simulator),
        figure_text(compared.difference, signed=True),
    ]
    if len(set(cells)) == 1:
        cells = cells[:1]
    return f"  {label:<{LABEL - 3}} {' '.join(f'{cell:<{COLUMN - 1}}' for cell in cells)}".rstrip()


def order_line(order: Order) -> str:
    verdict = {True: "same order", False: "other order", None: "no order"}[order.agrees]
    return (
        f"  {', '.join(order.systems)}: people {figure_text(order.people, signed=True)}, "
        f"{order.simulator} {figure_text(order.by_simulator, signed=True)}: {verdict}"
    )
