"""Values as ranks: their numbers in increasing order, the mid-ranks, and sums over these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.json_results import FloatArray

COUNTED = 16
"""Whole numbers are counted, not sorted, if range / number of values is at most this."""


def value_numbers(values: NDArray[np.number[Any]]) -> NDArray[np.intp]:
    """The position of each value among the distinct values, from 0; values are (n,) and finite."""
    if len(values) == 0:
        return np.zeros(0, dtype=np.intp)
    low = values.min()
    if values.max() - low < COUNTED * len(values):
        shifted = (values - low).astype(np.intp)
        if np.array_equal(shifted + low, values):
            numbers = np.cumsum(np.bincount(shifted) > 0) - 1
            return np.asarray(numbers[shifted], dtype=np.intp)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp)


def as_numbers(values: pd.Series[float]) -> pd.Series[float]:
    """The values replaced by their `value_numbers`; NaN stays NaN.

    Statistics that depend on the order of values alone do not change, and are computed faster.
    """
    defined = values.notna().to_numpy()
    numbers = np.full(len(values), np.nan)
    numbers[defined] = value_numbers(values.to_numpy(dtype=np.float64)[defined])
    return pd.Series(numbers, index=values.index, name=values.name)


def mid_ranks(numbers: NDArray[np.intp]) -> FloatArray:
    """The rank of each value from 1, equal ones sharing the mean, from `value_numbers`."""
    counts = np.bincount(numbers)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[numbers]
    return ranks


def centred_ranks(weights: FloatArray) -> FloatArray:
    """The mid-rank of each run less the mean rank, (b, runs): half of below less above."""
    below = np.cumsum(weights, axis=1)
    total = below[:, -1:].copy()
    below -= (weights + total) / 2
    return below


def squared_ranks(weights: FloatArray) -> FloatArray:
    """The sum of the squared centred mid-ranks: (N^3 - sum of the runs' cubes) / 12."""
    cubes = np.einsum("bi,bi,bi->b", weights, weights, weights)
    return np.asarray((weights.sum(axis=1) ** 3 - cubes) / 12)


def rank_correlation(x: NDArray[np.intp], y: NDArray[np.intp]) -> float:
    """Spearman's rho of two variables given as `value_numbers`; NaN if one has only one value."""
    product = (mid_ranks(x) - (len(x) + 1) / 2) @ (mid_ranks(y) - (len(y) + 1) / 2)
    squares = [squared_ranks(np.bincount(each)[None].astype(np.float64)) for each in (x, y)]
    return float(correlation(np.array([product]), *squares)[0])


def correlation(product: FloatArray, squares_x: FloatArray, squares_y: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: FloatArray = product / np.sqrt(squares_x * squares_y)
    return rho
