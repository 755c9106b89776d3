"""How the live retrievers of a study answer: how fast, and how often not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.cards import Card, Line
from hsfiq.collect.retrievers import TURN_TIMEOUT
from hsfiq.db.search_tables import SearchItem, SearchList, SearchTurn
from hsfiq.db.source_tables import System
from hsfiq.db.tables import Pair, Question, Study
from hsfiq.kinds import KINDS

NAME = "Retrievers"
NOTES = (
    (
        f"Late: the list came more than {TURN_TIMEOUT:g} seconds after the text, as when the "
        "retriever was down and asked again. Missing: it has not come for longer than that."
    ),
    "Median and 95th percentile of how long the retriever took for the lists that came.",
)
OF_ARENAS = (
    "The lists of a turn are stored together, so a late or missing one counts for both systems."
)
LEGEND = (("passed", "in time"), ("failed", "late or missing"))


@dataclass(slots=True)
class Answers:
    """What one retriever answered.

    `missing` counts the turns whose list should be there by now.
    """

    seconds: list[float] = field(default_factory=list)
    late: int = 0
    missing: int = 0

    def add(self, asked_at: datetime, listed: SearchList | None, now: datetime) -> None:
        """Count a turn; None is a list that has not come."""
        is_late = (listed.listed_at if listed else now) - asked_at > timedelta(seconds=TURN_TIMEOUT)
        if listed is None:
            self.missing += is_late
        else:
            self.seconds.append(listed.seconds)
            self.late += is_late

    def within(self, share: float) -> float:
        """The time within which this share of the lists came."""
        return sorted(self.seconds)[ceil(share * len(self.seconds)) - 1]


def retrievers_card(session: Session, study: Study, now: datetime) -> Card:
    """A line for each retriever, by name."""
    answers = answers_of(session, study, now)
    if not answers:
        return Card(NAME, empty="No retriever has been asked yet")
    lines = tuple(line_of(name, own) for name, own in sorted(answers.items()))
    notes = (*NOTES, OF_ARENAS) if KINDS[study.kind].n_live > 1 else NOTES
    return Card(NAME, lines, notes, LEGEND)


def answers_of(session: Session, study: Study, now: datetime) -> Mapping[str, Answers]:
    rows = session.execute(
        select(System.name, SearchTurn.asked_at, SearchList)
        .join(Question, SearchTurn.question_id == Question.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(SearchItem, SearchItem.pair_id == Pair.id)
        .join(System, SearchItem.system_id == System.id)
        .outerjoin(
            SearchList,
            (SearchList.turn_id == SearchTurn.id) & (SearchList.side == SearchItem.side),
        )
        .where(Pair.study_id == study.id)
    )
    answers: dict[str, Answers] = defaultdict(Answers)
    for name, asked_at, listed in rows:
        answers[name].add(asked_at, listed, now)
    return answers


def line_of(name: str, answers: Answers) -> Line:
    n = len(answers.seconds)
    failed = answers.late + answers.missing
    note = f"{name}; {n:,} lists, {answers.late:,} late, {answers.missing:,} missing"
    value = ""
    if n:
        value = f"{answers.within(0.5):.2f} s"
        note = f"{name}; 95 % within {answers.within(0.95):.2f} s; {note.partition('; ')[2]}"
    plot = plots.split_bar([("passed", n - answers.late), ("failed", failed)], note)
    return Line(value, note, plot)
