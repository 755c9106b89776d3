"""A release for the statistics: three tables, validated once, and its scores files.

Columns used (a release has more):

- preferences: question_id, participant_id, query_id, set_1, set_2, score_1, score_2,
  preferred (1, 2, or 0 for a human tie)
- sets: set_id, question_id, participant_id, query_id, image_ids (in rank order), score
- queries: query_id, target_id (null if the dataset withholds it), triplet_id (if there is one)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from hsfiq.analysis.data.columns import are_lists, as_categories, is_among, numbered, set_units
from hsfiq.analysis.data.scores import find_scores
from hsfiq.errors import UnreadableInput
from hsfiq.releases.folder import (
    EXPORT_AGAIN,
    RELEASE_KEYS,
    manifest_of,
    plan_in,
    points_of,
    read_table,
)
from hsfiq.text import first_few

COLUMNS = {
    "preferences": (
        *("question_id", "participant_id", "query_id", "set_1", "set_2"),
        *("score_1", "score_2", "preferred"),
    ),
    "sets": ("set_id", "question_id", "participant_id", "query_id", "image_ids", "score"),
    "queries": ("query_id", "target_id"),
}
REPEAT_COLUMNS = (
    *("question_id", "repeated_id", "participant_id", "query_id"),
    *("score_1", "score_2", "preferred"),
)
KEYS = {"preferences": "question_id", "sets": "set_id", "queries": "query_id"}
INTEGER_COLUMNS = {"preferences": ("score_1", "score_2", "preferred"), "sets": ("score",)}
SCORES = {"preferences": ("score_1", "score_2"), "sets": ("score",)}
MOST_POINTS = 7
"""Of any scale, if the manifest does not record the number of points."""
NULLABLE = {"target_id"}
KINDS = ("hs", "hp")


@dataclass(frozen=True)
class Plan:
    """The analysis that a study declared before it opened.

    Attributes:
        question: the compared objects: "systems" or "metrics".
        pair: the pair of the verdict; None for all pairs.
        statistic: "win_rate" or "mean_score" for systems; "tie_half", "spearman" or "symmetric" for
            metrics.
        margin: the largest difference that does not matter; None if none was declared.
        alpha: the level of the test.
        exclusions: the filters of the export, as `hsfiq export --filter` takes them.
        opened_at: when the study opened, in ISO 8601; None if unknown.
    """

    question: str
    pair: tuple[str, str] | None
    statistic: str
    margin: float | None
    alpha: float
    exclusions: tuple[str, ...]
    opened_at: str | None


@dataclass(frozen=True, eq=False)
class Release:
    """A release whose tables fit together.

    Attributes:
        kind: "hs" (scores) or "hp" (preferences).
        sets: one row per judged set, two per question.
        content_sha256: the manifest's digest of the content, if any.
        repeats: the second answers to repeated questions, with the sides of the first: question_id,
            repeated_id (the first), participant_id, query_id, score_1, score_2, preferred; None if
            there are none.
        points: the number of points of the scale; None if unknown.
        ties_allowed: whether participants could prefer neither set; None if unknown.
        is_chosen: whether `hsfiq study next` chose its pairs by information.
        shown_at: the day on which results by system were shown before the study closed.
        plan: the analysis that the study declared before it opened; None if it declared none.
        part: the part of a split that was taken: "train", "test" or "unused"; None for all.
        parent: the release that the part was taken from; None for a whole release.
        is_checked: the tables come from a validated release, so they are not validated again.

    Raises:
        UnreadableInput: the tables lack columns, hold impossible values, or do not fit together.
    """

    folder: Path
    name: str
    version: str
    kind: str
    study: str
    simulated: bool
    preferences: pd.DataFrame
    sets: pd.DataFrame
    queries: pd.DataFrame
    scores: Mapping[str, Path] = field(default_factory=dict)
    content_sha256: str | None = None
    repeats: pd.DataFrame | None = None
    points: int | None = None
    ties_allowed: bool | None = None
    is_chosen: bool = False
    shown_at: str | None = None
    plan: Plan | None = None
    part: str | None = None
    parent: Release | None = None
    is_checked: InitVar[bool] = False

    def __post_init__(self, is_checked: bool) -> None:
        if is_checked:
            return
        if self.kind not in KINDS:
            raise UnreadableInput(
                self.folder, f'kind is "{self.kind}", not "hs" or "hp"', EXPORT_AGAIN
            )
        for table, columns in COLUMNS.items():
            problem = column_problem(self._table(table), columns, KEYS[table])
            if problem is not None:
                raise self._error(table, problem)
        self._check_answers()
        self._check_links()

    @property
    def n_participants(self) -> int:
        return int(self.preferences["participant_id"].nunique())

    @cached_property
    def triplets(self) -> pd.Series[str]:
        """The triplet of each query, indexed by query_id; without `triplet_id`, the query's id."""
        queries = self.queries.set_index("query_id", drop=False)
        return queries["triplet_id" if "triplet_id" in queries else "query_id"]

    @cached_property
    def units(self) -> pd.Series[int]:
        """The number of each set's content, (n_sets,), indexed by set_id; see `set_units`."""
        return set_units(self.sets, self.triplets)

    @property
    def whole(self) -> Release:
        """The release with the questions of all parts, which its scores files refer to."""
        return self.parent or self

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Copies of the tables by name; `images` has a row for each image of each set."""
        images = self.sets[["set_id", "query_id", "image_ids"]].explode("image_ids")
        images = images.rename(columns={"image_ids": "image_id"}).reset_index(drop=True)
        images.insert(2, "rank", images.groupby("set_id", sort=False).cumcount() + 1)
        return {
            "preferences": self.preferences.copy(),
            "sets": self.sets.copy(),
            "queries": self.queries.copy(),
            "images": images,
        }

    def subset(self, kept: pd.Series[bool]) -> Release:
        """Keep the questions where `kept`, indexed as `preferences`, is true, and their sets."""
        preferences = self.preferences[kept]
        sets = self.sets[is_among(self.sets["question_id"], preferences["question_id"])]
        return replace(self, preferences=preferences, sets=sets, is_checked=True)

    def with_categories(self) -> Release:
        """The same release with ids prepared for fast look-up."""
        tables = {name: self._table(name) for name in COLUMNS}
        if self.repeats is not None:
            tables["repeats"] = self.repeats
        tables = as_categories(tables)
        return replace(
            self,
            preferences=tables["preferences"],
            sets=tables["sets"],
            queries=tables["queries"],
            repeats=tables.get("repeats"),
            is_checked=True,
        )

    def _table(self, table: str) -> pd.DataFrame:
        return cast("pd.DataFrame", getattr(self, table))

    def _error(self, table: str, what: str) -> UnreadableInput:
        return UnreadableInput(self.folder / f"{table}.parquet", what, EXPORT_AGAIN)

    def _check_answers(self) -> None:
        """Preferred sets are 1, 2 or 0, scores are whole numbers, and sets are lists of images."""
        if not are_lists(self.sets["image_ids"]):
            raise self._error("sets", "column image_ids does not hold lists of images")
        for table, columns in INTEGER_COLUMNS.items():
            frame = self._table(table)
            for column in columns if len(frame) else ():
                if not pd.api.types.is_integer_dtype(frame[column]):
                    raise self._error(
                        table, f"column {column} holds {frame[column].dtype}, not whole numbers"
                    )
        for table, columns in SCORES.items():
            problem = score_problem(self._table(table), KEYS[table], columns, self.points)
            if problem is not None:
                raise self._error(table, problem)
        is_wrong = ~np.isin(self.preferences["preferred"].to_numpy(), (0, 1, 2))
        if is_wrong.any():
            wrong = self.preferences.iloc[int(is_wrong.argmax())]
            question, value = wrong["question_id"], wrong["preferred"]
            raise self._error(
                "preferences", f"preferred is {value} in question {question}, not 1, 2 or 0"
            )

    def _check_links(self) -> None:
        """Every question has its two sets, every set its question and its query."""
        preferences, sets, queries = self.preferences, self.sets, self.queries
        named_sets = pd.concat([preferences["set_1"], preferences["set_2"]], ignore_index=True)
        of_questions, of_sets = numbered(named_sets, sets["set_id"])
        if np.bincount(of_questions).max(initial=0) > 1:
            texts = named_sets.astype(str)
            repeated = texts[texts.duplicated()].tolist()
            raise self._error(
                "preferences", f"a set belongs to two questions: {first_few(repeated)}"
            )
        query, of_set, of_question = numbered(
            queries["query_id"], sets["query_id"], preferences["query_id"]
        )
        question, questions_set = numbered(preferences["question_id"], sets["question_id"])
        for table, kind, column, named, present in (
            ("sets", "set", named_sets, of_questions, of_sets),
            ("preferences", "set", sets["set_id"], of_sets, of_questions),
            ("queries", "query", sets["query_id"], of_set, query),
            ("queries", "query", preferences["query_id"], of_question, query),
            ("preferences", "question", sets["question_id"], questions_set, question),
        ):
            is_missing = ~np.isin(named, present)
            if is_missing.any():
                missing = column[is_missing].astype(str).unique().tolist()
                raise self._error(
                    table, f"lacks the {kind} referenced by other tables: {first_few(missing)}"
                )


def release_of_tables(
    tables: Mapping[str, pd.DataFrame], name: str = "tables", *, simulated: bool = False
) -> Release:
    """Make a release of DataFrames: `preferences`, `sets` and `queries`, with the columns above.

    UnreadableInput: a table is missing, or the tables do not fit together.
    """
    missing = [table for table in COLUMNS if table not in tables]
    if missing:
        raise UnreadableInput(name, f"no table {', '.join(missing)}", f"give {', '.join(COLUMNS)}")
    return Release(
        folder=Path(name),
        name=name,
        version="0",
        kind="hp",
        study=name,
        simulated=simulated,
        preferences=tables["preferences"],
        sets=tables["sets"],
        queries=tables["queries"],
    )


def read_release(folder: Path | str, score_files: Sequence[Path] = ()) -> Release:
    """Read a release folder, as written by `hsfiq export`, and find its scores files.

    Each further scores file (Parquet, CSV or JSONL) is the metric of its name; each is read when a
    metric needs it. UnreadableInput: a file is missing or unreadable, or the tables do not fit.
    """
    folder = Path(folder)
    manifest = manifest_to_analyse(folder)
    digest, chosen_by = manifest.get("content_sha256"), manifest.get("chosen_by")
    release = Release(
        folder=folder,
        name=str(manifest["name"]),
        version=str(manifest["version"]),
        kind=str(manifest["kind"]),
        study=str(manifest["study"]),
        simulated=bool(manifest["simulated"]),
        preferences=read_frame(folder / "preferences.parquet"),
        sets=read_frame(folder / "sets.parquet"),
        queries=read_frame(folder / "queries.parquet"),
        scores=find_scores(folder, score_files),
        content_sha256=digest if isinstance(digest, str) else None,
        repeats=_read_repeats(folder / "repeats.parquet"),
        points=points_of(manifest),
        ties_allowed=ties if isinstance(ties := manifest.get("ties_allowed"), bool) else None,
        shown_at=day if isinstance(day := manifest.get("results_shown_at"), str) else None,
        is_chosen=isinstance(chosen_by, dict) and chosen_by.get("strategy") == "information",
        plan=_plan(manifest, folder),
    ).with_categories()
    pa.default_memory_pool().release_unused()  # of large tables, a quarter of what they took
    return release


def _plan(manifest: Mapping[str, Any], folder: Path) -> Plan | None:
    declared = plan_in(manifest, folder)
    if declared is None:
        return None
    values = {each.name: declared[each.name] for each in fields(Plan)}
    pair = None if declared["pair"] is None else tuple(declared["pair"])
    return Plan(**values | {"pair": pair, "exclusions": tuple(declared["exclusions"])})


def _read_repeats(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    table = read_frame(path)
    problem = column_problem(table, REPEAT_COLUMNS, "question_id")
    if problem is not None:
        raise UnreadableInput(path, problem, EXPORT_AGAIN)
    return table


def score_range(points: int | None) -> tuple[float, float]:
    """The lowest and the highest score of a scale; of the longest scale if `points` is unknown."""
    return 1.0, float(points or MOST_POINTS)


def column_problem(table: pd.DataFrame, columns: Sequence[str], key: str) -> str | None:
    """Find the first mistake in the columns of a table, with its row or its values.

    The columns must exist, without nulls except in `target_id`, and the key must be unique.
    """
    missing = [name for name in columns if name not in table.columns]
    if missing:
        return f"column {', '.join(missing)} is missing"
    for name in columns:
        is_null = np.asarray(table[name].array.isna())
        if name not in NULLABLE and is_null.any():
            return f"column {name} is null in row {int(is_null.argmax()) + 1}"
    keys = table[key].astype(str)
    is_repeated = keys.duplicated()
    if is_repeated.any():
        return f"{key} occurs twice: {first_few(keys[is_repeated].tolist())}"
    return None


def score_problem(
    table: pd.DataFrame, key: str, columns: Sequence[str], points: int | None
) -> str | None:
    """Find the first score that is not on the scale of 1 to `points`."""
    lowest, highest = score_range(points)
    for column in columns:
        scores = table[column].to_numpy()
        is_outside = (scores < lowest) | (scores > highest)
        if is_outside.any():
            outside = table.iloc[int(is_outside.argmax())]
            where, score = outside[key], outside[column]
            return f"{column} is {score} in {key} {where}, not from {lowest:g} to {highest:g}"
    return None


def read_frame(path: Path) -> pd.DataFrame:
    """Read a Parquet file. Lists stay in Arrow's memory: as Python objects they need ten times it.

    UnreadableInput: the file is missing or unreadable.
    """
    # Other tools' metadata, such as that of pandas, could be wrong and is not needed.
    table = read_table(path).replace_schema_metadata(None)
    frame: pd.DataFrame = table.to_pandas(types_mapper=_list_dtype)
    return frame


def _list_dtype(kind: pa.DataType) -> pd.ArrowDtype | None:
    return pd.ArrowDtype(kind) if pa.types.is_list(kind) else None


def manifest_to_analyse(folder: Path) -> dict[str, Any]:
    """The manifest of a release to analyze, possibly written by another tool."""
    return manifest_of(folder, {**RELEASE_KEYS, "study": str, "simulated": bool})
