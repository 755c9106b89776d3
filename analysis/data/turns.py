"""The turns of a release of searches; a turn's list is a retrieved set, with its satisfaction.

`score` is the satisfaction, so that everything that relates metrics to scores applies to lists.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from hsfiq.analysis.data.images import list_sizes
from hsfiq.analysis.data.release import EXPORT_AGAIN, column_problem, read_table
from hsfiq.analysis.errors import AnalysisError

TURNS = "turns.parquet"
COLUMNS = (
    *("question_id", "turn", "query_id", "reference_id", "image_ids", "satisfaction"),
    *("system", "rank", "ties", "retriever_seconds", "active_seconds", "nearest_place"),
    *("words", "from_query", "repeats", "pasted"),
)
NO_TURNS = pd.DataFrame(columns=["question_id"])


def has_turns(folder: Path, kind: str) -> bool:
    """Whether the release is of searches; the turns of an arena have two lists and no score."""
    return kind == "search" and (folder / TURNS).is_file()


def read_turns(folder: Path) -> pd.DataFrame:
    """The turns, one row each, with the columns of `with_lists`."""
    turns = read_table(folder / TURNS)
    problem = turn_problem(turns)
    if problem is not None:
        raise AnalysisError(folder / TURNS, problem, EXPORT_AGAIN)
    text = {name: object for name in turns.columns if turns[name].dtype == "str"}
    return with_lists(turns.astype(text))


def turn_problem(turns: pd.DataFrame) -> str | None:
    """A column that is missing, or a turn that does not follow the one before."""
    missing = [name for name in COLUMNS if name not in turns]
    if missing:
        return f"column {', '.join(missing)} is missing"
    known = ("question_id", "turn", "system")
    problem = column_problem(turns.assign(_row=range(len(turns))), known, "_row")
    if problem is not None:
        return problem
    is_wrong = turns["turn"] != turns.groupby("question_id", sort=False).cumcount() + 1
    if is_wrong.any():
        place = int(is_wrong.to_numpy().argmax())
        return f"turn is {turns['turn'].iloc[place]} in row {place + 1}, and does not follow"
    return None


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
