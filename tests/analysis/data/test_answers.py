"""`hsfiq.analysis` imports no other package: its contradiction rule equals that of `hsfiq`."""

from __future__ import annotations

from itertools import product

import pandas as pd

from hsfiq.analysis.data.columns import contradicts
from hsfiq.answer_rules import MOST_POINTS, Answer


def test_both_packages_agree_on_every_possible_answer() -> None:
    scores = range(1, MOST_POINTS + 1)
    answers = [Answer(*values) for values in product(scores, scores, (0, 1, 2))]
    table = pd.DataFrame(
        {
            "score_1": [answer.score_1 for answer in answers],
            "score_2": [answer.score_2 for answer in answers],
            "preferred": [answer.preferred for answer in answers],
        }
    )
    assert list(contradicts(table)) == [answer.contradicts for answer in answers]
    assert sum(answer.contradicts for answer in answers) == MOST_POINTS * (MOST_POINTS - 1)


def test_contradiction_of_hand_made_answers() -> None:
    assert Answer(2, 4, preferred=1).contradicts
    assert Answer(4, 2, preferred=2).contradicts
    assert not Answer(3, 3, preferred=1).contradicts
    assert not Answer(1, 5, preferred=0).contradicts
