"""The section on the categories of the queries."""

from __future__ import annotations

from hsfiq.analysis.reports.cells import DASH, estimate_cell
from hsfiq.analysis.reports.document import Section
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.sections.caveats import sentence
from hsfiq.analysis.statistics.categories import Categories


def categories_section(categories: Categories) -> Section:
    if categories.reason is not None:
        return Section("categories", "Categories", (f"{DASH} Undefined: {categories.reason}.",))
    rows = tuple(
        (
            category,
            metric,
            figures.n_questions,
            figures.n_participants,
            estimate_cell(rho),
            estimate_cell(figures.preference[metric].symmetric),
            estimate_cell(figures.preference[metric].tie_half),
        )
        for category, figures in categories.figures.items()
        for metric, rho in figures.spearman.items()
    )
    note = sentence(categories.note) if categories.note else None
    return Section("categories", "Categories", (table("categories", rows, note=note),))
