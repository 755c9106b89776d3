"""`hsfiq.analysis` imports no other package: its contradiction rule equals that of `hsfiq`."""

from __future__ import annotations

from itertools import product

import pandas as pd

from hsfiq import answer_rules
from hsfiq.analysis.data.columns import contradicts
from hsfiq.answer_rules import MOST_POINTS
from tests.studies import pair_answer


def test_both_packages_agree_on_every_possible_answer() -> None:
    scores = range(1, MOST_POINTS + 1)
    answers = [pair_answer(*values) for values in product(scores, scores, (0, 1, 2))]
    table = pd.DataFrame(
        {
            "score_1": [answer.values["score_1"] for answer in answers],
            "score_2": [answer.values["score_2"] for answer in answers],
            "preferred": [answer.values["preferred"] for answer in answers],
        }
    )
    expected = [
        answer_rules.contradicts(
            answer.values["preferred"], answer.values["score_1"], answer.values["score_2"]
        )
        for answer in answers
    ]
    assert list(contradicts(table)) == expected
    assert sum(expected) == MOST_POINTS * (MOST_POINTS - 1)
