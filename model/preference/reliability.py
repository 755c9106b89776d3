"""How much participants weigh in a retraining, by how seldom they contradict themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from hsfiq.model.preference.data import Question
from hsfiq.releases.reader import read_exclusions

PRIOR_ANSWERS = 20.0
"""As many answers of the average participant are added to each one's own."""


def even(questions: Sequence[Question]) -> dict[str, float]:
    """Every participant weighs the same."""
    return {it.participant: 1.0 for it in questions}


def reliabilities(questions: Sequence[Question], dropped: Mapping[str, int]) -> dict[str, float]:
    """How much participants weigh by how seldom they contradict themselves.

    Who answers without looking prefers the set with the lower score in half of the questions with
    different scores. So twice the share of contradictions is about the share of such answers, and
    the weight what is left. The share is shrunk to that of all, by `PRIOR_ANSWERS` answers.

    Args:
        questions: those trained on.
        dropped: how many contradicting ones of each participant the release's filter took out.

    Returns:
        Weights from 0 to 1, by participant.
    """
    told, against = Counter[str](), Counter[str]()
    for it in questions:
        gap = it.scores[0] - it.scores[1]
        if gap and it.preferred:
            told[it.participant] += 1
            against[it.participant] += (gap > 0) != (it.preferred == 1)
    people = {it.participant for it in questions}
    for name in people:
        told[name] += dropped.get(name, 0)
        against[name] += dropped.get(name, 0)
    share = against.total() / max(1, told.total())
    return {
        name: max(
            0.0,
            1 - 2 * (against[name] + PRIOR_ANSWERS * share) / (told[name] + PRIOR_ANSWERS),
        )
        for name in sorted(people)
    }


def contradictions_dropped(release: Path) -> Counter[str]:
    """How many questions of each participant the filter dropped as contradicting."""
    return Counter(
        exclusion.participant_id
        for exclusion in read_exclusions(release)
        if exclusion.rule == "contradicts"
    )
