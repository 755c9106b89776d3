"""Systems' ranked lists: JSONL, CSV, spreadsheet, TREC run, or {query id: [image ids]} as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers import files
from hsfiq.records import RankedList
from hsfiq.text import has_control_character

JSONL_KEYS = ("query_id", "images", "scores", "system")
CSV_COLUMNS = ("query_id", "system", "rank", "image_id", "score")
TREC_FIELDS = 6


class PlacedList(NamedTuple):
    """A ranked list and its place in a file, for error messages."""

    where: str
    ranked: RankedList


class RankedImage(NamedTuple):
    """A line of a run with one image."""

    rank: int
    image: str
    score: float | None
    where: str


Rows = defaultdict[tuple[str, str], list[RankedImage]]
"""By query and system."""


def read(path: Path, system: str | None = None) -> list[PlacedList]:
    """Read a run in any of the formats.

    `system` replaces the system's name in the file; it is needed if the file has none.
    """
    if system is not None:
        system_name(files.Place(system, "--system"))
    lists = lists_in(path, system)
    for where, ranked in lists:
        if not ranked.system:
            raise UnreadableInput(
                where, "the run does not name its system", "name it with --system"
            )
    return lists


def lists_in(path: Path, system: str | None = None) -> list[PlacedList]:
    """The lists of a file; a system without a name is ""."""
    if files.is_sheet(path):
        lists = read_table(files.sheet_rows(path, "query_id"), system)
        refuse_repeated(lists)
        return not_empty(lists, path)
    return lists_in_text(files.read_text(path), path, system)


def lists_in_text(text: str, path: Path, system: str | None = None) -> list[PlacedList]:
    if not text.strip():
        raise UnreadableInput(str(path), "the run is empty")
    if is_object(text):
        lists = read_object(
            files.Place(files.parse_json(text, str(path)), f"{path}: ").items(), system
        )
        return not_empty(lists, path)
    if text.lstrip().startswith("{"):
        lists = read_jsonl(text, path, system)
    elif files.has_header(text, "query_id"):
        lists = read_table(files.csv_rows(text, path, "query_id"), system)
    else:
        lists = read_trec(text, path, system)
    refuse_repeated(lists)
    return lists


def not_empty(lists: list[PlacedList], path: Path) -> list[PlacedList]:
    if not lists:
        raise UnreadableInput(str(path), "the run is empty")
    return lists


def is_object(text: str) -> bool:
    """Whether the text is one JSON object, not JSON lines."""
    return text.lstrip().startswith("{") and not is_jsonl(text)


def is_jsonl(text: str) -> bool:
    """Whether the first line is a complete object that names a query."""
    first = text.lstrip().partition("\n")[0]
    return '"query_id"' in first and first.rstrip().endswith("}")


def read_object(
    members: Iterable[tuple[str, files.Place]], system: str | None = None
) -> list[PlacedList]:
    """The lists of {query id: [image ids]}, which does not name its system."""
    return [make(place.where, query_id, system, outside_ids(place)) for query_id, place in members]


def system_name(place: files.Place) -> str:
    """A system's name, which is printed in lines, on pages and in file names."""
    name = place.name()
    if has_control_character(name):
        raise place.wrong("has a line break or another control character")
    return name


def outside_ids(place: files.Place) -> tuple[str, ...]:
    """The ids in a list; an id may be written as an integer."""
    if place.holds_names():
        return tuple(place.value)
    return tuple(outside_id(image) for image in place.list())


def outside_id(place: files.Place) -> str:
    """An id, which may be written as an integer."""
    if isinstance(place.value, int):
        return files.Place(str(place.integer()), place.where).name()
    return place.name()


def read_jsonl(text: str, path: Path, system: str | None) -> list[PlacedList]:
    lists = []
    for number, line in files.numbered_lines(text):
        where = f"{path}: line {number}"
        place = files.Place(files.parse_json(line, str(path), number), where)
        place.only(*JSONL_KEYS)
        scores = place.value.get("scores")
        own = place.value.get("system")
        lists.append(
            make(
                where,
                outside_id(place.key("query_id")),
                system or (None if own is None else system_name(place.key("system"))),
                outside_ids(place.key("images")),
                None if scores is None else tuple(s.number() for s in place.key("scores").list()),
            )
        )
    return lists


def read_trec(text: str, path: Path, system: str | None) -> list[PlacedList]:
    """Read six columns per line and sort each query's lines by rank."""
    rows = Rows(list)
    for number, line in files.numbered_lines(text):
        where = f"{path}: line {number}"
        fields = line.split()
        if len(fields) != TREC_FIELDS:
            raise UnreadableInput(
                where,
                f"{len(fields)} columns, but a TREC run has {TREC_FIELDS}",
                "use a TREC run, JSONL, CSV with column names or {query id: [image ids]}",
            )
        query_id, _, image, rank, score, tag = fields
        name = system or system_name(files.Place(tag, where))
        rows[query_id, name].append(
            RankedImage(rank_of(rank, where), image, number_of(score, where), where)
        )
    return ranked_lists(rows)


