"""Figures of one participant's answers by which an owner notices careless ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import median

from hsfiq.answer_rules import contradicts
from hsfiq.collect.progress import AnswerRow

Images = tuple[int, ...]


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
    sides = Counter(answer.preferred for answer in judged)
    n_compared, n_same = agreement_with_others(judged, given)
    return Patterns(
        n_answers=len(judged),
        fastest_seconds=min(seconds, default=None),
        median_seconds=median(seconds) if seconds else None,
        longest_run=max((len(list(run)) for _, run in groupby(own, key=choice_of)), default=0),
        preferred=(sides[0], sides[1], sides[2]),
        contradictions=sum(map(is_contradiction, judged)),
        n_compared=n_compared,
        n_same=n_same,
    )


def choice_of(answer: AnswerRow) -> tuple[object, ...]:
    """What was chosen, whatever was shown."""
    return answer.scores, answer.preferred, answer.judgement


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
