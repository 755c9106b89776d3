"""Small studies, written by hand or drawn by Hypothesis, as releases in memory and on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import FEW_CLUSTERS, expanded_tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    answered = list(zip(question_ids(study), study, strict=True))
    preferences = pd.DataFrame(
        [
            {
                "question_id": name,
                "participant_id": question.participant,
                "query_id": f"query {name}",
                "set_1": f"{name}.1",
                "set_2": f"{name}.2",
                "system_1": None,
                "system_2": None,
                "score_1": question.scores[0],
                "score_2": question.scores[1],
                "preferred": question.preferred,
                "irrelevant": False,
            }
            for name, question in answered
        ],
        columns=[
            *("question_id", "participant_id", "query_id", "set_1", "set_2"),
            *("system_1", "system_2", "score_1", "score_2", "preferred", "irrelevant"),
        ],
    ).astype({"score_1": "int64", "score_2": "int64", "preferred": "int64"})
    sets = pd.DataFrame(
        [
            {
                "set_id": f"{name}.{side}",
                "question_id": name,
                "side": side,
                "participant_id": question.participant,
                "query_id": f"query {name}",
                "system": None,
                "image_ids": list(question.images[side - 1]),
                "score": question.scores[side - 1],
            }
            for name, question in answered
            for side in (1, 2)
        ],
        columns=[
            *("set_id", "question_id", "side", "participant_id"),
            *("query_id", "system", "image_ids", "score"),
        ],
    ).astype({"score": "int64"})
    queries = pd.DataFrame(
        [
            {"query_id": f"query {name}", "target_id": question.target, "text": "is red"}
            for name, question in answered
        ],
        columns=["query_id", "target_id", "text"],
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


def values_of(study: Sequence[Question]) -> pd.Series:
    """The metric that the study's questions carry, indexed by set_id."""
    ids = [f"{name}.{side}" for name in question_ids(study) for side in (1, 2)]
    flat = [value for question in study for value in question.values]
    return pd.Series(flat, index=ids, dtype="float64")


def bootstrap_of(release: Release, n_resamples: int) -> Bootstrap:
    """Few resamples of participants."""
    return Bootstrap.of_release(release, unit="participant", n_resamples=n_resamples)


def participant_counts(bootstrap: Bootstrap) -> np.ndarray:
    """How often each participant is drawn in each resample, (n_resamples, n_participants)."""
    (people,) = bootstrap.parts
    return np.concatenate(list(people.counts(bootstrap.n_clusters_of(None))))


def expected_ends(resampled: Sequence[float] | np.ndarray, n_clusters: int) -> tuple[float, ...]:
    """The percentiles of the resamples of 5 or more clusters, expanded below 30."""
    tail = expanded_tail(n_clusters) if n_clusters < FEW_CLUSTERS else 0.025
    return tuple(np.quantile(resampled, [tail, 1 - tail]))


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
