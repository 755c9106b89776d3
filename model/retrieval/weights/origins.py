"""What an imported checkpoint records: its files and its frozen image encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.retrieval.weights.published_files import PublishedFile

IMPORTED_FROM = "imported_from"
"""The key of a checkpoint's JSON file for the published files."""

NOT_COMPARED = (
    "Their authors trained them; their licence and their published figures hold. Names and shapes "
    "of all tensors were compared with the model, but its lists have not been compared with "
    "published figures."
)


def encoder_of(encoder: FrozenEncoder) -> dict[str, Any]:
    return {
        "encoder": {
            "name": encoder.name,
            "frozen_sha256": encoder.frozen_id(),
            "tokens": list(encoder.tokens_shape),
        },
        "preprocessing": json.loads(json.dumps(asdict(encoder.preprocessing))),
    }


def origins(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    return [
        {
            "file": file.path.name,
            "sha1": file.sha1,
            "known_as": file.known.name if file.known else None,
        }
        for file in files
    ]


def card_section(about: Mapping[str, Any]) -> dict[str, Iterable[str]]:
    """The published files, as a section of the model card."""
    files = [
        f"- `{file['file']}`, SHA-1 `{file['sha1']}`: {file['known_as'] or 'not a known file'}"
        for file in about[IMPORTED_FROM]
    ]
    return {"Published files": [*files, "", NOT_COMPARED]}
