"""The files of RELEASE.scores/, one metric each.

`<name>.images.parquet` has the images' scores, `<name>.parquet` the sets'. `<name>.json`, written
last, has their provenance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from glob import escape
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.atomic_files import write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import clear, sha256_of, to_json
from hsfiq.model.release_scores.set_scores import SetScores

_COLUMNS: dict[str, pa.DataType] = {"set_id": pa.string(), "score": pa.float64()}
SET_SCORES = pa.schema(_COLUMNS)
IMAGE_SCORES = SET_SCORES.insert(1, pa.field("image_id", pa.string()))


def scores_folder(release: Path) -> Path:
    """`RELEASE.scores`, beside the release."""
    real = release.resolve()
    return real.with_name(f"{real.name}.scores")


def file_names(name: str) -> tuple[str, str, str]:
    """A metric's files in the order in which they are written."""
    return f"{name}.images.parquet", f"{name}.parquet", f"{name}.json"


def require_metric_name(name: str) -> None:
    is_file_name = name.strip() != "" and name == Path(name).name
    if not is_file_name or name.startswith(".") or name.endswith(".images"):
        raise UnreadableInput("--name", f"{name!r} is not a file name", "write --name cirqrs")
    if name.lower().startswith("recall@"):
        raise UnreadableInput("--name", f"{name} is computed from the sets", "choose another")


def write_scores(
    folder: Path, name: str, scores: SetScores, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the three files, each atomically, the JSON file last; return its content."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in file_names(name):
        clear(folder, f".{escape(file)}-*.draft", kept=set())  # of a process that was killed
    images, sets, about = file_names(name)
    tables = {images: table(scores.images, IMAGE_SCORES), sets: table(scores.sets, SET_SCORES)}
    digests = {}
    for file, content in tables.items():
        write_whole(folder / file, content)
        digests[file] = sha256(content).hexdigest()
    result = {
        **provenance,
        "n_sets": len(scores.sets) + len(scores.unscored),
        "n_scored": len(scores.sets),
        "missing_images": scores.missing,
        "unscored_sets": scores.unscored,
        "files": digests,
    }
    write_whole(folder / about, to_json(result))
    return result


def table(rows: Sequence[tuple[str | float, ...]], schema: pa.Schema) -> bytes:
    entries = [dict(zip(schema.names, row, strict=True)) for row in rows]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), sink)
    return sink.getvalue()


def earlier_scores(folder: Path, name: str) -> dict[str, Any]:
    """The content of the JSON file of earlier scores, or empty; refuse files of other programs."""
    images, sets, about = (folder / file for file in file_names(name))
    if about.exists():
        try:
            content = json.loads(about.read_bytes())
        except ValueError:
            content = None
        if isinstance(content, dict) and content.get("metric") == name:
            return content
    # A process that was killed leaves the images' scores, or these and the sets'.
    elif images.exists() or not sets.exists():
        return {}
    raise UnreadableInput(
        str(about if about.exists() else sets),
        "was not written by hsfiq score under this name",
        "choose another --name, or --force",
    )


def are_complete(folder: Path, about: Mapping[str, Any]) -> bool:
    files = about.get("files")
    return isinstance(files, dict) and all(
        (folder / file).is_file() and sha256_of(folder / file) == digest
        for file, digest in files.items()
    )
