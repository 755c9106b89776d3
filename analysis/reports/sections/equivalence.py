"""The section on whether systems, and metrics, are as good as equal."""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.analysis.equivalence import Equivalence
from hsfiq.analysis.reports.cells import DASH, number_cell, p_cell
from hsfiq.analysis.reports.document import Row, Section
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.sections.comparison import NAMES

NOTHING = f"{DASH} Undefined: there are neither two named systems nor two metrics."
VERDICTS = {True: "equivalent", False: "not shown", None: DASH}


def equivalence_section(tested: Sequence[Equivalence]) -> Section:
    title = "Equivalence"
    if not tested:
        return Section("equivalence", title, (NOTHING,))
    rows: list[Row] = [
        (
            each.first,
            each.second,
            NAMES.get(each.statistic, each.statistic),
            number_cell(each.difference, each.reason, style="signed"),
            number_cell(each.low, each.reason, style="signed"),
            number_cell(each.high, each.reason, style="signed"),
            number_cell(each.p, each.reason, style="p"),
            p_cell(each.p_holm, each.reason),
            VERDICTS[each.is_equivalent],
        )
        for each in tested
    ]
    margin = f"{tested[0].margin:g}"
    return Section("equivalence", title, (table("equivalence", rows, margin=margin),))
