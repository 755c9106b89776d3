"""How metrics agree with a release's held-out answers, on the same resampled participants."""

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
class HeldOut:
    """The agreement on the held-out part for one seed.

    Attributes:
        rhos: Spearman's rho of each metric, over all held-out sets.
        resampled: rho of each metric on each resample, which all metrics share.
        n_sets: of the held-out part.
        n_participants: who scored these sets.
    """

    rhos: dict[str, float]
    resampled: dict[str, NDArray[np.float64]]
    n_sets: int
    n_participants: int


def measure_held_out(release: Path, metrics: Sequence[str]) -> HeldOut:
    """Correlate each metric with the scores of the held-out sets."""
    complete = read_release(release)
    parts = verify_no_leak(release)
    held_out = complete.preferences["question_id"].map(parts) == "test"
    data = complete.subset(held_out)
    ids = data.sets["set_id"]
    values = {name: parse_metric(name).values(complete)[ids].to_numpy() for name in metrics}
    table = np.vstack([*values.values(), data.sets["score"].to_numpy(dtype=float)])  # [M + 1, n]
    return HeldOut(
        rhos=dict(zip(values, rank_correlations(table).tolist(), strict=True)),
        resampled=resampled(values, data.sets, np.random.default_rng(0)),
        n_sets=len(data.sets),
        n_participants=data.n_participants,
    )


def mean_agreement(by_seed: Sequence[HeldOut], name: str) -> dict[str, Any]:
    """Return a metric's rho, averaged over seeds, with its interval."""
    return {
        "rho": float(np.mean([agreement.rhos[name] for agreement in by_seed])),
        "ci": interval(np.mean([agreement.resampled[name] for agreement in by_seed], axis=0)),
    }


def mean_difference(by_seed: Sequence[HeldOut], higher: str, lower: str) -> dict[str, Any]:
    """Return the paired difference of two metrics' rhos, averaged over seeds, with its interval."""
    return {
        "value": float(
            np.mean([agreement.rhos[higher] - agreement.rhos[lower] for agreement in by_seed])
        ),
        "ci": interval(
            np.mean(
                [agreement.resampled[higher] - agreement.resampled[lower] for agreement in by_seed],
                axis=0,
            )
        ),
    }
