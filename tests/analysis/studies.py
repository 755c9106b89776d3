"""Small studies, written by hand or drawn by Hypothesis, as releases in memory and on disk."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

IMAGES = "abcdefgh"

few = settings(max_examples=40)
"""Enough for studies this small; no deadline, since the first call imports libraries."""


@dataclass(frozen=True)
class Question:
    """One answered question; `values` are a metric's for its two sets, None where it has none."""

    preferred: int
    scores: tuple[int, int] = (3, 3)
    images: tuple[Sequence[str], Sequence[str]] = ("abcde", "fghab")
    target: str | None = "a"
    participant: str = "p1"
    values: tuple[float | None, float | None] = (0.0, 0.0)


questions = st.builds(
    Question,
    preferred=st.sampled_from([0, 1, 1, 2, 2]),
    scores=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    images=st.tuples(*[st.permutations(IMAGES).map(lambda order: "".join(order[:5]))] * 2),
    target=st.sampled_from([None, *IMAGES]),
    participant=st.sampled_from(["p1", "p2", "p3"]),
    values=st.tuples(*[st.one_of(st.none(), st.integers(-2, 2).map(float))] * 2),
)
studies = st.lists(questions, max_size=25)


def question_ids(study: Sequence[Question]) -> list[str]:
    return [f"{question.participant}.form_1.{place}" for place, question in enumerate(study)]


def make_release(
    study: Sequence[Question],
    *,
    folder: Path = Path("small-hp-1.0.0"),
    simulated: bool = False,
    scores: Mapping[str, Path] | None = None,
) -> Release:
    names = question_ids(study)
    people = [question.participant for question in study]
    query_ids = [f"query {name}" for name in names]
    first, second = ([question.scores[side] for question in study] for side in (0, 1))
    preferences = _table(
        {
            "question_id": names,
            "participant_id": people,
            "query_id": query_ids,
            "set_1": [f"{name}.1" for name in names],
            "set_2": [f"{name}.2" for name in names],
            "system_1": None,
            "system_2": None,
            "score_1": np.array(first, dtype=np.int64),
            "score_2": np.array(second, dtype=np.int64),
            "preferred": np.array([question.preferred for question in study], dtype=np.int64),
            "irrelevant": False,
        }
    )
    sides = [(place, side) for place in range(len(study)) for side in (1, 2)]
    sets = _table(
        {
            "set_id": [f"{names[place]}.{side}" for place, side in sides],
            "question_id": [names[place] for place, _ in sides],
            "side": [side for _, side in sides],
            "participant_id": [people[place] for place, _ in sides],
            "query_id": [query_ids[place] for place, _ in sides],
            "system": None,
            "image_ids": [list(study[place].images[side - 1]) for place, side in sides],
            "score": np.array(
                [study[place].scores[side - 1] for place, side in sides], dtype=np.int64
            ),
        }
    )
    queries = _table(
        {
            "query_id": query_ids,
            "target_id": [question.target for question in study],
            "text": "is red",
        }
    )
    return Release(
        folder=folder,
        name="small",
        version="1.0.0",
        kind="hp",
        study="by hand",
        simulated=simulated,
        preferences=preferences,
        sets=sets,
        queries=queries,
        scores=scores or {},
    )


def _table(columns: Mapping[str, object]) -> pd.DataFrame:
    """A table of these columns; without rows, only those of numbers have a type."""
    table = pd.DataFrame(columns)
    if len(table):
        return table
    return table.astype({name: object for name in table if not hasattr(columns[name], "dtype")})


def values_of(study: Sequence[Question]) -> pd.Series:
    """The metric that the study's questions carry, indexed by set_id."""
    ids = [f"{name}.{side}" for name in question_ids(study) for side in (1, 2)]
    flat = [value for question in study for value in question.values]
    return pd.Series(flat, index=ids, dtype="float64")


def with_sides_swapped(study: Sequence[Question]) -> list[Question]:
    """The same answers with set 1 and set 2 exchanged."""
    return [
        replace(
            question,
            preferred={0: 0, 1: 2, 2: 1}[question.preferred],
            scores=question.scores[::-1],
            images=question.images[::-1],
            values=question.values[::-1],
        )
        for question in study
    ]


def bootstrap_of(release: Release, n_resamples: int) -> Bootstrap:
    """Few resamples of participants."""
    return Bootstrap.of_release(release, unit="participant", n_resamples=n_resamples)


def participant_counts(bootstrap: Bootstrap) -> np.ndarray:
    """How often each participant is drawn in each resample, (n_resamples, n_participants)."""
    (people,) = bootstrap.parts
    return np.concatenate(list(people.counts(bootstrap.n_clusters_of(None))))


def expected_ends(
    estimate: float,
    resampled: Sequence[float] | np.ndarray,
    sizes: Iterable[int],
    bounds: tuple[float, float] = (0, 1),
) -> tuple[float, float]:
    """Student's interval on the scale of the logit, for clusters of these sizes."""
    rows = list(sizes)
    error = float(np.std(resampled)) * sqrt(len(rows) / (len(rows) - 1))
    return _student_ends(estimate, error, rows, bounds)


def clustered_ends(
    values: Sequence[float], clusters: Sequence[str], bounds: tuple[float, float] | None = (0, 1)
) -> tuple[float, float]:
    """The same of a mean, with the variance that follows from its clusters' errors."""
    mean, sizes, variance = fmean(values), Counter(clusters), 0.0
    for cluster, size in sizes.items():
        own = [value for value, each in zip(values, clusters, strict=True) if each == cluster]
        error = sum(value - mean for value in own) / len(values)
        variance += error**2 / (1 - size / len(values))
    return _student_ends(mean, sqrt(variance), list(sizes.values()), bounds)


def _student_ends(
    estimate: float, error: float, rows: Sequence[int], bounds: tuple[float, float] | None
) -> tuple[float, float]:
    df = max(1, sum(rows) ** 2 / sum(size**2 for size in rows) - 1)
    if bounds is None:
        return stats.t.interval(0.95, df, estimate, error)
    low, width = bounds[0], bounds[1] - bounds[0]
    share = (estimate - low) / width
    ends = stats.t.interval(0.95, df, logit(share), error / width / (share * (1 - share)))
    return low + width * float(expit(ends[0])), low + width * float(expit(ends[1]))


def write_release(release: Release, folder: Path) -> Path:
    """Write a release's files, with the types that the exporter gives them."""
    folder.mkdir()
    manifest = {
        name: getattr(release, name) for name in ("name", "version", "kind", "study", "simulated")
    }
    if release.content_sha256 is not None:
        manifest["content_sha256"] = release.content_sha256
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for name in ("preferences", "sets", "queries"):
        rows = getattr(release, name).astype(object)
        rows = rows.where(rows.notna(), None).to_dict("records")
        schema = pa.schema(
            [(column, _TYPES.get(column, pa.string())) for column in getattr(release, name)]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{name}.parquet")
    return folder


_TYPES = {
    "image_ids": pa.list_(pa.string()),
    "irrelevant": pa.bool_(),
    **dict.fromkeys(("score", "score_1", "score_2", "preferred", "side"), pa.int8()),
}
