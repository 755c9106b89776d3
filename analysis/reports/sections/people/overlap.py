"""The section on sets that several participants scored: agreement, and a metric's upper bound."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.people.overlap import Overlap
from hsfiq.analysis.reports.cells import estimate_cell, number_cell, number_text
from hsfiq.analysis.reports.document import Row, Section, Table
from hsfiq.analysis.reports.layout import table

NAME, TITLE = "overlap", "Agreement between annotators"
ANY_METRIC = "any metric, at most"
NO_BOUND = "an upper bound is known for correlations only"


def overlap_section(overlap: Overlap) -> Section:
    """How well one annotator predicts another, metrics on the same sets, and the upper bound."""
    if not overlap.n_sets:
        text = (
            "No set was scored by two participants, so it is unknown how far annotators agree and "
            "what a metric could reach at most."
        )
        return Section(NAME, TITLE, (text, _alpha_table(overlap)))
    text = (
        f"{count_text(overlap.n_sets, 'set')} {'was' if overlap.n_sets == 1 else 'were'} scored by "
        f"more than one participant ({count_text(overlap.n_participants, 'participant')} in all). "
        f"{' '.join(_comparison(overlap))}"
    )
    tables = (_table(overlap), _alpha_table(overlap), _reliability_table(overlap))
    return Section(NAME, TITLE, (text, *tables))


def _table(overlap: Overlap) -> Table:
    rows: list[Row] = [
        (name, estimate_cell(figures.spearman), estimate_cell(figures.tie_half))
        for name, figures in overlap.predictors.items()
    ]
    no_bound = overlap.reliability.rho_bound.reason or NO_BOUND
    bound = estimate_cell(overlap.reliability.rho_bound)
    rows.append((ANY_METRIC, bound, number_cell(float("nan"), no_bound)))
    return table("other_annotator", rows)


def _comparison(overlap: Overlap) -> Iterator[str]:
    rho = overlap.other_annotator.spearman.rho
    if isnan(rho):
        yield "How well one annotator predicts another is undefined."
    else:
        reaching = [
            name for name, figures in overlap.metrics.items() if figures.spearman.rho >= rho
        ]
        yield (
            "The score of one other annotator predicts an annotator's scores with rho = "
            f"{number_text(rho)}. This is no upper bound: the mean of several annotators predicts "
            "better."
        )
        if overlap.metrics:
            yield (
                f"Metrics with an equal or higher rho on these sets: {', '.join(reaching)}."
                if reaching
                else "No metric reaches this on the same sets."
            )
    bound = overlap.reliability.rho_bound.value
    if not isnan(bound):
        yield (
            "Because annotators differ, no metric can have a rho above about "
            f"{number_text(bound)} with their scores."
        )


def _alpha_table(overlap: Overlap) -> Table:
    agreements = {"scores (ordinal)": overlap.scores, "preferences (nominal)": overlap.preferences}
    rows = (
        (
            name,
            number_cell(agreement.alpha, agreement.reason, n=agreement.n_units, ci=agreement.ci),
            agreement.n_units,
            agreement.n_ratings,
        )
        for name, agreement in agreements.items()
    )
    n = overlap.n_identical
    note = f"Preferences: without {count_text(n, 'question')} with two identical sets."
    return table("alpha", rows, note=note if n else None)


def _reliability_table(overlap: Overlap) -> Table:
    rows = (
        (str(mean.n_raters), estimate_cell(mean.reliability), estimate_cell(mean.bound))
        for mean in overlap.reliability.means
    )
    return table("reliability", rows)
