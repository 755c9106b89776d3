"""Read runs in any format, including those of the test servers, and write the servers' files.

CIRR's server accepts two JSON objects, {"version": "rc2", "metric": "recall",
pairid: [50 image ids], ...} and the same with "recall_subset" and 3 ids
(github.com/Cuberick-Orion/CIRR);
CIRCO's accepts {query id: [50 image ids]}, the ids as numbers (github.com/miccunifi/CIRCO).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hsfiq.readers.files import Place, kind, parse_json, read_text
from hsfiq.readers.runs import PlacedList, is_object, lists_in, not_empty, read_object

CirrMetric = Literal["recall", "recall_subset"]

VERSION = "rc2"
METRICS: tuple[CirrMetric, ...] = ("recall", "recall_subset")
LENGTHS: Mapping[CirrMetric, int] = {"recall": 50, "recall_subset": 3}
"""The image ids that CIRR's server expects for each query."""

CIRCO_LENGTH = 50
MAX_BYTES = 5_000_000
"""CIRR's server accepts files of 5 MB: here the smaller interpretation, 5 * 10^6 bytes."""


@dataclass(frozen=True, slots=True)
class Run:
    """The ranked lists of a file.

    `form` is `object` for one JSON object, as the servers expect; `metric` is that of a file for
    CIRR's server, None if the file does not name one.
    """

    path: Path
    form: Literal["object", "other"]
    lists: tuple[PlacedList, ...]
    metric: CirrMetric | None = None


def read_run(path: Path) -> Run:
    text = read_text(path)
    if not is_object(text):
        return Run(path, "other", tuple(lists_in(text, path)))
    top = Place(parse_json(text, str(path)), f"{path}: ")
    members = dict(top.items())
    # A query's id may be any text, but only queries have lists.
    about = {key for key in ("version", "metric") if not isinstance(top.value.get(key, []), list)}
    metric = read_about(top) if about else None
    lists = read_object((key, place) for key, place in members.items() if key not in about)
    return Run(path, "object", tuple(not_empty(lists, path)), metric)


def read_about(top: Place) -> CirrMetric:
    """The metric of a file for CIRR's server, which must name the right release."""
    version, metric = top.key("version"), top.key("metric")
    if version.value != VERSION:
        raise version.wrong(
            f"{kind(version.value)} is not {VERSION!r}", "make the lists with CIRR's release rc2"
        )
    known = next((name for name in METRICS if name == metric.value), None)
    if known is None:
        raise metric.wrong(f"{kind(metric.value)} is not one of {', '.join(METRICS)}")
    return known


def write_cirr(metric: CirrMetric, lists: Mapping[str, tuple[str, ...]]) -> bytes:
    return _compact({"version": VERSION, "metric": metric, **lists})


def write_circo(lists: Mapping[str, tuple[str, ...]]) -> bytes:
    return _compact({query: [int(image) for image in images] for query, images in lists.items()})


def _compact(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
