"""Judges beside people, as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.people.judges import MARGIN, JudgeAgreement
from hsfiq.analysis.reports.text.format import interval_text, line


def judges_lines(judges: Mapping[str, JudgeAgreement]) -> Iterator[str]:
    yield line("judges", "agreement with the preferences of other people, on the same pairs")
    for name, judge in judges.items():
        yield f"  {name}"
        for part, figures in judge.parts.items():
            if isnan(figures.difference):
                yield f"    {part:<13}undefined: {figures.reason}"
                continue
            yield (
                f"    {part:<13}judge {figures.judge:.4f}, people {figures.people:.4f}, difference "
                f"{figures.difference:+.4f} {interval_text(figures.ci)}"
            )
            answers = count_text(figures.n, "answer")
            pairs = count_text(figures.n_pairs, "pair of sets", "pairs of sets")
            people = count_text(figures.n_participants, "participant")
            yield f"{'':<17}{answers} about {pairs} by {people}: {figures.verdict}"
    yield line("", f"as well as people: at most {MARGIN:g} less agreement, by the interval")
