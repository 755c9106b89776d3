"""Metrics by name: value objects; `parse_metric(str(metric)) == metric` for every metric."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import ImageNumbers, list_sizes, looked_up
from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.data.scores import RECALL, read_scores, scores_of_table, set_ids
from hsfiq.errors import UnreadableInput

MetricValues = Mapping[str, "pd.Series[float]"]
"""The values of each metric by its name, indexed by set_id, NaN if a set has none."""

NOWHERE = -2
"""The number of a target that no set has."""
SCORERS = ("cirqrs", "qure")
"""The usual metric names of the project's own scorers."""


@dataclass(frozen=True, order=True)
class Recall:
    """`recall@k`: 1 if the query's target is among the first k images of the set, else 0."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UnreadableInput(str(self), "k must be 1 or more")

    def __str__(self) -> str:
        return f"recall@{self.k}"

    def values(self, release: Release | JudgedRelease) -> pd.Series[float]:
        """(n,) of 0.0 and 1.0, indexed by set_id; NaN if the query has no target.

        UnreadableInput if a set has fewer than k images.
        """
        smallest = smallest_set(release)
        if smallest is not None and self.k > smallest:
            raise UnreadableInput(
                str(self),
                f"needs {self.k} images, but release {release.name} has sets of {smallest}",
                f"use recall@{smallest} or a smaller k",
            )
        target_of = release.queries.set_index("query_id")["target_id"]
        images = ImageNumbers.of(release.sets["image_ids"])
        numbers = target_of.map(images.number_of).fillna(NOWHERE).where(target_of.notna())
        targets = looked_up(release.sets["query_id"], numbers).to_numpy(dtype=np.float64)
        hits = (images.by_rank[:, : self.k] == targets[:, None]).any(axis=1)
        return pd.Series(np.where(np.isnan(targets), np.nan, hits), index=set_ids(release.sets))


@dataclass(frozen=True, order=True)
class ScoreColumn:
    """A metric read from the scores file of the same name, one number per set."""

    name: str

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise UnreadableInput("--metric", "the name is empty", "try recall@5")
        if RECALL.fullmatch(self.name):
            raise UnreadableInput(self.name, "is computed from the sets, not read from a file")

    def __str__(self) -> str:
        return self.name

    def values(self, release: Release | JudgedRelease) -> pd.Series[float]:
        """(n,) float64, indexed by set_id; NaN for sets that the file does not score.

        Its scores of other parts of the release are ignored. UnreadableInput: no file has the name,
        or the file does not fit the release.
        """
        if self.name in release.scores:
            return of_sets(release, read_scores(release.scores[self.name], release.whole.sets))
        known = ", ".join(known_metrics(release)) or "none"
        if self.name in SCORERS:
            folder = shlex.quote(str(release.folder))
            raise UnreadableInput(
                self.name,
                f"release {release.name} has no such scores (known: {known})",
                f"`hsfiq score {folder} --checkpoint DIR --name {self.name}` writes them",
            )
        raise UnreadableInput(
            self.name,
            f"release {release.name} has no such metric",
            f"use one of {known}, or name a scores file with --scores FILE",
        )


@dataclass(frozen=True, eq=False)
class GivenScores:
    """A metric from a DataFrame with the columns of a scores file."""

    name: str
    table: pd.DataFrame

    def __str__(self) -> str:
        return self.name

    def values(self, release: Release | JudgedRelease) -> pd.Series[float]:
        """(n,) float64, indexed by set_id; NaN for sets without a score; see `scores_of_table`."""
        return of_sets(release, scores_of_table(self.name, self.table, release.whole.sets))


Metric = Recall | ScoreColumn | GivenScores


def parse_metric(name: str) -> Metric:
    """Parse a metric's name: `recall@k` (in any case) or the name of a scores file.

    Whether a release has the metric is checked when its values are read. UnreadableInput: the name
    is empty, or `recall@` is not followed by a whole number from 1.
    """
    recall = RECALL.fullmatch(name)
    if recall is None:
        return ScoreColumn(name)
    k = recall[1]
    if not (k.isascii() and k.isdigit() and not k.startswith("0")):
        raise UnreadableInput(name, "k must be a whole number from 1", "try recall@5")
    return Recall(int(k))


def bounds_of(name: str) -> tuple[float, float] | None:
    """The range of a metric's values; None if it is unknown, as for any scores file."""
    return (0.0, 1.0) if RECALL.fullmatch(name) else None


def known_metrics(release: Release | JudgedRelease) -> list[str]:
    """recall@1 to recall@k, k being the size of the smallest set, and the scores files."""
    recalls = [str(Recall(k)) for k in range(1, (smallest_set(release) or 0) + 1)]
    return [*recalls, *release.scores]


def of_sets(release: Release | JudgedRelease, scores: pd.Series[float]) -> pd.Series[float]:
    """The scores, indexed by set_id, of a release's own sets, in their order."""
    return looked_up(set_ids(release.sets).to_series(), scores)


def smallest_set(release: Release | JudgedRelease) -> int | None:
    """The number of images of the smallest set; None for a release without sets."""
    sizes = list_sizes(release.sets["image_ids"])
    return int(sizes.min()) if len(sizes) else None
