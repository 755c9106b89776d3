"""The parts of a split: what a retrained scorer was trained on, and what is held out.

`splits.parquet` names the part of each question of a release exported with `--split`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from hsfiq.analysis.data.release import Release, column_problem, read_table
from hsfiq.analysis.errors import AnalysisError, NothingToAnalyse, first_few

SPLITS = "splits.parquet"
TEST = "test"
PARTS = {
    "train": "part to train on (train)",
    TEST: "held-out part (test)",
    "unused": "part that is left unused (unused)",
}
"""Each part in words."""
EXPORT_WITH_SPLIT = "export the release again, with --split"


def take_part(release: Release, name: str) -> Release:
    """Take the questions of one part ("train", "test" or "unused") of a release, with their sets.

    A bootstrap of the part resamples only the participants and triplets of these questions.
    AnalysisError: the part is unknown or empty, or the release has no split that fits.
    """
    require_part(name)
    kept = read_parts(release) == name
    if not kept.any():
        raise NothingToAnalyse(release.folder / SPLITS, f"no question is in part {name}")
    return replace(release.subset(kept), part=name, parent=release)


def require_part(name: str) -> None:
    if name not in PARTS:
        raise AnalysisError("part", f"no such part: {name}", f"use one of {', '.join(PARTS)}")


def has_split(release: Release) -> bool:
    return (release.folder / SPLITS).is_file()


def read_parts(release: Release) -> pd.Series[str]:
    """The part of each question, (n_questions,), indexed as the preferences of a whole release.

    AnalysisError: the release has no split, or not exactly one known part for each question.
    """
    return parts_of(release.folder, release.preferences["question_id"].astype(str))


def parts_of(folder: Path, questions: pd.Series[str]) -> pd.Series[str]:
    """The part of each of a whole release's questions, indexed as they are; see `read_parts`."""
    path = folder / SPLITS
    if not path.is_file():
        raise AnalysisError(path, "no such file: the release has no split", EXPORT_WITH_SPLIT)
    table = read_table(path)
    problem = column_problem(table, ("question_id", "part"), "question_id")
    if problem is not None:
        raise AnalysisError(path, problem, EXPORT_WITH_SPLIT)
    split = table.astype(str).set_index("question_id")["part"]
    unknown = split[~split.isin(list(PARTS))]
    if len(unknown):
        problem = (
            f"part is {unknown.iloc[0]} in question {unknown.index[0]}, not {', '.join(PARTS)}"
        )
        raise AnalysisError(path, problem, EXPORT_WITH_SPLIT)
    for mismatched, problem in (
        (questions[~questions.isin(split.index)], "lacks the question that other tables name"),
        (split.index[~split.index.isin(questions)], "names the question that other tables lack"),
    ):
        if len(mismatched):
            ids = first_few(mismatched.tolist())
            raise AnalysisError(path, f"{problem}: {ids}", EXPORT_WITH_SPLIT)
    return questions.map(split)
