"""Ids as categories: texts are compared when a release is read, and only numbers after that.

The functions also take ids that are plain text; each lookup then compares texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionDtype, take

ID_COLUMNS = (
    ("participant_id",),
    ("question_id", "repeated_id"),
    ("query_id",),
    ("set_id", "set_1", "set_2"),
    ("triplet_id",),
    ("system", "system_1", "system_2"),
)
"""Columns with ids of the same kind, in whichever tables they are."""


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
    """The value of each id, NaN where there is none: `ids.map(values)`, whose index is unique."""
    array = values.array if isinstance(values.dtype, ExtensionDtype) else values.to_numpy()
    taken = take(array, _places_in(values.index, ids), allow_fill=True)
    return pd.Series(taken, index=ids.index, name=values.name)


def _places_in(index: pd.Index[Any], ids: pd.Series[Any]) -> NDArray[np.intp]:
    """Where each id is in the index, -1 if it is not."""
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
    """Where each wanted text is among the ids, which differ; -1 if it is not."""
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
