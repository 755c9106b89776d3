"""The section on judges: whether they agree with people as well as people with each other."""

from __future__ import annotations

from collections.abc import Mapping

from hsfiq.analysis.people.judges import MARGIN, JudgeAgreement
from hsfiq.analysis.reports.cells import number_cell
from hsfiq.analysis.reports.document import Section
from hsfiq.analysis.reports.layout import table


def judges_section(judges: Mapping[str, JudgeAgreement]) -> Section:
    text = (
        "On pairs of sets that several people judged, the preferences of each judge and of each "
        "person are compared with those of the other people. A judge agrees as well as people if "
        f"the interval of the difference lies above {-MARGIN:g}."
    )
    rows = (
        (
            name,
            part,
            number_cell(figures.judge, figures.reason, n=figures.n),
            number_cell(figures.people, figures.reason, n=figures.n),
            number_cell(figures.difference, figures.reason, n=figures.n, ci=figures.ci),
            figures.n_pairs,
            figures.verdict,
        )
        for name, judge in judges.items()
        for part, figures in judge.parts.items()
    )
    return Section("judges", "Judges and people", (text, table("judges", rows)))
