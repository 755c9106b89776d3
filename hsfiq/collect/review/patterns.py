"""Figures of one participant's answers by which an owner notices careless ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import contradicts
from hsfiq.collect.progress import AnswerRow, summary_of
from hsfiq.collect.review.people_shown import Shown, among
from hsfiq.db.tables import Form, Participant, Question, Response, Study

Images = tuple[int, ...]
Choice = tuple[object, ...]

FAST_SECONDS, FEWEST_FAST = 2.0, 3
"""So many answers in less active time each are a reason to look at a participant."""
LONG_RUN = 10
"""So are this many equal answers in a row; the filter `straight-lining` drops as many."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """How a participant answered; checks count in `longest_run` and the seconds only.

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
    choices = [(answer.scores, answer.preferred, answer.judgement) for answer in own]
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


def longest_run(choices: Iterable[Choice]) -> int:
    """The length of the longest run of one choice, whatever was shown."""
    return max((len(list(run)) for _, run in groupby(choices)), default=0)


def flags_of(
    session: Session, study: Study, shown: Shown | None = None
) -> dict[int, tuple[str, ...]]:
    """Why to look at a participant, in words, by database key; nobody else is in it.

    Those of all participants, or of those whose keys are `shown`; not of excluded ones, who have
    been looked at.
    """
    rows = session.execute(
        select(
            Form.participant_id, Question.id, Response.active_seconds, Response.skipped,
            Response.score_1, Response.score_2, Response.preferred, Response.judgement,
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
            _, _, _, skipped, *scores, preferred, judgement = revisions[-1]
            if skipped is None:
                seconds.append(revisions[0].active_seconds)
                choices.append((*scores, preferred, summary_of(study, judgement)))
        if reasons := reasons_to_look(seconds, choices):
            flags[person] = reasons
    return flags


def reasons_to_look(seconds: Sequence[float | None], choices: Sequence[Choice]) -> tuple[str, ...]:
    """What stands out in somebody's answers, in their order; unknown times do not count."""
    n_fast = sum(spent is not None and spent < FAST_SECONDS for spent in seconds)
    run = longest_run(choices)
    reasons = []
    if n_fast >= FEWEST_FAST:
        reasons.append(f"{n_fast} of {len(seconds)} answers in less than {FAST_SECONDS:g} s")
    if run >= LONG_RUN:
        reasons.append(f"{run} equal answers in a row")
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
