"""A release as the statistics see it: three tables, checked once, and the scores that belong to it.

Columns used (a release holds more):

- preferences: question_id, participant_id, query_id, set_1, set_2, score_1, score_2,
  preferred (1, 2, or 0 for a human tie)
- sets: set_id, question_id, participant_id, query_id, image_ids (in rank order), score
- queries: query_id, target_id (null where the dataset withholds it)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pandas as pd

from hsfiq.analysis.data.scores import find_scores
from hsfiq.analysis.errors import AnalysisError, first_few

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hsfiq.analysis.data.parts import Part

COLUMNS = {
    "preferences": (
        "question_id",
        "participant_id",
        "query_id",
        "set_1",
        "set_2",
        "score_1",
        "score_2",
        "preferred",
    ),
    "sets": ("set_id", "question_id", "participant_id", "query_id", "image_ids", "score"),
    "queries": ("query_id", "target_id"),
}
KEYS = {"preferences": "question_id", "sets": "set_id", "queries": "query_id"}
MAY_BE_NULL = {"target_id"}
MANIFEST_TYPES = {"name": str, "version": str, "kind": str, "study": str, "simulated": bool}
KINDS = ("hs", "hp")
EXPORT_AGAIN = "export the release again"


@dataclass(frozen=True, eq=False)
class Release:
    """A release whose tables have been found to fit together.

    Attributes:
        folder: where it lies; its tables' names in messages start with it.
        name: its name.
        version: its version.
        kind: "hs" (scores) or "hp" (preferences).
        study: the study it was exported from.
        simulated: whether the answers come from simulated annotators.
        preferences: one row per question.
        sets: one row per retrieved set, two per question.
        queries: one row per query.
        scores: the scores files found for it, by metric name.
        content_sha256: the digest by which its manifest knows its content; None where it has none.
        is_chosen: whether its pairs were chosen for what their answers would teach a scorer.
        part: the part of a split that its questions are; None where they are all.

    Raises:
        AnalysisError: a column is missing, a value is impossible, or ids do not fit together.
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
    is_chosen: bool = False
    part: Part | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise AnalysisError(
                self.folder, f'kind is "{self.kind}", not "hs" or "hp"', EXPORT_AGAIN
            )
        for table in COLUMNS:
            self._check_columns(table)
        self._check_answers()
        self._check_links()

    @property
    def n_participants(self) -> int:
        """How many participants answered at least one of the questions."""
        return int(self.preferences["participant_id"].nunique())

    @property
    def whole(self) -> Release:
        """The release with the questions of all parts: what its scores files speak of."""
        return self if self.part is None else self.part.whole

    def _table(self, table: str) -> pd.DataFrame:
        return cast("pd.DataFrame", getattr(self, table))

    def _fail(self, table: str, what: str) -> AnalysisError:
        return AnalysisError(self.folder / f"{table}.parquet", what, EXPORT_AGAIN)

    def _check_columns(self, table: str) -> None:
        wrong = wrong_columns(self._table(table), COLUMNS[table], KEYS[table])
        if wrong is not None:
            raise self._fail(table, wrong)

    def _check_answers(self) -> None:
        """Preferred sets are 1, 2 or 0, scores are whole numbers, and sets are lists of images."""
        if any(isinstance(images, str) for images in self.sets["image_ids"]):
            raise self._fail("sets", "column image_ids holds text, not lists of images")
        for table, names in (
            ("preferences", ("score_1", "score_2", "preferred")),
            ("sets", ("score",)),
        ):
            frame = self._table(table)
            for name in names if len(frame) else ():
                if not pd.api.types.is_integer_dtype(frame[name]):
                    raise self._fail(
                        table, f"column {name} holds {frame[name].dtype}, not whole numbers"
                    )
        wrong = self.preferences[~self.preferences["preferred"].isin([0, 1, 2])]
        if len(wrong):
            question, value = wrong.iloc[0][["question_id", "preferred"]]
            raise self._fail(
                "preferences", f"preferred is {value} in question {question}, not 1, 2 or 0"
            )

    def _check_links(self) -> None:
        """Every question has its two sets, every set its question and its query."""
        asked = pd.concat([self.preferences["set_1"], self.preferences["set_2"]]).astype(str)
        known = self.sets["set_id"].astype(str)
        if asked.duplicated().any():
            twice = asked[asked.duplicated()].tolist()
            raise self._fail("preferences", f"a set belongs to two questions: {first_few(twice)}")
        for table, ids, others in (
            ("sets", asked, known),
            ("preferences", known, asked),
            ("queries", self.sets["query_id"].astype(str), self.queries["query_id"].astype(str)),
        ):
            lost = ids[~ids.isin(others)].unique().tolist()
            if lost:
                kind = "query" if table == "queries" else "set"
                raise self._fail(
                    table, f"lacks the {kind} that other tables name: {first_few(lost)}"
                )


