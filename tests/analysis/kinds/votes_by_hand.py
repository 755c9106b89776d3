"""Votes that tests write down."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pandas as pd

Vote = tuple[str, int, str, str, str, int]
"""Session, turn, participant, the two systems, and the preference; 3 means both bad."""


def table(votes: Sequence[Vote]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "question_id": session,
                "turn": turn,
                "participant_id": participant,
                "query_id": f"q-{session}",
                "triplet_id": f"t-{session}",
                "system_1": system_1,
                "system_2": system_2,
                "preference": 0 if preference == 3 else preference,
                "both_bad": preference == 3,
            }
            for session, turn, participant, system_1, system_2, preference in votes
        ],
        columns=[
            *("question_id", "turn", "participant_id", "query_id", "triplet_id"),
            *("system_1", "system_2", "preference", "both_bad"),
        ],
    )


def drawn(
    strengths: dict[str, float], n_participants: int, seed: int = 0, n_turns: int = 3
) -> pd.DataFrame:
    """Votes of participants who each search once for every two systems, by Davidson's model."""
    rng, names, votes = Random(seed), list(strengths), []
    for person in range(n_participants):
        for i in range(len(names)):
            for j in range(i):
                pair = [names[i], names[j]]
                rng.shuffle(pair)
                x = strengths[pair[0]] - strengths[pair[1]] + 0.3
                terms = [np.exp(x / 2), np.exp(-x / 2), 0.4, 0.2]
                for turn in range(1, n_turns + 1):
                    preference = rng.choices((1, 2, 0, 3), terms)[0]
                    votes.append((f"p{person}.{i}.{j}", turn, f"p{person}", *pair, preference))
    return table(votes)  # type: ignore[arg-type]
