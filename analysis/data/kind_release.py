"""A release of a question kind other than `pair`, for its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import list_sizes
from hsfiq.analysis.data.provenance import parts_of, require_part
from hsfiq.analysis.data.release import (
    Release,
    column_problem,
    manifest_to_analyse,
    read_frame,
    score_problem,
)
from hsfiq.analysis.data.scores import find_scores
from hsfiq.analysis.json_results import JsonRecord
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.folder import EXPORT_AGAIN, SPLITS, TURNS, points_of
from hsfiq.text import first_few

# The turns of a release of searches; a turn's list is a retrieved set, with its satisfaction.
#
# `score` is the satisfaction, so that everything that relates metrics to scores applies to lists.

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
    turns = read_frame(folder / TURNS)
    problem = turn_problem(turns)
    if problem is not None:
        raise UnreadableInput(folder / TURNS, problem, EXPORT_AGAIN)
    text = {name: object for name in turns.columns if turns[name].dtype == "str"}
    return with_lists(turns.astype(text))


def turn_problem(turns: pd.DataFrame) -> str | None:
    """A missing column, or a turn that does not follow the previous turn."""
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
        turn = turns["turn"].iloc[place]
        return f"turn {turn} in row {place + 1} does not follow the previous turn"
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


ASKED = ("question_id", "participant_id", "query_id")
QUERY_COLUMNS = ("query_id", "triplet_id", "target_id")
IN_PARTS = ("votes",)
"""Main tables with several rows per question."""
SET_COLUMNS = ("set_id", "question_id", "participant_id", "query_id", "image_ids")


@dataclass(frozen=True, eq=False)
class JudgedRelease:
    """The answers of a release with their queries and sets.

    Attributes:
        kind: the question kind.
        answers: the kind's main table.
        turns: of searches; see `read_turns`.
        points: the number of points of the scale for sets; None if unknown.
        part: the part of a split that was taken; None for all.
        parent: the release that the part was taken from; None for a whole release.
    """

    folder: Path
    name: str
    version: str
    kind: str
    study: str
    simulated: bool
    answers: pd.DataFrame
    sets: pd.DataFrame
    queries: pd.DataFrame
    scores: Mapping[str, Path] = field(default_factory=dict)
    turns: pd.DataFrame = field(default_factory=lambda: NO_TURNS)
    points: int | None = None
    part: str | None = None
    parent: JudgedRelease | None = None

    @property
    def whole(self) -> JudgedRelease:
        return self.parent or self

    @property
    def triplets(self) -> pd.Series[str]:
        """The triplet of each query, indexed by query_id."""
        return self.queries.set_index("query_id")["triplet_id"]


@dataclass(frozen=True)
class AnalysedRelease(JsonRecord):
    """The analyzed release: all of it, or one `part` of its split."""

    name: str
    version: str
    kind: str
    study: str
    simulated: bool
    part: str | None
    n_questions: int
    n_participants: int

    @staticmethod
    def facts_of(release: Release | JudgedRelease, answers: pd.DataFrame) -> dict[str, Any]:
        """The fields, from a release and its main table."""
        names = ("name", "version", "kind", "study", "simulated", "part")
        return {
            **{name: getattr(release, name) for name in names},
            "n_questions": int(answers["question_id"].nunique()),
            "n_participants": int(answers["participant_id"].nunique()),
        }


def kind_of(folder: Path) -> str:
    """The kind of a release; UnreadableInput if the folder is not a release."""
    return str(manifest_to_analyse(folder)["kind"])


def read_judged(
    folder: Path,
    main: str,
    columns: Sequence[str],
    score_files: Sequence[Path] = (),
    *,
    nullable: Sequence[str] = (),
    of_sets: Sequence[str] = (),
) -> JudgedRelease:
    """Read a release folder whose main table has these columns besides the usual ones.

    Args:
        nullable: further required columns, which may hold nulls.
        of_sets: the same of the table `sets`.

    UnreadableInput: a file is missing or unreadable, or the tables do not fit.
    """
    manifest = manifest_to_analyse(folder)
    tables = {name: _with_objects(folder / f"{name}.parquet") for name in (main, "queries")}
    turns = read_turns(folder) if has_turns(folder, str(manifest["kind"])) else NO_TURNS
    sets = read_lists(folder, turns)
    has_sets = len(sets) > 0
    key = None if main in IN_PARTS else "question_id"
    require_columns(folder, main, tables[main], (*ASKED, *columns), key)
    require_columns(folder, "queries", tables["queries"], QUERY_COLUMNS, "query_id")
    require_columns(folder, "sets", sets, SET_COLUMNS, "set_id")
    for name, table, wanted in ((main, tables[main], nullable), ("sets", sets, of_sets)):
        if missing := [column for column in wanted if column not in table]:
            what = f"column {', '.join(missing)} is missing"
            raise UnreadableInput(folder / f"{name}.parquet", what, EXPORT_AGAIN)
    answers, queries = tables[main], tables["queries"]
    require_known(folder, "queries", "query", answers["query_id"], queries["query_id"])
    if has_sets:
        require_known(folder, "queries", "query", sets["query_id"], queries["query_id"])
        require_known(folder, main, "question", sets["question_id"], answers["question_id"])
    if "set_id" in columns:
        require_known(folder, "sets", "set", answers["set_id"], sets["set_id"])
    if "score" in columns:
        problem = score_problem(answers, "question_id", ("score",), points_of(manifest))
        if problem is not None:
            raise UnreadableInput(folder / f"{main}.parquet", problem, EXPORT_AGAIN)
    return JudgedRelease(
        folder=folder,
        name=str(manifest["name"]),
        version=str(manifest["version"]),
        kind=str(manifest["kind"]),
        study=str(manifest["study"]),
        simulated=bool(manifest["simulated"]),
        answers=tables[main],
        sets=sets,
        queries=tables["queries"],
        scores=find_scores(folder, score_files) if has_sets else {},
        turns=turns,
        points=points_of(manifest),
    )


def read_lists(folder: Path, turns: pd.DataFrame) -> pd.DataFrame:
    """The retrieved sets that people judged; of searches, the lists of their turns."""
    if len(turns):
        return lists_of(turns)
    path = folder / "sets.parquet"
    return _with_objects(path) if path.is_file() else pd.DataFrame(columns=SET_COLUMNS)


def _with_objects(path: Path) -> pd.DataFrame:
    """Read a table; text is held as Python objects, which are looked up faster."""
    table = read_frame(path)
    return table.astype({name: object for name in table.columns if table[name].dtype == "str"})


def require_known(
    folder: Path, table: str, kind: str, named: pd.Series[str], present: pd.Series[str]
) -> None:
    """Raise UnreadableInput unless a table has all ids that another one names."""
    unknown = sorted(set(named.astype(str)) - set(present.astype(str)))
    if unknown:
        what = f"lacks the {kind} referenced by other tables: {first_few(unknown)}"
        raise UnreadableInput(folder / f"{table}.parquet", what, EXPORT_AGAIN)


def require_columns(
    folder: Path, name: str, table: pd.DataFrame, columns: Sequence[str], key: str | None = None
) -> None:
    """Raise UnreadableInput unless the columns exist without nulls and the key's values differ."""
    if key is None:
        table, key = table.assign(_row=range(len(table))), "_row"
    problem = column_problem(table, columns, key)
    if problem is not None:
        raise UnreadableInput(folder / f"{name}.parquet", problem, EXPORT_AGAIN)


def take_judged_part(release: JudgedRelease, name: str) -> JudgedRelease:
    """Take the questions of one part of a release's split; see `parts.take_part`."""
    require_part(name)
    questions = release.answers["question_id"].astype(str).drop_duplicates()
    parts = parts_of(release.folder, questions)
    kept = set(questions[parts == name])
    if not kept:
        raise NothingToDo(f"{release.folder / SPLITS}: no question is in part {name}")
    return replace(
        release,
        answers=release.answers[release.answers["question_id"].isin(kept)],
        sets=release.sets[release.sets["question_id"].isin(kept)],
        turns=release.turns[release.turns["question_id"].isin(kept)],
        part=name,
        parent=release,
    )
