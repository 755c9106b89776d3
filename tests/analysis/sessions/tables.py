"""Tables of sessions for the tests, as `hsfiq.analysis.sessions.measure` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hsfiq.analysis.sessions.measure import SessionAnalysis, measure_rows
from hsfiq.analysis.sessions.ranks import Rules

Ranks = Sequence[int | None]


def measured(
    systems: Mapping[str, Mapping[str, Ranks]],
    rules: Rules,
    *,
    depth: int = 10,
    n_resamples: int = 20,
    rounds: Mapping[str, Any] | None = None,
    **session: Any,
) -> SessionAnalysis:
    """Measure sessions that are given as their ranks, by system and query.

    `rounds` and `session` are further columns, the same for all.
    """
    session_rows, round_rows = [], []
    for system, by_query in systems.items():
        for query, ranks in by_query.items():
            name = {"system": system, "session_id": query}
            session_rows.append({**name, "query_id": query, "has_target": True, **session})
            round_rows += [
                {**name, "round": number, "rank": rank, "ties": 0, "depth": depth, "words": 2}
                | {"reference": f"{query}.{number}", "is_repeated_text": False, **(rounds or {})}
                for number, rank in enumerate(ranks, start=1)
            ]
    return measure_rows(session_rows, round_rows, rules, {}, n_resamples=n_resamples)


def random_ranks(seed: int, n: int, n_rounds: int) -> dict[str, list[int | None]]:
    """Sessions of 1 to `n_rounds` rounds with ranks from 1 to 12."""
    rng = np.random.default_rng(seed)
    return {
        f"q{query}": [int(rank) for rank in rng.integers(1, 13, rng.integers(1, n_rounds + 1))]
        for query in range(n)
    }
