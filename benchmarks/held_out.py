"""How metrics agree with the answers that a release holds out, on the same resamples of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.agreement import interval, rank_correlations, resampled
from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.release import read_release
from hsfiq.releases.splits import verify_no_leak


@dataclass(frozen=True)
class Held:
    """What was measured on the held-out part for one seed.

    Attributes:
        rhos: of each metric, over all held-out sets.
        drawn: of each metric, of the same resamples.
        n_sets: held-out sets.
        n_participants: who gave the answers to them.
    """

    rhos: dict[str, float]
    drawn: dict[str, NDArray[np.float64]]
    n_sets: int
    n_participants: int


def measured(release: Path, metrics: Sequence[str]) -> Held:
    """Correlate each metric with the scores of the held-out sets, by participants' resamples."""
    whole = read_release(release)
    parts = verify_no_leak(release)
    held_out = whole.preferences["question_id"].map(parts) == "test"
    data = whole.subset(held_out)
    ids = data.sets["set_id"]
    values = {name: parse_metric(name).values(whole)[ids].to_numpy() for name in metrics}
    table = np.vstack([*values.values(), data.sets["score"].to_numpy(dtype=float)])  # [M + 1, n]
    return Held(
        rhos=dict(zip(values, rank_correlations(table).tolist(), strict=True)),
        drawn=resampled(values, data.sets, np.random.default_rng(0)),
        n_sets=len(data.sets),
        n_participants=data.n_participants,
    )


def agreement_of(found: Sequence[Held], name: str) -> dict[str, Any]:
    """A metric's correlation, the mean over seeds, with its interval."""
    return {
        "rho": float(np.mean([it.rhos[name] for it in found])),
        "ci": interval(np.mean([it.drawn[name] for it in found], axis=0)),
    }


def difference_of(found: Sequence[Held], more: str, less: str) -> dict[str, Any]:
    """By how much one metric agrees more than another, the mean over seeds; paired."""
    return {
        "value": float(np.mean([it.rhos[more] - it.rhos[less] for it in found])),
        "ci": interval(np.mean([it.drawn[more] - it.drawn[less] for it in found], axis=0)),
    }
