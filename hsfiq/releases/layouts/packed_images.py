"""`--with-images`: the image files of a release, packed as `images.parquet`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.images.store import Root, open_images
from hsfiq.kinds.rows import Part
from hsfiq.kinds.tables import IMAGES
from hsfiq.releases.folder import read_parts, read_rows

# The preferences of a release folder with their queries and images, for layouts to train on.

QUESTIONS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with its two sets, best first; `part` is None without a split."""

    question_id: str
    participant_id: str
    dataset: str
    reference: str | None
    target: str | None
    text: str
    sets: tuple[tuple[str, ...], tuple[str, ...]]
    scores: tuple[int, int]
    preferred: int
    part: Part | None

    @property
    def image_ids(self) -> tuple[str, ...]:
        """The reference, if there is one, then the images of set 1, then those of set 2."""
        reference = () if self.reference is None else (self.reference,)
        return (*reference, *self.sets[0], *self.sets[1])


def read_judged(folder: Path) -> Iterator[list[JudgedQuestion]]:
    """The questions in the order of `preferences`, some at a time.

    The two sets of a question follow each other in `sets`, in the order of the questions.
    """
    parts = read_parts(folder) if (folder / "splits.parquet").is_file() else {}
    columns = ("query_id", "dataset", "reference_id", "target_id", "text_shown")
    queries = {
        row["query_id"]: row
        for row in read_rows(
            folder / "queries.parquet", columns, nullable=("reference_id", "target_id")
        )
    }
    names = ["question_id", "participant_id", "query_id", "score_1", "score_2", "preferred"]
    with (
        pq.ParquetFile(folder / "preferences.parquet") as questions,
        pq.ParquetFile(folder / "sets.parquet") as sets,
    ):
        images = (
            tuple(row["image_ids"])
            for batch in sets.iter_batches(2 * QUESTIONS_AT_ONCE, columns=["image_ids"])
            for row in batch.to_pylist()
        )
        for batch in questions.iter_batches(QUESTIONS_AT_ONCE, columns=names):
            judged = []
            for row in batch.to_pylist():
                query = queries[row["query_id"]]
                judged.append(
                    JudgedQuestion(
                        row["question_id"],
                        row["participant_id"],
                        query["dataset"],
                        query["reference_id"],
                        query["target_id"],
                        query["text_shown"],
                        (next(images), next(images)),
                        (row["score_1"], row["score_2"]),
                        row["preferred"],
                        parts.get(row["question_id"]),
                    )
                )
            yield judged


LISTS = ("image_ids", "image_ids_1", "image_ids_2")
"""The columns that have the images of a set, or of a turn's lists."""
AT_ONCE = 32
"""Images in memory at a time."""

ImageKey = tuple[str, str]
"""An image's dataset and its id."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file with its bytes, name, and size in pixels."""

    content: bytes
    file_name: str
    width: int
    height: int


class Pictures:
    """The image files of the datasets that have a folder or a store."""

    def __init__(self, roots: Mapping[str, Root]) -> None:
        self._folders = {dataset: open_images(root) for dataset, root in roots.items()}

    def read(self, dataset: str, image_id: str) -> Picture | None:
        """None if the file is absent or cannot be decoded."""
        from hsfiq.images.decode import UndecodableImage, decoded  # noqa: PLC0415 -- needs Pillow

        folder = self._folders.get(dataset)
        path = None if folder is None else folder.find(image_id)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error
        try:
            with decoded(content) as image:
                width, height = image.size
        except UndecodableImage:
            return None
        return Picture(content, f"{Path(image_id).name}{path.suffix.lower()}", width, height)


def write_images(folder: Path, pictures: Pictures) -> int:
    """Write `images.parquet` of a release folder; return how many images are absent.

    Raises:
        NothingToDo: all are absent.
    """
    n_absent = n_images = 0
    schema = IMAGES.arrow()
    with pq.ParquetWriter(folder / "images.parquet", schema, compression="zstd") as writer:
        keys_left = image_keys(folder)
        while keys := list(islice(keys_left, AT_ONCE)):
            rows = [image_row(key, pictures.read(*key)) for key in keys]
            n_images += len(rows)
            n_absent += sum(row["image"] is None for row in rows)
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    if n_absent == n_images:
        raise NothingToDo(
            f"none of the {n_images:,} images are in the folders of the datasets",
            where="--with-images",
            remedy="name the folder with --images when you import the dataset",
        )
    return n_absent


def images_digest(folder: Path) -> str:
    """Digest the names and contents of the packed images, independently of the Parquet writer."""
    digest = hashlib.sha256()
    with pq.ParquetFile(folder / "images.parquet") as file:
        for batch in file.iter_batches(columns=["dataset", "image_id", "sha256"]):
            for row in batch.to_pylist():
                digest.update(f"{json.dumps(row, sort_keys=True)}\n".encode())
    return digest.hexdigest()


def image_row(key: ImageKey, picture: Picture | None) -> dict[str, Any]:
    dataset, image_id = key
    row: dict[str, Any] = dict.fromkeys(IMAGES.names) | {"dataset": dataset, "image_id": image_id}
    if picture is None:
        return row
    return row | {
        "file_name": picture.file_name,
        "width": picture.width,
        "height": picture.height,
        "bytes": len(picture.content),
        "sha256": hashlib.sha256(picture.content).hexdigest(),
        "image": picture.content,
    }


def image_keys(folder: Path) -> Iterator[ImageKey]:
    """The images that queries, sets and turns name, without duplicates, sorted."""
    columns = ("query_id", "dataset", "reference_id", "target_id")
    queries = read_rows(folder / "queries.parquet", columns, nullable=("reference_id", "target_id"))
    datasets = {row["query_id"]: row["dataset"] for row in queries}
    keys = {
        (row["dataset"], row[name])
        for row in queries
        for name in ("reference_id", "target_id")
        if row[name] is not None
    }
    for name in ("sets.parquet", "turns.parquet"):
        if (folder / name).is_file():
            keys.update((datasets[query], image) for query, image in images_judged(folder / name))
    yield from sorted(keys)


def images_judged(path: Path) -> Iterator[tuple[str, str]]:
    """Each image that a table of sets or of turns names, with the query.

    A turn has its reference, unless that is the participant's own picture, and one list or two.
    """
    with pq.ParquetFile(path) as file:
        lists = [name for name in LISTS if name in file.schema_arrow.names]
        references = [name for name in ("reference_id",) if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=["query_id", *references, *lists]):
            for row in batch.to_pylist():
                named = [row[name] for name in references]
                named += [image for name in lists for image in row[name] or ()]
                yield from ((row["query_id"], image) for image in named if image is not None)


def with_features(schema: pa.Schema, features: Mapping[str, Any]) -> pa.Schema:
    """The schema with the features of all columns, which `datasets` needs for decoding."""
    described = {name: value_feature(schema.field(name).type) for name in schema.names}
    info = {"info": {"features": described | dict(features)}}
    return schema.with_metadata({"huggingface": json.dumps(info)})


def value_feature(kind: pa.DataType) -> Any:
    """The feature of `datasets` for a type of Arrow."""
    if pa.types.is_list(kind):
        return {"_type": "List", "feature": value_feature(kind.value_type)}
    if pa.types.is_struct(kind):
        return {field.name: value_feature(field.type) for field in kind}
    return {"_type": "Value", "dtype": str(kind)}
