"""Straight-lining: the same answer again and again.

An answer is both scores and the preferred set. Both figures are descriptions, not proof: a short
study with clear questions has long runs, too.
"""

from __future__ import annotations

import pandas as pd

ANSWER = ["score_1", "score_2", "preferred"]


def straight_lining(preferences: pd.DataFrame) -> pd.DataFrame:
    """Each participant's `longest_run` of one answer and `modal_share`, indexed by participant.

    A run stays within a form; `modal_share` is the share of the most frequent answer. The
    preferences must be in the order in which participants answered them.
    """
    keys = ["participant_id", *(["form"] if "form" in preferences else [])]
    answers = preferences[[*keys, *ANSWER]].reset_index(drop=True)
    is_new = answers.ne(answers.shift()).any(axis=1)
    people = answers["participant_id"]
    runs = answers.groupby([people, is_new.cumsum()]).size()
    counts = answers.groupby(["participant_id", *ANSWER]).size().groupby("participant_id")
    return pd.DataFrame(
        {
            "longest_run": runs.groupby("participant_id").max().astype("float64"),
            "modal_share": counts.max() / counts.sum(),
        }
    )