def read_release(folder: Path, score_files: Sequence[Path] = ()) -> Release:
    """Read a release folder and find the scores that belong to it.

    Args:
        folder: the release, as `hsfiq export` writes it.
        score_files: further scores files (Parquet, CSV or JSONL); each names a metric.

    Returns:
        The release. The scores files are found here, and read where a metric asks for them.

    Raises:
        AnalysisError: a file is missing or unreadable, or the tables do not fit together.
    """
    manifest = _read_manifest(folder / "manifest.json")
    digest, chosen_by = manifest.get("content_sha256"), manifest.get("chosen_by")
    return Release(
        folder=folder,
        name=str(manifest["name"]),
        version=str(manifest["version"]),
        kind=str(manifest["kind"]),
        study=str(manifest["study"]),
        simulated=bool(manifest["simulated"]),
        preferences=read_table(folder / "preferences.parquet"),
        sets=read_table(folder / "sets.parquet"),
        queries=read_table(folder / "queries.parquet"),
        scores=find_scores(folder, score_files),
        content_sha256=digest if isinstance(digest, str) else None,
        is_chosen=isinstance(chosen_by, dict) and chosen_by.get("strategy") == "information",
    )


def wrong_columns(table: pd.DataFrame, columns: Sequence[str], key: str) -> str | None:
    """Say what is wrong with the columns of a table.

    Args:
        table: (n, ...).
        columns: those that it must have, without nulls but for `target_id`.
        key: the one whose values must be unique.

    Returns:
        The first mistake, with its row or its values; None where there is none.
    """
    missing = [name for name in columns if name not in table.columns]
    if missing:
        return f"column {', '.join(missing)} is missing"
    for name in columns:
        empty = table[name].isna()
        if name not in MAY_BE_NULL and empty.any():
            return f"column {name} is null in row {int(empty.to_numpy().argmax()) + 1}"
    keys = table[key].astype(str)
    if keys.duplicated().any():
        return f"{key} occurs twice: {first_few(keys[keys.duplicated()].tolist())}"
    return None


def _read_manifest(path: Path) -> dict[str, object]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnalysisError(
            path, "no such file", "name a release folder, as `hsfiq export` writes it"
        ) from None
    except (OSError, ValueError) as error:
        raise AnalysisError(path, f"cannot be read ({_one_line(error)})", EXPORT_AGAIN) from error
    if not isinstance(manifest, dict):
        raise AnalysisError(path, "is no JSON object", EXPORT_AGAIN)
    for key, kind in MANIFEST_TYPES.items():
        if not isinstance(manifest.get(key), kind):
            raise AnalysisError(path, f'key "{key}" is missing or no {kind.__name__}', EXPORT_AGAIN)
    return manifest


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of a release.

    Raises:
        AnalysisError: there is no such file, or it is no Parquet file.
    """
    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise AnalysisError(path, "no such file", EXPORT_AGAIN) from None
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise AnalysisError(
            path, f"is no readable Parquet file ({_one_line(error)})", EXPORT_AGAIN
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
