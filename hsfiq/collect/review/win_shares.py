"""How often each participant preferred one system to another, in the order of finishing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from sqlalchemy import Float, Select, case, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.leases import IS_ANSWERED, IS_CHECK
from hsfiq.collect.progress import IS_LATEST
from hsfiq.db.source_tables import Query, System
from hsfiq.db.tables import Form, Pair, Participant, Question, Response, RetrievedSet, Study

SystemPair = tuple[str, str]

UNKNOWN = datetime.min.replace(tzinfo=UTC)

HAS_OPEN = func.max(case((Question.reassigned | Response.revision.is_(None), 1), else_=0))
"""1 for a participant with a question that is unanswered or was reassigned."""

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
    of_finished = set(finished)
    won: dict[SystemPair, dict[int, tuple[float, int]]] = {
        pair: {} for pair in compared_systems(session, study)
    }
    for person, first, second, share, number in session.execute(wins_of_people(study)):
        if person in of_finished:
            pair = (min(first, second), max(first, second))
            before, n_before = won[pair].get(person, (0.0, 0))
            gained = share if pair == (first, second) else number - share
            won[pair][person] = (before + gained, n_before + number)
    n_triplets, n_shared = count_triplets(session, study)
    return WinShares(
        by_pair={
            pair: [
                (own[person][0] / own[person][1], own[person][1])
                for person in finished
                if person in own
            ]
            for pair, own in won.items()
        },
        n_finished=len(finished),
        n_unfinished=count_started(session, study) - len(finished),
        n_triplets=n_triplets,
        n_shared=n_shared,
    )


def wins_of_people(study: Study) -> Select[int | None, str, str, float, int]:
    """For each participant and two systems, what the first one's sets have won, and of how many."""
    won = case(
        (Response.preferred == 0, 0.5),
        (Response.preferred == case((Question.swapped, 2), else_=1), 1.0),
        else_=0.0,
    )
    return (
        judged(study)
        .with_only_columns(
            Form.participant_id,
            _system_1.name,
            _system_2.name,
            func.sum(won, type_=Float()),
            func.count(),
        )
        .where(Form.participant_id.is_not(None))
        .group_by(Form.participant_id, _system_1.name, _system_2.name)
    )


def judged(study: Study) -> Select[int]:
    """The latest preferences between two systems."""
    return (
        comparing(study)
        .join(Response, Response.question_id == Question.id)
        .where(IS_LATEST, Response.preferred.is_not(None))
    )


def count_triplets(session: Session, study: Study) -> tuple[int, int]:
    """The triplets that finished participants have judged, and how many of them several have."""
    finished = people_and_ends(study).having(HAS_OPEN == 0).with_only_columns(Participant.id)
    n_judges = (
        judged(study)
        .with_only_columns(func.count(func.distinct(Form.participant_id)).label("people"))
        .where(Form.participant_id.in_(finished))
        .group_by(Query.triplet_id)
        .subquery()
    )
    is_shared = case((n_judges.c.people > 1, 1), else_=0)
    counts = select(func.count(), func.sum(is_shared)).select_from(n_judges)
    n_triplets, n_shared = session.execute(counts).one()
    return n_triplets, n_shared or 0


def finished_participants(session: Session, study: Study) -> list[int]:
    """The database keys of the participants who answered everything, in the order of finishing.

    Without times, as in imported studies, in the order of the participants.
    """
    rows = session.execute(people_and_ends(study).having(HAS_OPEN == 0))
    finished_at = {person: at or UNKNOWN for person, at in rows}
    return sorted(finished_at, key=lambda person: (finished_at[person], person))


def people_and_ends(study: Study) -> Select[int, datetime | None]:
    """The participants who are not excluded, with the time of the last first answer."""
    return (
        select(Participant.id, func.max(Response.submitted_at))
        .select_from(Form)
        .join(Question, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(Response, (Response.question_id == Question.id) & (Response.revision == 1))
        .where(Form.study_id == study.id, Participant.status != "excluded")
        .group_by(Participant.id)
    )


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
