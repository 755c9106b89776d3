"""The turns of a release of searches; a turn's list is a retrieved set, with its satisfaction.

`score` is the satisfaction, so that everything that relates metrics to scores applies to lists.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from hsfiq.analysis.data.images import list_sizes
from hsfiq.analysis.data.release import read_table

TURNS = "turns.parquet"
NO_TURNS = pd.DataFrame(columns=["question_id"])


def has_turns(folder: Path, kind: str) -> bool:
    """Whether the release is of searches; the turns of an arena have two lists and no score."""
    return kind == "search" and (folder / TURNS).is_file()


def read_turns(folder: Path) -> pd.DataFrame:
    """The turns, one row each, with the columns of `with_lists`."""
    turns = read_table(folder / TURNS)
    text = {name: object for name in turns.columns if turns[name].dtype == "str"}
    return with_lists(turns.astype(text))


def with_lists(turns: pd.DataFrame) -> pd.DataFrame:
    """With `set_id`, `score` and `n_images`.

    A turn without a list has no image; one without feedback has no score.
    """
    if not len(turns):
        return NO_TURNS
    return turns.assign(
        set_id=turns["question_id"] + "." + turns["turn"].astype(str),
        score=turns["satisfaction"].astype(np.float64),
        n_images=list_sizes(turns["image_ids"]),
    )


def lists_of(turns: pd.DataFrame) -> pd.DataFrame:
    """The turns that have a list."""
    return turns[turns["n_images"] > 0] if len(turns) else turns
