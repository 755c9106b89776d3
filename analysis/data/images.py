"""The images of retrieved sets: lists of ids, held in one block of memory and compared as numbers.

A column of such lists may also hold Python lists, tuples or arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from hsfiq.analysis.data.ids import looked_up


def list_sizes(lists: pd.Series[Any]) -> NDArray[np.int64]:
    """The length of each list, (n,)."""
    lengths = _arrow_lists(lists).value_lengths().fill_null(0)
    sizes: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def are_lists(lists: pd.Series[Any]) -> bool:
    """Whether a column without nulls holds lists."""
    try:
        _arrow_lists(lists)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class ImageNumbers:
    """The images of n lists as numbers, the same for the same image.

    Attributes:
        by_rank: (n, size of the longest list); -1 after a list's last image.
        number_of: the number of each image, indexed by its id.
    """

    by_rank: NDArray[np.int32]
    number_of: pd.Series[int]

    @classmethod
    def of(cls, lists: pd.Series[Any]) -> ImageNumbers:
        column = _arrow_lists(lists)
        images = column.flatten().dictionary_encode()
        sizes = column.value_lengths().to_numpy()
        by_rank = np.full((len(sizes), sizes.max(initial=0)), -1, dtype=np.int32)
        by_rank[np.arange(by_rank.shape[1]) < sizes[:, None]] = images.indices.to_numpy()
        distinct = pd.Index(images.dictionary.to_numpy(zero_copy_only=False), dtype=object)
        return cls(by_rank, pd.Series(range(len(distinct)), index=distinct))


def set_units(sets: pd.DataFrame, triplets: pd.Series[str]) -> pd.Series[int]:
    """Number the retrieved sets: the same images for the same triplet have the same number.

    The order of the images counts; `triplets` is indexed by query_id. Returns (n,) numbers, indexed
    by set_id.
    """
    images = ImageNumbers.of(sets["image_ids"])
    units = pd.factorize(looked_up(sets["query_id"], triplets))[0]
    for at_rank in images.by_rank.T:
        units = pd.factorize(units * (len(images.number_of) + 1) + at_rank + 1)[0]
    return pd.Series(units, index=pd.Index(sets["set_id"]))


def _arrow_lists(lists: pd.Series[Any]) -> pa.ListArray[Any]:
    """The column as Arrow holds it; an error of Arrow if it does not hold lists."""
    array: Any = pa.array(lists) if len(lists) else pa.array([], type=pa.list_(pa.string()))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not isinstance(array, pa.ListArray):
        raise pa.ArrowTypeError(f"{array.type} is no list")
    return array
