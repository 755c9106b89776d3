"""The owner's review: patterns in answers, notes, and how often people preferred a system."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import Float, Select, case, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.actors import Action, Actor
from hsfiq.answer_rules import SPENT, WATCHED_ERROR, contradicts, error_of_study
from hsfiq.audit import count_deleted_with_answers, record
from hsfiq.collect.leases import IS_ANSWERED, IS_CHECK
from hsfiq.collect.participants import Shown, among, by_name
from hsfiq.collect.progress import (
    IS_LATEST,
    AnswerRow,
    judgement_columns,
    judgement_of,
    literal_keys,
    summary_of,
)
from hsfiq.collect.question_history import find_question
from hsfiq.collect.studies import lock_study
from hsfiq.db.engine import added
from hsfiq.db.source_tables import Image, Query, System, Triplet
from hsfiq.db.studio_tables import AnswerNote, ReviewedAnswer, Unblinding
from hsfiq.db.tables import (
    Form,
    Pair,
    Participant,
    Question,
    Response,
    RetrievedSet,
    Study,
)
from hsfiq.errors import Refused
from hsfiq.ids import question_id
from hsfiq.text import count_text, is_blank, is_storable_text

# Figures of one participant's answers by which an owner notices careless ones.

Images = tuple[int, ...]
Choice = Mapping[str, Any]

FAST_SECONDS, FEWEST_FAST = 2.0, 3
"""This number of faster answers is a reason to review a participant."""
LONG_RUN = 10
"""This number of equal answers in a row is another reason; the filter `straight-lining` has the
same default."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """The answer pattern of a participant; checks count only in `longest_run` and the seconds.

    Attributes:
        longest_run: the length of the longest run of equal answers in a row.
        preferred: how often neither set, set 1 and set 2 was preferred.
        contradictions: answers that prefer the set with the lower score.
        n_compared: pairs of an answer of theirs and one by another participant about the same two
            different sets; in `n_same` of them both prefer the same set, or neither.
    """

    n_answers: int
    fastest_seconds: float | None
    median_seconds: float | None
    longest_run: int
    preferred: tuple[int, int, int]
    contradictions: int
    n_compared: int
    n_same: int


def patterns_of(answers: Iterable[AnswerRow], participant: str) -> Patterns:
    """The figures of a participant among the study's answers, without skipped questions."""
    given = [answer for answer in answers if not answer.skipped]
    own = sorted(
        (answer for answer in given if answer.participant == participant),
        key=attrgetter("position"),
    )
    judged = [answer for answer in own if answer.check is None]
    seconds = [answer.active_seconds for answer in own if answer.active_seconds is not None]
    choices = [chosen(answer.values) for answer in own]
    sides = Counter(answer.preferred for answer in judged)
    n_compared, n_same = agreement_with_others(judged, given)
    return Patterns(
        n_answers=len(judged),
        fastest_seconds=min(seconds, default=None),
        median_seconds=median(seconds) if seconds else None,
        longest_run=longest_run(choices),
        preferred=(sides[0], sides[1], sides[2]),
        contradictions=sum(map(is_contradiction, judged)),
        n_compared=n_compared,
        n_same=n_same,
    )


def chosen(judgement: Mapping[str, Any] | None) -> Choice:
    """A judgement without the extra questions."""
    return {name: value for name, value in (judgement or {}).items() if name != "confirmed"}


def longest_run(choices: Iterable[Choice]) -> int:
    """The length of the longest run of one choice, whatever was shown."""
    return max((len(list(run)) for _, run in groupby(choices)), default=0)


def flags_of(
    session: Session, study: Study, shown: Shown | None = None
) -> dict[int, tuple[Reason, ...]]:
    """The reasons to review a participant, by database key; other participants are absent.

    Those of all participants, or of those whose keys are `shown`; not of excluded ones, who have
    been looked at.
    """
    rows = session.execute(
        select(
            Form.participant_id, Question.id, Response.active_seconds, Response.skipped,
            *judgement_columns(study),
        )
        .join(Participant, Form.participant_id == Participant.id)
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(
            Form.study_id == study.id,
            Participant.status != "excluded",
            among(Form.participant_id, shown),
        )
        .order_by(Form.participant_id, Form.position, Question.place, Response.revision)
        .execution_options(yield_per=10_000)
    )  # fmt: skip
    flags = {}
    for person, own in groupby(rows, key=itemgetter(0)):
        seconds: list[float | None] = []
        choices: list[Choice] = []
        for _, grouped in groupby(own, key=itemgetter(1)):
            revisions = list(grouped)
            if revisions[-1].skipped is None:
                seconds.append(revisions[0].active_seconds)
                choices.append(chosen(judgement_of(study, revisions[-1])))
        if reasons := reasons_to_look(seconds, choices):
            flags[person] = reasons
    return flags


