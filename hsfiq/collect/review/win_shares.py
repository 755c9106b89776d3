"""How often each participant preferred one system to another, in the order of finishing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.leases import IS_ANSWERED, IS_CHECK
from hsfiq.collect.progress import IS_LATEST
from hsfiq.db.tables import (
    Form,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    RetrievedSet,
    Study,
    System,
)

SystemPair = tuple[str, str]

UNKNOWN = datetime.min.replace(tzinfo=UTC)
WON: dict[int | None, float] = {0: 0.5, 1: 1.0, 2: 0.0}
"""What the set shown as set 1 has won, by the preferred side."""

_first, _second = aliased(RetrievedSet), aliased(RetrievedSet)
_system_1, _system_2 = aliased(System), aliased(System)


@dataclass(frozen=True, slots=True)
class WinShares:
    """What the participants who have finished prefer.

    Attributes:
        by_pair: for every two systems that the study compares, by name, each participant's share
            of preferences for the first (ties as half) and number of answers about the two.
        n_unfinished: participants who have answered something but not everything.
        n_triplets: the triplets that are judged; `n_shared` of them by several people.
    """

    by_pair: dict[SystemPair, list[tuple[float, int]]]
    n_finished: int
    n_unfinished: int
    n_triplets: int
    n_shared: int

    def facts(self) -> dict[str, int]:
        """The counts."""
        return {key: value for key, value in asdict(self).items() if key != "by_pair"}

    def notes(self) -> list[str]:
        """What the intervals of these shares hold for."""
        n_pairs = len(self.by_pair)
        which = "the interval" if n_pairs == 1 else f"any of the {n_pairs:,} intervals"
        often = "however often you look, so you may stop at any time."
        notes = [f"The chance that {which} is ever wrong is at most 5%, {often}"]
        if self.n_shared:
            notes.append(
                f"{self.n_shared:,} of {self.n_triplets:,} triplets were judged by several people: "
                "the intervals hold for the study's own queries, not for others."
            )
        if self.n_unfinished:
            notes.append(f"Not finished, so not counted yet: {self.n_unfinished:,}.")
        return notes


def win_shares(session: Session, study: Study) -> WinShares:
    """Read the shares of a study; there are none if its sets name no systems.

    Checks and skipped questions do not count. Participants count from the first answer to their
    last question on, unless they are excluded or some of their questions were reassigned: who
    leaves never counts, so nobody is added before those who have finished.
    """
    finished = finished_participants(session, study)
    won: dict[SystemPair, dict[int, list[float]]] = {
        pair: defaultdict(list) for pair in compared_systems(session, study)
    }
    judges: dict[int, set[int]] = defaultdict(set)
    rows = session.execute(
        comparing(study)
        .with_only_columns(
            Participant.id,
            Query.triplet_id,
            Question.swapped,
            _system_1.name,
            _system_2.name,
            Response.preferred,
        )
        .join(Participant, Form.participant_id == Participant.id)
        .join(Response, Response.question_id == Question.id)
        .where(IS_LATEST, Response.preferred.is_not(None))
        .order_by(Response.id)
    )
    of_finished = set(finished)
    for person, triplet, is_swapped, *systems, preferred in rows:
        if person not in of_finished:
            continue
        judges[triplet].add(person)
        shown = tuple(reversed(systems)) if is_swapped else tuple(systems)
        share = WON[preferred]
        pair = (min(shown), max(shown))
        won[pair][person].append(share if shown == pair else 1 - share)
    return WinShares(
        by_pair={
            pair: [
                (sum(own[person]) / len(own[person]), len(own[person]))
                for person in finished
                if person in own
            ]
            for pair, own in won.items()
        },
        n_finished=len(finished),
        n_unfinished=count_started(session, study) - len(finished),
        n_triplets=len(judges),
        n_shared=sum(len(people) > 1 for people in judges.values()),
    )


def finished_participants(session: Session, study: Study) -> list[int]:
    """The database keys of the participants who answered everything, in the order of finishing.

    Without times, as in imported studies, in the order of the participants.
    """
    rows = session.execute(
        select(Participant.id, Question.reassigned, Response.revision, Response.submitted_at)
        .select_from(Form)
        .join(Question, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(Response, (Response.question_id == Question.id) & (Response.revision == 1))
        .where(Form.study_id == study.id, Participant.status != "excluded")
    )
    finished_at: dict[int, datetime] = defaultdict(lambda: UNKNOWN)
    unfinished = set()
    for person, is_reassigned, revision, at in rows:
        finished_at[person] = max(finished_at[person], at or UNKNOWN)
        if is_reassigned or revision is None:
            unfinished.add(person)
    return sorted(finished_at.keys() - unfinished, key=lambda person: (finished_at[person], person))


def count_started(session: Session, study: Study) -> int:
    """The number of participants who have answered something and are not excluded."""
    people = (
        select(func.count(func.distinct(Participant.id)))
        .join(Form, Form.participant_id == Participant.id)
        .join(Question, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Participant.status != "excluded", IS_ANSWERED)
    )
    return session.scalar(people) or 0


def compared_systems(session: Session, study: Study) -> list[SystemPair]:
    """Every two systems that the study's questions compare, whether answered or not."""
    rows = session.execute(
        comparing(study).with_only_columns(_system_1.name, _system_2.name).distinct()
    )
    return sorted({(min(names), max(names)) for names in rows})


def comparing(study: Study) -> Select[int]:
    """The questions that compare two different systems, without checks."""
    return (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(_first, Pair.first_id == _first.id)
        .join(_second, Pair.second_id == _second.id)
        .join(_system_1, _first.system_id == _system_1.id)
        .join(_system_2, _second.system_id == _system_2.id)
        .where(Form.study_id == study.id, _system_1.id != _system_2.id, ~IS_CHECK)
    )
