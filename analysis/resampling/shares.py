"""Shares of the rows that fulfil a condition, in every resample at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws


def shares(
    hits: NDArray[np.float64], counts: NDArray[np.float64] | NDArray[np.int64]
) -> NDArray[np.float64]:
    """Divide hits by counts, of equal shapes; NaN where nothing was counted."""
    found: NDArray[np.float64] = np.divide(
        hits, counts, out=np.full(counts.shape, np.nan), where=counts > 0
    )
    return found


def resampled_shares(
    draws: Draws, rows: pd.DataFrame, hits: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Measure several shares of the same rows in each resample.

    Args:
        draws: the resamples.
        rows: (n, ...) with `participant_id` and `query_id`.
        hits: (n, m), what each row adds to each share's hits, from 0 to what it counts.
        counts: (n, m), what it counts there: 1 where it fulfils the share's condition, else 0.

    Returns:
        (n_resamples, m); NaN where a resample has no row that fulfils the condition.
    """
    totals = draws.totals(rows, np.concatenate([hits, counts], axis=1).astype(np.float64))
    m = hits.shape[1]
    return shares(totals[:, :m], totals[:, m:])