class Reason(NamedTuple):
    """A reason to review a participant: a text with names in braces, and their values."""

    text: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text.format_map(self.values)


def reasons_to_look(
    seconds: Sequence[float | None], choices: Sequence[Choice]
) -> tuple[Reason, ...]:
    """The notable patterns in a participant's answers, in order; unknown times do not count."""
    n_fast = sum(spent is not None and spent < FAST_SECONDS for spent in seconds)
    run = longest_run(choices)
    reasons = []
    if n_fast >= FEWEST_FAST:
        values = {"n": n_fast, "total": len(seconds), "seconds": f"{FAST_SECONDS:g}"}
        reasons.append(Reason("{n} of {total} answers in less than {seconds} s", values))
    if run >= LONG_RUN:
        reasons.append(Reason("{n} equal answers in a row", {"n": run}))
    return tuple(reasons)


def is_contradiction(answer: AnswerRow) -> bool:
    if answer.scores is None or answer.preferred is None:
        return False
    return contradicts(answer.preferred, *answer.scores)


def agreement_with_others(own: Sequence[AnswerRow], given: Iterable[AnswerRow]) -> tuple[int, int]:
    """The number of comparisons with others, and of those with the same preference."""
    others: dict[tuple[int, frozenset[Images]], list[AnswerRow]] = defaultdict(list)
    for answer in given:
        if answer.counts and answer.check is None and answer.preferred is not None:
            others[answer.triplet, frozenset(answer.sets)].append(answer)
    comparisons = [
        preferred_images(answer) == preferred_images(other)
        for answer in own
        if answer.preferred is not None and len(set(answer.sets)) == 2
        for other in others[answer.triplet, frozenset(answer.sets)]
        if other.participant != answer.participant
    ]
    return len(comparisons), sum(comparisons)


def preferred_images(answer: AnswerRow) -> Images | None:
    """The images of the preferred set, None for a tie."""
    return answer.sets[answer.preferred - 1] if answer.preferred else None


# How often each participant preferred one system to another, in the order of finishing.

SystemPair = tuple[str, str]

UNKNOWN = datetime.min.replace(tzinfo=UTC)

HAS_OPEN = func.max(case((Question.reassigned | Response.revision.is_(None), 1), else_=0))
"""1 for a participant with a question that is unanswered or was reassigned."""

_first, _second = aliased(RetrievedSet), aliased(RetrievedSet)
_system_1, _system_2 = aliased(System), aliased(System)


