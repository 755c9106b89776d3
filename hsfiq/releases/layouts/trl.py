"""`trl`: preferences in TRL's format (prompt, chosen, rejected, images), for a model that judges.

The prompt has the reference image, the images of set 1 and those of set 2, best first, and the
text; the answer is the name of a set. `images` has the images in the order of the prompt's places.
Format: huggingface.co/docs/trl/dataset_formats ("Preference", vision).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.kinds.rows import Part
from hsfiq.releases.layouts.packed_images import (
    JudgedQuestion,
    Pictures,
    read_judged,
    value_feature,
    with_features,
)
from hsfiq.text import count_text

AT_ONCE = 32
SETS = ("Set 1", "Set 2")
PART = pa.struct([("type", pa.string()), ("text", pa.string())])
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(PART))]))
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SCHEMA = pa.schema(
    {
        "prompt": MESSAGES,
        "chosen": MESSAGES,
        "rejected": MESSAGES,
        "images": pa.list_(IMAGE),
        "question_id": pa.string(),
    }
)
ASK = "Which set of images fits the request better?"


def write_trl(folder: Path, pictures: Pictures | None) -> list[str]:
    """Write `trl.parquet`, or one file for each part of a split; return notes on omissions.

    Without `pictures`, images have a path, which is the image's id, and no bytes. With them, a
    question with an absent image is left out, since the model could not see it.
    """
    images = (
        {"feature": {"_type": "Image"}, "_type": "List"}
        if pictures
        else value_feature(SCHEMA.field("images").type)
    )
    schema = with_features(SCHEMA, {"images": images})
    left_out: Counter[str] = Counter()
    writers: dict[Part | None, pq.ParquetWriter] = {}
    try:
        for batch in read_judged(folder):
            rows: dict[Part | None, list[dict[str, Any]]] = {}
            for question in batch:
                row = trl_row(question, pictures, left_out)
                if row is not None:
                    rows.setdefault(question.part, []).append(row)
            for part, of_part in rows.items():
                if part not in writers:
                    path = folder / (f"trl-{part}.parquet" if part else "trl.parquet")
                    writers[part] = pq.ParquetWriter(path, schema, compression="zstd")
                writers[part].write_table(pa.Table.from_pylist(of_part, schema=schema))
    finally:
        for writer in writers.values():
            writer.close()
    return [
        f"trl.parquet lacks {count_text(n, 'question')}: {why}"
        for why, n in sorted(left_out.items())
    ]


def trl_row(
    question: JudgedQuestion, pictures: Pictures | None, left_out: Counter[str]
) -> dict[str, Any] | None:
    if question.preferred == 0:
        left_out["ties"] += 1
        return None
    images = list(images_of(question, pictures))
    if pictures and any(image["bytes"] is None for image in images):
        left_out["an image is absent"] += 1
        return None
    preferred = question.preferred - 1
    return {
        "prompt": [{"role": "user", "content": list(prompt(question))}],
        "chosen": [answer(SETS[preferred])],
        "rejected": [answer(SETS[1 - preferred])],
        "images": images,
        "question_id": question.question_id,
    }


def prompt(question: JudgedQuestion) -> Iterator[dict[str, str | None]]:
    if question.reference is not None:
        yield text_part("Original image:")
        yield {"type": "image", "text": None}
    if question.text:
        yield text_part(f"Request: {question.text}")
    for name, images in zip(SETS, question.sets, strict=True):
        yield text_part(f"{name}:")
        for _ in images:
            yield {"type": "image", "text": None}
    yield text_part(ASK)


def text_part(text: str) -> dict[str, str | None]:
    return {"type": "text", "text": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [text_part(text)]}


def images_of(question: JudgedQuestion, pictures: Pictures | None) -> Iterator[dict[str, Any]]:
    for image_id in question.image_ids:
        picture = pictures.read(question.dataset, image_id) if pictures else None
        yield {"bytes": picture.content if picture else None, "path": image_id}
