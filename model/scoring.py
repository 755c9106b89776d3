"""Scores for a release: a trained scorer gives every image of every retrieved set its relevance.

`RELEASE.scores/<name>.images.parquet` has the images' scores, `<name>.parquet` the sets': the mean
over a set's images (CIRQRS eq. 7), undivided by the temperature. `<name>.json`, written last, says
where they come from. What takes long, the images' tokens, is kept in the feature cache.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.errors import NothingToDo, UnreadableInput
from model.checkpoints import sha256_of, to_json, write_whole
from model.encoders.protocol import Pooling
from model.inference import Inference
from model.relevance import paired_relevance
from model.texts import normalise

T = TypeVar("T")

_COLUMNS: dict[str, pa.DataType] = {"set_id": pa.string(), "score": pa.float64()}
SET_SCORES = pa.schema(_COLUMNS)
IMAGE_SCORES = SET_SCORES.insert(1, pa.field("image_id", pa.string()))


@dataclass(frozen=True, slots=True)
class ReleasedSet:
    """A retrieved set with its query, as a release has them."""

    set_id: str
    reference: str
    text: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """What a scorer gave a release.

    Attributes:
        images: (set_id, image_id, score) of every image that has one.
        sets: (set_id, score) of the sets all of whose images have one.
        missing: the images that are missing or unreadable, sorted.
        unscored: the sets left without a score for them.
    """

    images: list[tuple[str, str, float]]
    sets: list[tuple[str, float]]
    missing: list[str]
    unscored: list[str]


def read_sets(release: Path) -> list[ReleasedSet]:
    """Read the sets of a release in its order.

    Raises:
        UnreadableInput: the folder is no release.
        NothingToDo: it has no sets.
    """
    queries = {
        row["query_id"]: (row["reference_id"], row["text"])
        for row in rows(release / "queries.parquet", ("query_id", "reference_id", "text"))
    }
    found = []
    for row in rows(release / "sets.parquet", ("set_id", "query_id", "image_ids")):
        if row["query_id"] not in queries:
            raise UnreadableInput(
                str(release / "sets.parquet"),
                f"set {row['set_id']} is of query {row['query_id']}, which queries.parquet lacks",
                "export the release again",
            )
        found.append(ReleasedSet(row["set_id"], *queries[row["query_id"]], tuple(row["image_ids"])))
    if not found:
        raise NothingToDo(f"{release}: the release has no sets to score")
    return found


def rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Some columns of a Parquet file, row by row.

    Raises:
        UnreadableInput: there is no such file, or it lacks one of them.
    """
    mend = "name the folder of a release, made by hsfiq export"
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file", mend)
    try:
        found: list[dict[str, Any]] = pq.read_table(path, columns=list(columns)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInput(str(path), f"cannot be read ({error})", mend) from error
    absent = [name for name in columns if found and name not in found[0]]
    if absent:
        raise UnreadableInput(str(path), f"has no column {absent[0]}", mend)
    return found


def score_sets(
    sets: Sequence[ReleasedSet], there: Collection[str], pooling: Pooling, inference: Inference
) -> Scored:
    """Score every image of every set.

    Args:
        sets: of a release.
        there: the images that have tokens.
        pooling: over an image's token vectors.
        inference: encodes.
    """
    possible = [it for it in sets if it.reference in there]
    images = [
        (it.set_id, image, relevance)
        for it, relevances in zip(
            possible, relevances_of(possible, there, pooling, inference), strict=True
        )
        for image, relevance in relevances.items()
    ]
    by_set: dict[str, list[float]] = defaultdict(list)
    for set_id, _, score in images:
        by_set[set_id].append(score)
    means = {
        it.set_id: fmean(by_set[it.set_id])
        for it in sets
        if len(by_set[it.set_id]) == len(it.images)
    }
    wanted = {image for it in sets for image in (it.reference, *it.images)}
    return Scored(
        images=images,
        sets=list(means.items()),
        missing=sorted(wanted.difference(there)),
        unscored=[it.set_id for it in sets if it.set_id not in means],
    )


def relevances_of(
    sets: Sequence[ReleasedSet], there: Collection[str], pooling: Pooling, inference: Inference
) -> Iterator[dict[str, float]]:
    """The relevance of each set's images that are there, to the set's query."""
    column = numbered(image for it in sets for image in it.images if image in there)
    row = numbered((it.reference, it.text) for it in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [normalise(text) for _, text in row]
    )  # [Q, D]
    for it in sets:
        present = [image for image in it.images if image in column]
        vectors = gallery[[column[image] for image in present]]  # [k, L, D]
        query = queries[row[it.reference, it.text]].expand(len(present), -1)  # [k, D]
        yield dict(zip(present, paired_relevance(query, vectors, pooling).tolist(), strict=True))


def numbered(names: Iterable[T]) -> dict[T, int]:
    """Each name once, with its number in the order in which they first come."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def write_scores(
    folder: Path, name: str, scored: Scored, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the three files, each whole or absent, the JSON file last.

    Returns:
        What the JSON file says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        f"{name}.images.parquet": table(scored.images, IMAGE_SCORES),
        f"{name}.parquet": table(scored.sets, SET_SCORES),
    }
    digests = {}
    for file, content in tables.items():
        write_whole(folder / file, content)
        digests[file] = sha256(content).hexdigest()
    said = {
        **provenance,
        "n_sets": len(scored.sets) + len(scored.unscored),
        "n_scored": len(scored.sets),
        "missing_images": scored.missing,
        "unscored_sets": scored.unscored,
        "files": digests,
    }
    write_whole(folder / f"{name}.json", to_json(said))
    return said


def table(found: Sequence[tuple[Any, ...]], schema: pa.Schema) -> bytes:
    """Rows as a Parquet file."""
    rows = [dict(zip(schema.names, row, strict=True)) for row in found]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def written(folder: Path, name: str) -> dict[str, Any] | None:
    """What an earlier scoring says of itself, None where its files are not as it left them."""
    path = folder / f"{name}.json"
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())
        same = all(sha256_of(folder / file) == it for file, it in said["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return said if same else None
