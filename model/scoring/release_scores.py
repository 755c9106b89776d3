"""Scores for a release: a trained scorer gives every image of every retrieved set its relevance.

`RELEASE.scores/<name>.images.parquet` has the images' scores, `<name>.parquet` the sets': the mean
over a set's images (CIRQRS eq. 7), undivided by the temperature. `<name>.json`, written last, says
where they come from. What takes long, the images' tokens, is kept in the feature cache.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.atomic_files import write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import clear, sha256_of, to_json
from hsfiq.model.data.texts import normalise
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.scorer import paired_relevance, set_score
from hsfiq.releases.reader import ReleasedSet

T = TypeVar("T")

_COLUMNS: dict[str, pa.DataType] = {"set_id": pa.string(), "score": pa.float64()}
SET_SCORES = pa.schema(_COLUMNS)
IMAGE_SCORES = SET_SCORES.insert(1, pa.field("image_id", pa.string()))


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
    possible = [
        it for it in sets if it.reference in there and any(image in there for image in it.images)
    ]
    images: list[tuple[str, str, float]] = []
    means: dict[str, float] = {}
    relevances = relevances_of(possible, there, pooling, inference) if possible else ()
    for it, of_images in zip(possible, relevances, strict=True):
        images += [(it.set_id, image, score) for image, score in of_images.items()]
        if of_images.keys() == set(it.images):
            means[it.set_id] = set_score(of_images[image] for image in it.images)
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
    for file in file_names(name):
        clear(folder, f".{escape(file)}-*.draft", kept=set())  # of a process that was killed
    images, sets, about = file_names(name)
    tables = {images: table(scored.images, IMAGE_SCORES), sets: table(scored.sets, SET_SCORES)}
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
    write_whole(folder / about, to_json(said))
    return said


def file_names(name: str) -> tuple[str, str, str]:
    """A metric's files in the order in which they are written."""
    return f"{name}.images.parquet", f"{name}.parquet", f"{name}.json"


def table(found: Sequence[tuple[Any, ...]], schema: pa.Schema) -> bytes:
    """Rows as a Parquet file."""
    rows = [dict(zip(schema.names, row, strict=True)) for row in found]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def said_before(folder: Path, name: str) -> dict[str, Any]:
    """What an earlier scoring says of itself, nothing where there was none.

    Raises:
        UnreadableInput: files of the name are there that no scoring wrote.
    """
    images, sets, about = (folder / file for file in file_names(name))
    if about.exists():
        try:
            said = json.loads(about.read_bytes())
        except ValueError:
            said = None
        if isinstance(said, dict) and said.get("metric") == name:
            return said
    # A scoring that was killed leaves the images' scores, or these and the sets'.
    elif images.exists() or not sets.exists():
        return {}
    raise UnreadableInput(
        str(about if about.exists() else sets),
        "is none that hsfiq score wrote under this name",
        "choose another --name, or --force",
    )


def is_whole(folder: Path, said: Mapping[str, Any]) -> bool:
    """Whether an earlier scoring's files are as it left them."""
    files = said.get("files")
    return isinstance(files, dict) and all(
        (folder / file).is_file() and sha256_of(folder / file) == digest
        for file, digest in files.items()
    )
