"""The parts of a split: what a retrained scorer learned from, and what is held out.

`splits.parquet` names the part of each question of a release that was exported with `--split`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsfiq.analysis.data.answers import subset
from hsfiq.analysis.data.release import read_table, wrong_columns
from hsfiq.analysis.errors import AnalysisError, NothingToAnalyse, first_few

if TYPE_CHECKING:
    import pandas as pd

    from hsfiq.analysis.data.release import Release

SPLITS = "splits.parquet"
TEST = "test"
PARTS = {
    "train": "part to train on (train)",
    TEST: "held-out part (test)",
    "unused": "part that is left unused (unused)",
}
"""Each part in words."""
EXPORT_WITH_SPLIT = "export the release again, with --split"


@dataclass(frozen=True, eq=False)
class Part:
    """What is taken of a release.

    Attributes:
        name: "train", "test" or "unused".
        whole: the release that it is taken of.
    """

    name: str
    whole: Release


def take_part(release: Release, name: str) -> Release:
    """Take the questions of one part, with their sets.

    Args:
        release: a whole release; its folder holds the split.
        name: "train", "test" or "unused".

    Returns:
        A release of these questions, which knows that it is a part. Resamples draw from those
        participants and triplets alone that these questions have.

    Raises:
        NothingToAnalyse: no question is in this part.
        AnalysisError: there is no such part, the release has no split, or the split does not fit.
    """
    if name not in PARTS:
        raise AnalysisError("part", f"no such part: {name}", f"known are {', '.join(PARTS)}")
    kept = read_parts(release) == name
    if not kept.any():
        raise NothingToAnalyse(release.folder / SPLITS, f"no question is in part {name}")
    return replace(subset(release, kept), part=Part(name, release))


def has_split(release: Release) -> bool:
    """Whether the release's folder says which questions are held out."""
    return (release.folder / SPLITS).is_file()


def read_parts(release: Release) -> pd.Series[str]:
    """Read the split of a release.

    Args:
        release: a whole release.

    Returns:
        (n_questions,) the part of each question, indexed as `release.preferences`.

    Raises:
        AnalysisError: the release has no split, or not exactly one known part for each question.
    """
    path = release.folder / SPLITS
    if not has_split(release):
        raise AnalysisError(path, "no such file: the release has no split", EXPORT_WITH_SPLIT)
    table = read_table(path)
    wrong = wrong_columns(table, ("question_id", "part"), "question_id")
    if wrong is not None:
        raise AnalysisError(path, wrong, EXPORT_WITH_SPLIT)
    split = table.astype(str).set_index("question_id")["part"]
    unknown = split[~split.isin(list(PARTS))]
    if len(unknown):
        what = f"part is {unknown.iloc[0]} in question {unknown.index[0]}, not {', '.join(PARTS)}"
        raise AnalysisError(path, what, EXPORT_WITH_SPLIT)
    asked = release.preferences["question_id"].astype(str)
    for lost, what in (
        (asked[~asked.isin(split.index)], "lacks the question that other tables name"),
        (split.index[~split.index.isin(asked)], "names the question that other tables lack"),
    ):
        if len(lost):
            raise AnalysisError(path, f"{what}: {first_few(lost.tolist())}", EXPORT_WITH_SPLIT)
    return asked.map(split)
