"""The section on sets scored by several participants: the human ceiling and agreement."""

from __future__ import annotations

from math import isnan

from hsfiq.analysis.people.overlap import Ceiling
from hsfiq.analysis.reports.cells import estimate_cell, number_text
from hsfiq.analysis.reports.document import NumberCell, Section, Table
from hsfiq.analysis.reports.layout import table


def ceiling_section(ceiling: Ceiling) -> Section:
    """How well other annotators predict one annotator's answers, and metrics on the same sets."""
    if not ceiling.n_sets:
        text = (
            "No set was scored by two participants, so it is unknown how well annotators predict "
            "each other."
        )
        return Section("ceiling", "Human ceiling", (text, _alpha_table(ceiling)))
    text = (
        f"{ceiling.n_sets:,} sets were scored by more than one participant "
        f"({ceiling.n_participants:,} participants in all). {_comparison(ceiling)}"
    )
    return Section("ceiling", "Human ceiling", (text, _table(ceiling), _alpha_table(ceiling)))


def _table(ceiling: Ceiling) -> Table:
    predictors = {"the other annotators": ceiling.people, **ceiling.metrics}
    rows = tuple(
        (name, estimate_cell(figures.spearman), estimate_cell(figures.tie_half))
        for name, figures in predictors.items()
    )
    return table("ceiling", rows)


def _comparison(ceiling: Ceiling) -> str:
    rho = ceiling.people.spearman.rho
    if isnan(rho):
        return "How well annotators predict each other is undefined."
    reaching = [name for name, figures in ceiling.metrics.items() if figures.spearman.rho >= rho]
    metrics = (
        f"Metrics with an equal or higher rho on these sets: {', '.join(reaching)}."
        if reaching
        else "No metric reaches this on the same sets."
    )
    return (
        "The mean score of the other annotators predicts one annotator's scores with rho = "
        f"{number_text(rho)}. {metrics}"
    )


def _alpha_table(ceiling: Ceiling) -> Table:
    agreements = {"scores (ordinal)": ceiling.scores, "preferences (nominal)": ceiling.preferences}
    rows = (
        (
            name,
            NumberCell(agreement.alpha, agreement.n_units, agreement.ci, reason=agreement.reason),
            agreement.n_units,
            agreement.n_ratings,
        )
        for name, agreement in agreements.items()
    )
    n = ceiling.n_identical
    note = f"Preferences: without {n:,} question{'s' if n > 1 else ''} with two identical sets."
    return table("alpha", rows, note=note if n else None)