def read_table(table: Iterable[files.Place], system: str | None) -> list[PlacedList]:
    """Read one image per row and sort each query's rows by rank."""
    rows = Rows(list)
    for place in table:
        place.only(*CSV_COLUMNS)
        query_id, image = (
            files.outside_name(files.required(place, key)) for key in ("query_id", "image_id")
        )
        own = files.outside_name(files.cell(place, "system")) if "system" in place.value else ""
        rank = rank_of(files.required(place, "rank").text().strip(), place.where)
        score = place.value.get("score")
        rows[query_id, system or own].append(
            RankedImage(
                rank, image, None if score is None else number_of(score, place.where), place.where
            )
        )
    return ranked_lists(rows)


def rank_of(rank: str, where: str) -> int:
    try:
        return int(rank)
    except ValueError as error:
        raise UnreadableInput(where, f"rank {files.kind(rank)} is not a whole number") from error


def number_of(score: str, where: str) -> float:
    try:
        return files.Place(float(score), where).number()
    except ValueError as error:
        raise UnreadableInput(where, f"score {files.kind(score)} is not a number") from error


def ranked_lists(rows: Rows) -> list[PlacedList]:
    """The lists of images by query and system, best first."""
    lists = []
    for (query_id, name), members in rows.items():
        members.sort(key=lambda member: member.rank)
        for before, after in pairwise(members):
            if before.rank == after.rank:
                raise UnreadableInput(after.where, f"query {query_id} has rank {after.rank} twice")
        images = tuple(member.image for member in members)
        scores = tuple(member.score for member in members if member.score is not None)
        if 0 < len(scores) < len(members):
            where = next(member.where for member in members if member.score is None)
            raise UnreadableInput(where, f"has no score, but query {query_id} has others")
        lists.append(make(members[0].where, query_id, name, images, scores or None))
    return lists


def make(
    where: str,
    query_id: str,
    system: str | None,
    images: tuple[str, ...],
    scores: tuple[float, ...] | None = None,
) -> PlacedList:
    try:
        return PlacedList(where, RankedList(query_id, system or "", images, scores))
    except InvalidRecord as error:
        raise UnreadableInput(where, str(error)) from error


def refuse_repeated(lists: list[PlacedList]) -> None:
    seen: set[tuple[str, str]] = set()
    for where, ranked in lists:
        key = (ranked.system, ranked.query_id)
        if key in seen:
            whose = f" for {ranked.system}" if ranked.system else ""
            raise UnreadableInput(where, f"query {ranked.query_id} occurs twice{whose}")
        seen.add(key)


# Read runs in any format, including those of the test servers, and write the servers' files.
#
# CIRR's server accepts two JSON objects, {"version": "rc2", "metric": "recall",
# pairid: [50 image ids], ...} and the same with "recall_subset" and 3 ids
# (github.com/Cuberick-Orion/CIRR);
# CIRCO's accepts {query id: [50 image ids]}, the ids as numbers (github.com/miccunifi/CIRCO).

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
    text = "" if files.is_sheet(path) else files.read_text(path)
    if not is_object(text):
        lists = lists_in(path) if files.is_sheet(path) else lists_in_text(text, path)
        return Run(path, "other", tuple(lists))
    top = files.Place(files.parse_json(text, str(path)), f"{path}: ")
    members = dict(top.items())
    # A query's id may be any text, but only queries have lists.
    about = {key for key in ("version", "metric") if not isinstance(top.value.get(key, []), list)}
    metric = read_about(top) if about else None
    lists = read_object((key, place) for key, place in members.items() if key not in about)
    return Run(path, "object", tuple(not_empty(lists, path)), metric)


def read_about(top: files.Place) -> CirrMetric:
    """The metric of a file for CIRR's server, which must name the right release."""
    version, metric = top.key("version"), top.key("metric")
    if version.value != VERSION:
        raise version.wrong(
            f"{files.kind(version.value)} is not {VERSION!r}",
            "make the lists with CIRR's release rc2",
        )
    known = next((name for name in METRICS if name == metric.value), None)
    if known is None:
        raise metric.wrong(f"{files.kind(metric.value)} is not one of {', '.join(METRICS)}")
    return known


def write_cirr(metric: CirrMetric, lists: Mapping[str, tuple[str, ...]]) -> bytes:
    return _compact({"version": VERSION, "metric": metric, **lists})


def write_circo(lists: Mapping[str, tuple[str, ...]]) -> bytes:
    return _compact({query: [int(image) for image in images] for query, images in lists.items()})


def _compact(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
