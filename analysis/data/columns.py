"""Columns of a release: lists of ids as numbers in one block of memory, and rows found by keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionDtype, take

from hsfiq.answer_rules import contradicts

# Ids as categories: texts are compared when a release is read, and only numbers after that.
#
# The functions also take ids that are plain text; each lookup then compares texts.

ID_COLUMNS = (
    ("participant_id",),
    ("question_id", "repeated_id"),
    ("query_id",),
    ("set_id", "set_1", "set_2"),
    ("triplet_id",),
    ("system", "system_1", "system_2"),
)
"""Columns with ids of the same kind, in any table."""


def as_categories(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Hold the ids of some tables as sorted categories, one set of categories for each kind."""
    categories: dict[str, dict[str, pd.Categorical[Any]]] = {name: {} for name in tables}
    for columns in ID_COLUMNS:
        places = [(name, each) for name in tables for each in columns if each in tables[name]]
        if not places:
            continue
        texts = pd.concat([tables[name][column] for name, column in places])
        codes, distinct = pd.factorize(texts, sort=True)
        dtype = pd.CategoricalDtype(distinct)
        ends = np.cumsum([len(tables[name]) for name, _ in places])[:-1]
        for (name, column), own in zip(places, np.split(codes, ends), strict=True):
            categories[name][column] = pd.Categorical.from_codes(own, dtype=dtype)
    return {name: table.assign(**categories[name]) for name, table in tables.items()}


def looked_up(ids: pd.Series[Any], values: pd.Series[Any]) -> pd.Series[Any]:
    """The value of each id, NaN if it has none: `ids.map(values)`, whose index is unique."""
    array = values.array if isinstance(values.dtype, ExtensionDtype) else values.to_numpy()
    taken = take(array, _places_in(values.index, ids), allow_fill=True)
    return pd.Series(taken, index=ids.index, name=values.name)


def _places_in(index: pd.Index[Any], ids: pd.Series[Any]) -> NDArray[np.intp]:
    """The position of each id in the index, -1 if it is absent."""
    if not isinstance(ids.dtype, pd.CategoricalDtype):
        return index.get_indexer(pd.Index(ids))
    if _has_categories_of(index, ids):
        place_of = np.full(len(ids.cat.categories) + 1, -1)  # the last is for null: code -1
        place_of[cast("pd.CategoricalIndex[Any]", index).codes] = np.arange(len(index))
    else:
        place_of = np.append(index.get_indexer(ids.cat.categories), -1)
    return place_of[ids.cat.codes.to_numpy()]


def numbered(*columns: pd.Series[Any]) -> list[NDArray[np.intp]]:
    """The ids of each column as numbers, the same for the same text in any of them."""
    texts = pd.concat([column.astype("str") for column in columns], ignore_index=True)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(pd.factorize(texts)[0], ends)


def places_of(wanted: pd.Series[str], ids: pd.Series[str]) -> NDArray[np.intp]:
    """The position of each wanted text among the ids, which are distinct; -1 if it is absent."""
    _, places = numbered(ids, wanted)  # in the order in which texts first occur
    return np.where(places < len(ids), places, -1)


def is_among(ids: pd.Series[Any], others: pd.Series[Any]) -> pd.Series[bool]:
    """Whether each id is one of the others."""
    if not _has_categories_of(pd.Index(others), ids):
        return ids.isin(others)
    is_other = np.zeros(len(ids.cat.categories) + 1, dtype=np.bool_)
    is_other[others.cat.codes] = True
    return pd.Series(is_other[ids.cat.codes.to_numpy()], index=ids.index)


def _has_categories_of(index: pd.Index[Any], ids: pd.Series[Any]) -> bool:
    return (
        isinstance(index, pd.CategoricalIndex)
        and isinstance(ids.dtype, pd.CategoricalDtype)
        and index.categories is ids.cat.categories
    )


# Rules of single answers, for the columns of a release: preference, contradiction, difference.


def optional_column(rows: pd.DataFrame, column: str) -> pd.Series[float]:
    """A column as float64; NaN if the release lacks it."""
    if column not in rows:
        return pd.Series(np.nan, index=rows.index, dtype="float64")
    return rows[column].astype("float64")


def has_preference(preferences: pd.DataFrame) -> pd.Series[bool]:
    """Whether one of the two sets is preferred, (n_questions,); False for a human tie."""
    return preferences["preferred"] != 0


def contradictions(preferences: pd.DataFrame) -> pd.Series[bool]:
    """Whether the preferred set has the strictly lower score, (n_questions,); False for a tie."""
    columns = (preferences[name] for name in ("preferred", "score_1", "score_2"))
    return contradicts(*columns)


def metric_difference(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    """m(set 1) - m(set 2) of each question, (n_questions,); NaN where a set has no value."""
    numbers = values.astype("float64")
    first, second = (looked_up(preferences[side], numbers) for side in ("set_1", "set_2"))
    return first - second


# The images of retrieved sets: lists of ids, held in one block of memory and compared as numbers.
#
# A column of such lists may also hold Python lists, tuples or arrays.


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
    """The column as an Arrow array; Arrow raises an error unless the column holds lists."""
    array: Any = pa.array(lists) if len(lists) else pa.array([], type=pa.list_(pa.string()))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not isinstance(array, pa.ListArray):
        raise pa.ArrowTypeError(f"{array.type} is not a list type")
    return array