@dataclass(frozen=True, slots=True)
class WinShares:
    """The preferences of finished participants.

    Attributes:
        by_pair: for every two systems that the study compares, by name, each participant's share
            of preferences for the first (ties as half) and number of answers about the two.
        n_unfinished: participants who have answered something but not everything.
        n_triplets: the triplets that are judged; `n_shared` of them by several people.
        n_earlier: the studies that compared some of the systems before, also deleted ones.
    """

    by_pair: dict[SystemPair, list[tuple[float, int]]]
    n_finished: int
    n_unfinished: int
    n_triplets: int
    n_shared: int
    n_earlier: int = 0

    def facts(self) -> dict[str, int]:
        """The counts."""
        return {key: value for key, value in asdict(self).items() if key != "by_pair"}

    def notes(self) -> list[str]:
        """The validity of the intervals of these shares, in words."""
        n_pairs = len(self.by_pair)
        which = "the interval" if n_pairs == 1 else f"any of the {n_pairs:,} intervals"
        error = error_of_study(self.n_earlier)
        left = error * (1 - SPENT) / SPENT
        often = "however often you look, so you may stop at any time."
        again = f"A new study of these systems has {100 * left:.2g}% left: better extend this one."
        notes = [
            f"The chance that {which} is ever wrong is at most {100 * error:.2g}%, {often} {again}"
        ]
        if self.n_earlier:
            notes.append(
                f"{count_text(self.n_earlier, 'earlier study', 'earlier studies')} compared these "
                f"systems and spent {100 * (WATCHED_ERROR - error - left):.4g}% of the 5% that all "
                "studies of them have together."
            )
        if self.n_shared:
            notes.append(
                f"{self.n_shared:,} of {self.n_triplets:,} triplets were judged by several people. "
                'So the claim is "for these queries": the intervals hold for the study\'s own '
                "queries, not for others."
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
    finished, compared = finished_participants(session, study), compared_systems(session, study)
    won = wins_by_pair(session.execute(wins_of_people(study)))
    n_triplets, n_shared = count_triplets(session, study)
    systems = {system for pair in compared for system in pair}
    return WinShares(
        by_pair={
            pair: [
                (won[pair][person][0] / won[pair][person][1], won[pair][person][1])
                for person in finished
                if person in won[pair]
            ]
            for pair in compared
        },
        n_finished=len(finished),
        n_unfinished=count_started(session, study) - len(finished),
        n_triplets=n_triplets,
        n_shared=n_shared,
        n_earlier=count_earlier(session, study, systems),
    )


def count_earlier(session: Session, study: Study, systems: set[str]) -> int:
    """The older studies with answers about two of these systems, on the same datasets.

    Deleted ones count if they had answers and the name of this study. Imported studies were not
    watched here, and simulated ones do not count for studies of people.
    """
    datasets = (
        select(Triplet.dataset_id)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(Pair, Pair.query_id == Query.id)
        .where(Pair.study_id == study.id)
    )
    older = select(Study).where(Study.id < study.id, Study.origin == study.origin)
    older = older.where(Study.origin != "imported")
    compared = [
        judged(each)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .where(_system_1.name.in_(systems), _system_2.name.in_(systems))
        .where(Triplet.dataset_id.in_(datasets))
        .limit(1)
        for each in session.scalars(older)
    ]
    n_kept = sum(session.scalar(first) is not None for first in compared)
    return n_kept + count_deleted_with_answers(session, study.name)


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


def wins_by_pair(rows: Iterable[Any]) -> dict[SystemPair, dict[int, tuple[float, int]]]:
    """Rows of `wins_of_people` by the two systems' names, sorted, then by participant."""
    won: dict[SystemPair, dict[int, tuple[float, int]]] = defaultdict(dict)
    for person, first, second, share, number in rows:
        pair = (min(first, second), max(first, second))
        before, n_before = won[pair].get(person, (0.0, 0))
        gained = share if pair == (first, second) else number - share
        won[pair][person] = (before + gained, n_before + number)
    return won


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


# Notes about participants and their answers, and answers that somebody has looked at.

LONGEST_NOTE = 2000


def add_note(
    session: Session, study: Study, actor: Actor, about: str, text: str, now: datetime
) -> AnswerNote:
    """Write a note about a participant, or about an answer: `p3` or `p3.form_1.0`.

    `Refused` if neither exists, or the note is empty or too long.
    """
    text = text.strip()
    if is_blank(text) or len(text) > LONGEST_NOTE or not is_storable_text(text):
        raise Refused(f"a note must have 1 to {LONGEST_NOTE:,} characters")
    person, question = subject_of(session, study, about)
    same = AnswerNote.written_by == actor.name, AnswerNote.text == text
    of_subject = select(AnswerNote).where(AnswerNote.participant_id == person, *same)
    of_subject = of_subject.where(AnswerNote.question_id.is_not_distinct_from(question))
    if known := session.scalar(of_subject.limit(1)):  # its reply did not arrive
        return known
    record(session, actor, Action.PARTICIPANT_NOTE, study=study.name, about=about)
    note = AnswerNote(
        study_id=study.id, participant_id=person, question_id=question, text=text,
        written_by=actor.name, written_at=now,
    )  # fmt: skip
    return added(session, note)


def subject_of(session: Session, study: Study, about: str) -> tuple[int | None, int | None]:
    """The keys of a participant, and of the answer if `about` is one; or `Refused`."""
    question = find_question(session, study, about)
    if question is None:
        return by_name(session, study, about).id, None
    return session.get_one(Question, question).form.participant_id, question


def delete_note(
    session: Session, study: Study, actor: Actor, key: int, *, may_delete_all: bool
) -> None:
    """Delete a note; `Refused` unless the actor has written it, or may delete all."""
    note = session.get(AnswerNote, key) if 0 < key < 2**31 else None
    if note is None or note.study_id != study.id:
        raise Refused(f"study {study.name} has no note {key}")
    if note.written_by != actor.name and not may_delete_all:
        raise Refused(f"{note.written_by} has written this note")
    person = session.get_one(Participant, note.participant_id)
    about = f"{person.name}: deleted"
    record(session, actor, Action.PARTICIPANT_NOTE, study=study.name, about=about)
    session.delete(note)


def notes_on(session: Session, study: Study, people: Iterable[int]) -> Sequence[AnswerNote]:
    """The notes on these participants (database keys) and on their answers, oldest first."""
    return session.scalars(
        select(AnswerNote)
        .where(AnswerNote.study_id == study.id, AnswerNote.participant_id.in_(people))
        .order_by(AnswerNote.id)
    ).all()


def notes_about(session: Session, study: Study, about: str) -> list[AnswerNote]:
    """The notes on a participant and their answers, or on one answer."""
    person, question = subject_of(session, study, about)
    notes = notes_on(session, study, [person or 0])
    return [note for note in notes if question in (None, note.question_id)]


def mark_reviewed(
    session: Session, study: Study, actor: Actor, answer: str, now: datetime, *, done: bool = True
) -> None:
    """Record that an answer was reviewed, or must be reviewed again."""
    key = find_question(session, study, answer)
    if key is None:
        raise Refused(f"study {study.name} has no answer {answer[:80]!r}")
    lock_study(session, study.id)
    kept = session.scalar(select(ReviewedAnswer).where(ReviewedAnswer.question_id == key))
    if (kept is not None) == done:
        return
    if kept is not None:
        session.delete(kept)
    else:
        row = {"study_id": study.id, "question_id": key}
        session.add(ReviewedAnswer(**row, reviewed_by=actor.name, reviewed_at=now))
    about = answer if done else f"{answer}: again"
    record(session, actor, Action.PARTICIPANT_REVIEW, study=study.name, about=about)


def reviewed_questions(session: Session, study: Study) -> set[int]:
    """The questions with reviewed answers, by database key."""
    reviewed = select(ReviewedAnswer.question_id).where(ReviewedAnswer.study_id == study.id)
    return set(session.scalars(reviewed))


@dataclass(frozen=True, slots=True)
class CommentedAnswer:
    """An answer that is flagged, or has a comment; `image` is the token of the query's image."""

    key: int
    question_id: str
    participant_id: int
    participant: str
    text: str
    image: str | None
    comment: str
    is_flagged: bool
    summary: str
    submitted_at: datetime | None


def commented_answers(
    session: Session, study: Study, questions: Sequence[int]
) -> list[CommentedAnswer]:
    """The latest answers to these questions (database keys), in their order."""
    rows = session.execute(
        select(
            Question.id, Question.place, Question.text.label("own_text"), Query.text,
            Form.name.label("form"), Form.participant_id, Participant.name, Image.token,
            Response.reason, Response.irrelevant, Response.submitted_at, *judgement_columns(study),
        )
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .outerjoin(Image, Triplet.reference_id == Image.id)
        .join(Response, Response.question_id == Question.id)
        .where(Question.id.in_(literal_keys(questions)), Form.study_id == study.id, IS_LATEST)
    )  # fmt: skip
    found = {
        row.id: CommentedAnswer(
            key=row.id,
            question_id=question_id(row.name, row.form or "", row.place),
            participant_id=row.participant_id,
            participant=row.name,
            text=row.own_text or row.text,
            image=row.token,
            comment=row.reason or "",
            is_flagged=bool(row.irrelevant),
            summary=summary_of(study, judgement_of(study, row)) or "",
            submitted_at=row.submitted_at,
        )
        for row in rows
    }
    return [found[key] for key in questions if key in found]


# Results by system before a study is closed.


def unblinding_of(session: Session, study: Study) -> Unblinding | None:
    """The actor who showed results by system before the study was closed."""
    return session.scalar(select(Unblinding).where(Unblinding.study_id == study.id))


def hides_results(session: Session, study: Study) -> bool:
    """Whether results by system are hidden: until the study is closed, or the owner shows them."""
    is_running = study.origin == "collected" and study.status != "closed"
    return is_running and unblinding_of(session, study) is None


def unblind(session: Session, study: Study, actor: Actor, now: datetime) -> None:
    """Show results by system, which cannot be undone; `Refused` if they are already shown."""
    lock_study(session, study.id)
    if not hides_results(session, study):
        raise Refused("results by system are not hidden")
    session.add(Unblinding(study_id=study.id, shown_by=actor.name, shown_at=now))
    record(session, actor, Action.STUDY_UNBLIND, study=study.name)
