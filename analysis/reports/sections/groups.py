"""The report's sections on categories, and on what several people judged."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.cells import DASH, number, of_rate, of_rho
from hsfiq.analysis.reports.document import Column, Measured, Section, Table

if TYPE_CHECKING:
    from hsfiq.analysis.statistics.agreement import Agreement
    from hsfiq.analysis.statistics.categories import Categories
    from hsfiq.analysis.statistics.ceiling import Ceiling


def categories_section(found: Categories) -> Section:
    """Lay out the main figures of each category."""
    if found.reason is not None:
        return Section("categories", "Categories", (f"{DASH} Not known: {found.reason}.",))
    rows = tuple(
        (
            category,
            metric,
            each.n_questions,
            each.n_participants,
            of_rho(rho),
            of_rate(each.preference[metric].symmetric),
            of_rate(each.preference[metric].tie_half),
        )
        for category, each in found.figures.items()
        for metric, rho in each.spearman.items()
    )
    columns = (
        Column("category", "Category"),
        Column("metric", "Metric"),
        Column("questions", "Questions"),
        Column("n_participants", "Participants"),
        Column("rho", "rho", "spearman"),
        Column("symmetric", "Symmetric", "symmetric"),
        Column("tie_half", "tie_half", "tie_half"),
    )
    note = f"{found.note[0].upper()}{found.note[1:]}." if found.note else None
    table = Table("categories", "The main figures of each category", columns, rows, note)
    return Section("categories", "Categories", (table,))


def ceiling_section(found: Ceiling) -> Section:
    """Lay out how well people foretell each other, and metrics on the same sets."""
    every = {"the other people": found.people, **found.metrics}
    rows = tuple(
        (name, of_rho(each.spearman), of_rate(each.tie_half)) for name, each in every.items()
    )
    columns = (
        Column("by", "Foretold by"),
        Column("rho", "rho", "ceiling"),
        Column("tie_half", "tie_half", "ceiling"),
    )
    if not found.n_sets:
        said = "No set was judged by two people, so how well they foretell each other is not known."
        return Section("ceiling", "Human ceiling", (said, _alpha_table(found)))
    said = (
        f"{found.n_sets:,} sets, judged by {found.n_participants:,} participants, were judged by "
        f"somebody else too. {_reached(found)}"
    )
    blocks = (said, Table("ceiling", "The human ceiling", columns, rows), _alpha_table(found))
    return Section("ceiling", "Human ceiling", blocks)


def _reached(found: Ceiling) -> str:
    people = found.people.spearman.rho
    if isnan(people):
        return "How well people foretell each other cannot be said."
    above = [name for name, each in found.metrics.items() if each.spearman.rho >= people]
    reached = f"As high or higher there: {', '.join(above)}." if above else "No metric reaches it."
    return (
        f"The others' mean score foretells a person's scores at rho = {number(people)}. {reached}"
    )


def _alpha_table(found: Ceiling) -> Table:
    every = {"scores (ordinal)": found.scores, "preferences (nominal)": found.preferences}
    rows = tuple((name, _alpha(each), each.n_units, each.n_ratings) for name, each in every.items())
    columns = (
        Column("of", "Agreement of"),
        Column("alpha", "Alpha", "alpha"),
        Column("units", "Units"),
        Column("ratings", "Ratings"),
    )
    return Table("alpha", "Krippendorff's alpha", columns, rows)


def _alpha(found: Agreement) -> Measured:
    return Measured(found.alpha, found.n_units, found.ci, reason=found.reason)
