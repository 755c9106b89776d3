"""A release folder: its manifest, checked, and its tables, read in batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.answer_rules import HIGHEST_SCORE, LOWEST_SCORE
from hsfiq.arrow_columns import ARROW_TYPES, CONTENT
from hsfiq.atomic_files import sha256_of
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.ids import set_id
from hsfiq.kinds import KIND_OF_RELEASE, RELEASE_KINDS, Kind, ReleaseKind
from hsfiq.kinds.rows import Part
from hsfiq.kinds.tables import Table
from hsfiq.readers.files import Place
from hsfiq.readers.files import kind as found
from hsfiq.releases import untrusted
from hsfiq.study.filters import NamedFilter
from hsfiq.study.publication import ADDED, AnalysisPlan, LeftOut, Publication, plan_errors
from hsfiq.study.recruiting import Mode
from hsfiq.text import first_few

# The manifest, which makes a folder a release.

MANIFEST = "manifest.json"
MADE_OF_THE_MANIFEST = ("README.md", "croissant.json")
ANALYSIS = "analysis"
"""The analysis plan declared before the study opened; absent without a plan."""
SPLIT_OPTIONS = ("by", "seed", "test_share")
LONGEST_KEY = 250
NAME_A_RELEASE = "name the folder of a release, made by hsfiq export"


RELEASE_KEYS = {"name": str, "version": str, "kind": str}
OUR_KEYS = {**RELEASE_KEYS, "content_sha256": str}


def manifest_of(folder: Path, keys: Mapping[str, type] = OUR_KEYS) -> dict[str, Any]:
    """Read the manifest of a release folder, which must have at least these keys.

    Raises:
        UnreadableInput: the folder is not a release, or its manifest cannot be read or lacks a key.
    """
    path = folder / MANIFEST
    if folder.is_file():
        raise UnreadableInput(folder, "is a file", f"name the release's folder{of_file(folder)}")
    if not folder.is_dir():
        raise UnreadableInput(folder, "there is no such folder", NAME_A_RELEASE)
    if not path.exists() and (inside := releases_in(folder)):
        what = f"is not a release, but contains {len(inside)}: {first_few(inside)}"
        raise UnreadableInput(folder, what, f"name one of them, such as {folder / inside[0]}")
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "there is no such file"
        raise UnreadableInput(path, what, NAME_A_RELEASE)
    manifest = untrusted.bounded_json(path)
    if not isinstance(manifest, dict):
        raise UnreadableInput(path, "is not a JSON object", NAME_A_RELEASE)
    for key, kind in keys.items():
        if not isinstance(manifest.get(key), kind):
            what = f'key "{key}" is missing or not of type {kind.__name__}'
            raise UnreadableInput(path, what, NAME_A_RELEASE)
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a folder; None if the folder is not an hsfiq release.

    Other programs also write files named manifest.json.
    """
    try:
        return manifest_of(folder)
    except (UnreadableInput, OSError):
        return None


def require_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of an untrusted release folder.

    Raises:
        UnreadableInput: the folder is not a release, or its manifest is a link or has invalid
        values.
    """
    path = folder / MANIFEST
    if path.is_symlink():
        raise UnreadableInput(path, "is a symbolic link", untrusted.REGULAR_ALONE)
    manifest = manifest_of(folder)
    require_shape(manifest, path)
    return manifest


def of_file(file: Path) -> str:
    """The folder of a release that a file is in, for an error."""
    return f", {file.parent}" if (file.parent / MANIFEST).is_file() else ""


def releases_in(folder: Path) -> list[str]:
    """The names of the folders in a folder that are releases."""
    return sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))


def points_of(manifest: Mapping[str, Any]) -> int | None:
    """The points of the scale for sets; None in releases older than other scales."""
    scale = manifest.get("scale")
    points = scale.get("points") if isinstance(scale, dict) else None
    return points if isinstance(points, int) else None


def has_packed_images(folder: Path) -> bool:
    return bool((read_manifest(folder) or {}).get("images"))


def content_digest(manifest: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """Digest the options of an export and its text files, whose digests are given by name.

    Parquet files differ between versions of pyarrow, so the only Parquet data in the digest are the
    packed images, by their digest in the manifest.

    Raises:
        KeyError, TypeError, ValueError: the manifest lacks an option or has an invalid one.
    """
    texts = {
        name: digest
        for name, digest in digests.items()
        if not name.endswith(".parquet") and name not in (*MADE_OF_THE_MANIFEST, MANIFEST)
    }
    content = json.dumps([manifest["name"], *options_of(manifest), texts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def filters_in(manifest: Mapping[str, Any]) -> list[str]:
    """The filters of the export, as `--filter` takes them."""
    return [
        str(NamedFilter(each["name"], *next(iter(each["parameters"].items()), ())))
        for each in manifest["filters"]
    ]


def options_of(manifest: Mapping[str, Any]) -> Iterator[Any]:
    """The filters, other requested options and statements."""
    yield filters_in(manifest)
    if split := manifest.get("split"):
        yield {name: split[name] for name in SPLIT_OPTIONS}
    extras: dict[str, Any] = {"layouts": sorted(manifest.get("layouts", ()))}
    extras |= {name: manifest.get(name) for name in ("images", "without")}
    if any(extras.values()):
        yield {name: value for name, value in extras.items() if value}
    stated = {name: value for name, value in manifest["publication"].items() if value is not None}
    if stated:
        always = asdict(Publication()).items()
        yield {name: value for name, value in always if name not in ADDED} | stated
    if plan := manifest.get(ANALYSIS):
        yield {ANALYSIS: plan}


def require_listed_digests(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise `NothingToDo` unless each Parquet file has the digest that the manifest lists.

    A manifest without digests, such as another tool's, is accepted.
    """
    listed = manifest.get("files")
    for name, facts in listed.items() if isinstance(listed, dict) else ():
        path, digest = folder / name, facts.get("sha256") if isinstance(facts, dict) else None
        if path.suffix != ".parquet" or digest is None:
            continue
        if not path.is_file():
            raise NothingToDo(
                "is missing, but the manifest lists it", where=str(path), remedy=EXPORT_AGAIN
            )
        if sha256_of(path) != digest:
            raise NothingToDo(
                "differs from the file that the manifest lists",
                where=str(path),
                remedy=f"{EXPORT_AGAIN}, or add --no-verify",
            )


# ------------------------------------------------------------------------------------------- shape

Shape = Callable[[Place], object]
"""Raises `UnreadableInput`, with the place, for a value that readers of manifests cannot use."""

MOST_OF_COUNT = 2**53


def count(place: Place) -> None:
    """A whole number that is not negative."""
    if not 0 <= place.integer() <= MOST_OF_COUNT:
        raise place.wrong(f"expected a count, found {found(place.value)}")


def maybe(shape: Shape) -> Shape:
    return lambda place: None if place.value is None else shape(place)


def each(shape: Shape) -> Shape:
    def check(place: Place) -> None:
        for member in place.members():
            shape(member)

    return check


def by_name(shape: Shape) -> Shape:
    def check(place: Place) -> None:
        for _, member in place.items(LONGEST_KEY):
            shape(member)

    return check


def record(*needed: str, **shapes: Shape) -> Shape:
    """An object with the keys `needed` and values of these `shapes`; other keys are ignored."""

    def check(place: Place) -> None:
        for key in needed:
            place.key(key)
        for key, member in place.items(LONGEST_KEY):
            if key in shapes:
                shapes[key](member)

    return check


def one_of(*values: str) -> Shape:
    def check(place: Place) -> None:
        if place.text() not in values:
            raise place.wrong(f"expected {' or '.join(values)}, found {found(place.value)}")

    return check


def inside(place: Place) -> None:
    if not untrusted.is_inside(place.value):
        raise place.wrong(f"{found(place.value)} does not name a file inside the release's folder")


def distinct_files(place: Place) -> None:
    """A list of names of files, each of them once."""
    names: set[str] = set()
    for member in place.members():
        inside(member)
        if member.value in names:
            raise member.wrong(f"{found(member.value)} occurs twice")
        names.add(member.value)


def files(place: Place) -> None:
    """Names of files with their digests and sizes."""
    for name, member in place.items(LONGEST_KEY):
        inside(place.with_value(name))
        record(sha256=Place.text, bytes=count)(member)


def as_it_is(place: Place) -> None:
    """A text, a number, true, false or null, or lists and objects of such values."""
    value = place.value
    if isinstance(value, dict):
        by_name(as_it_is)(place)
    elif isinstance(value, list):
        each(as_it_is)(place)
    elif isinstance(value, str):
        place.text()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        place.number()


def moment(place: Place) -> None:
    """A time in ISO 8601."""
    try:
        datetime.fromisoformat(place.text())
    except ValueError as error:
        raise place.wrong(f"expected a time, found {found(place.value)}") from error


OF_PLAN = record(
    *("question", "pair", "statistic", "margin", "alpha", "exclusions", "opened_at"),
    question=Place.text,
    pair=maybe(each(Place.text)),
    statistic=Place.text,
    margin=maybe(Place.number),
    alpha=Place.number,
    exclusions=each(Place.text),
    opened_at=maybe(moment),
)


def declared_plan(place: Place) -> None:
    OF_PLAN(place)
    for key, what in plan_errors(AnalysisPlan.of(place.value)):
        raise place.key(key.removeprefix(f"{ANALYSIS}.")).wrong(what)


def plan_in(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """The analysis plan of an untrusted release; None if the release declares none.

    Raises:
        UnreadableInput: the plan has an unexpected type or value.
    """
    plan = manifest.get(ANALYSIS)
    if plan is not None:
        declared_plan(Place(plan, ANALYSIS, Place(manifest, f"{folder / MANIFEST}: ")))
    return plan


OF_CORPUS = record("name", "size", "sha256", name=Place.text, size=count, sha256=Place.text)
SHAPE = record(
    name=Place.text,
    version=Place.text,
    kind=Place.text,
    study=Place.text,
    title=maybe(Place.text),
    origin=one_of("collected", "imported", "simulated"),
    instrument=maybe(Place.text),
    scale=maybe(record(points=count, levels=count, anchors=maybe(each(Place.text)))),
    ties_allowed=Place.truth,
    languages=maybe(each(Place.text)),
    wording=maybe(by_name(Place.text)),
    searches=record(
        *("k", "task", "rounds", "history", "chooser"),
        k=count,
        task=Place.text,
        target_seconds=count,
        rounds=count,
        history=Place.text,
        chooser=Place.text,
        uploads=Place.truth,
    ),
    retrievers=each(
        record(
            *("system", "version", "corpus"),
            system=Place.text,
            version=Place.text,
            corpus=OF_CORPUS,
        )
    ),
    simulated=Place.truth,
    publication=record(
        **dict.fromkeys(
            ("licence", "citation", "contact", "url", "date", *ADDED), maybe(Place.text)
        ),
        authors=maybe(each(Place.text)),
    ),
    design=record(
        *("queries_from", "sample", "annotators_per_query", "overlap_share"),
        *("image_order", "seed", "recruitment"),
        queries_from=maybe(Place.text),
        sample=maybe(count),
        annotators_per_query=count,
        overlap_share=Place.number,
        image_order=Place.text,
        seed=Place.integer,
        recruitment=one_of(*get_args(Mode)),
        panel=Place.text,
    ),
    source_sha256=Place.text,
    datasets=each(Place.text),
    filters=each(record(name=Place.text, parameters=by_name(Place.number))),
    funnel=record(
        assigned=maybe(count),
        steps=each(
            record(
                "rule",
                rule=Place.text,
                dropped=maybe(count),
                left=maybe(count),
                broken_by=maybe(count),
            )
        ),
        kept=maybe(count),
    ),
    counts=by_name(count),
    split=maybe(
        record(by=Place.text, seed=Place.integer, test_share=Place.number, n=by_name(count))
    ),
    parts=by_name(by_name(inside)),
    layouts=by_name(distinct_files),
    images=maybe(record(sha256=Place.text)),
    without=each(one_of(*get_args(LeftOut))),
    left_out=by_name(count),
    chosen_by=record(
        *("strategy", "uncertainty", "seed"),
        strategy=Place.text,
        uncertainty=Place.text,
        seed=Place.integer,
        scorers=each(Place.text),
    ),
    analysis=maybe(declared_plan),
    notes=each(Place.text),
    files=files,
    content_sha256=Place.text,
)


def require_shape(manifest: Mapping[str, Any], path: Path) -> None:
    """Raise `UnreadableInput` for the first value of an unexpected type.

    Keys may be missing: releases of older versions lack some.
    """
    place = Place(manifest, f"{path}: ")
    SHAPE(place)
    as_it_is(place)


# Reading the tables of a release folder as typed records, for `hsfiq` and `hsfiq.model`.
#
# Only the columns in use are read; `hsfiq.kinds` lists all of them. A table that is
# missing, unreadable or invalid raises `UnreadableInput`.

PARTS: tuple[Part, ...] = get_args(Part)
QUERIES, SETS, PREFERENCES = "queries.parquet", "sets.parquet", "preferences.parquet"
TURNS, VOTES = "turns.parquet", "votes.parquet"
EXCLUSIONS, SPLITS = "exclusions.parquet", "splits.parquet"

EXPORT_AGAIN = "export the release again"
EXPORT_WITH_SPLIT = "export the release again, with --split"


@dataclass(frozen=True, slots=True)
class ReleasedQuery:
    """A query with its triplet. `reference` is None or `text` empty if the query has none.

    `target` is None if it is unknown.
    """

    query_id: str
    triplet_id: str
    dataset: str
    reference: str | None
    target: str | None
    text: str


@dataclass(frozen=True, slots=True)
class ReleasedSet:
    """A retrieved set, its images best first, with the reference and the text of its query."""

    set_id: str
    query_id: str
    reference: str
    text: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleasedPreference:
    """An answered question: its sets' ids, their Likert scores, the preferred set (0 = tie)."""

    question_id: str
    participant_id: str
    query_id: str
    set_1: str
    set_2: str
    score_1: int
    score_2: int
    preferred: int


@dataclass(frozen=True, slots=True)
class ReleasedExclusion:
    """A dropped question's participant, and the rule that dropped the question."""

    participant_id: str
    rule: str


def read_queries(release: Path) -> dict[str, ReleasedQuery]:
    columns = ("query_id", "triplet_id", "dataset", "reference_id", "target_id", "text")
    rows = read_rows(release / QUERIES, columns, nullable=("reference_id", "target_id"))
    return {row["query_id"]: ReleasedQuery(*(row[name] for name in columns)) for row in rows}


def read_sets(release: Path) -> list[ReleasedSet]:
    """Read the retrieved sets of a release, for a scorer; `NothingToDo` if it has none.

    In a release of searches, the lists of turns are the sets: see `read_lists`. `UnreadableInput`
    if a query has no reference or no text: scorers need both.
    """
    if is_of_searches(release):
        return read_lists(release)
    queries = read_queries(release)
    path = release / SETS
    sets = []
    for row in read_rows(path, ("set_id", "query_id", "image_ids")):
        query = queries.get(row["query_id"])
        if query is None:
            what = f"set {row['set_id']} has query {row['query_id']}, which is not in {QUERIES}"
            raise UnreadableInput(str(path), what, EXPORT_AGAIN)
        reference = query.reference
        if reference is None or not query.text:
            raise UnreadableInput(
                f"{release / QUERIES}: query {query.query_id}",
                f"has no {'text' if reference else 'reference image'}",
                "a scorer needs both for every query of the release",
            )
        sets.append(
            ReleasedSet(
                row["set_id"], query.query_id, reference, query.text, tuple(row["image_ids"])
            )
        )
    if not sets:
        raise NothingToDo(f"{release}: the release has no sets")
    return sets


def is_of_searches(release: Path) -> bool:
    return (release / TURNS).is_file()


def read_lists(release: Path) -> list[ReleasedSet]:
    """Read the lists of searches, each with the reference and the text of its turn.

    The id of a list consists of its search's id and the turn's number. Turns without a list, with a
    redacted text, or with a participant's own picture, which the release does not contain, are left
    out.
    """
    if (release / VOTES).is_file():
        what = "is a release of an arena, which has two lists per turn"
        raise UnreadableInput(str(release), what, "score a release of searches or of sets")
    columns = ("question_id", "turn", "query_id", "reference_id", "text", "image_ids")
    lists = [
        ReleasedSet(
            set_id(row["question_id"], row["turn"]),
            row["query_id"],
            row["reference_id"],
            row["text"],
            tuple(row["image_ids"]),
        )
        for row in read_rows(release / TURNS, columns, nullable=("text", "reference_id"))
        if row["text"] is not None and row["reference_id"] is not None and row["image_ids"]
    ]
    if not lists:
        raise NothingToDo(f"{release}: the release has no list with a text")
    return lists


def read_preferences(release: Path) -> list[ReleasedPreference]:
    path = release / PREFERENCES
    points = points_of(read_manifest(release) or {}) or HIGHEST_SCORE
    columns = (
        *("question_id", "participant_id", "query_id", "set_1", "set_2"),
        *("score_1", "score_2", "preferred"),
    )
    preferences = []
    for row in read_rows(path, columns):
        where = f"{path}: question {row['question_id']}"
        if row["preferred"] not in (0, 1, 2):
            raise UnreadableInput(
                where, f"preferred is {row['preferred']}, not 1, 2 or 0", EXPORT_AGAIN
            )
        for name in ("score_1", "score_2"):
            if not LOWEST_SCORE <= row[name] <= points:
                what = f"{name} is {row[name]}, not from {LOWEST_SCORE} to {points}"
                raise UnreadableInput(where, what, EXPORT_AGAIN)
        preferences.append(ReleasedPreference(*(row[name] for name in columns)))
    return preferences


def read_exclusions(release: Path) -> list[ReleasedExclusion]:
    rows = read_rows(release / EXCLUSIONS, ("participant_id", "rule"))
    return [ReleasedExclusion(row["participant_id"], row["rule"]) for row in rows]


def read_parts(release: Path) -> dict[str, Part]:
    """Read the part of each question, by id, of a release that was exported with `--split`."""
    path = release / SPLITS
    parts: dict[str, Part] = {}
    for row in read_rows(path, ("question_id", "part"), remedy=EXPORT_WITH_SPLIT):
        question, part = row["question_id"], row["part"]
        if part not in PARTS:
            what = f"part is {part} in question {question}, not {', '.join(PARTS)}"
            raise UnreadableInput(str(path), what, EXPORT_WITH_SPLIT)
        if question in parts:
            raise UnreadableInput(
                str(path), f"question_id occurs twice: {question}", EXPORT_WITH_SPLIT
            )
        parts[question] = part
    return parts


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    nullable: Collection[str] = (),
    remedy: str = NAME_A_RELEASE,
) -> list[dict[str, Any]]:
    """Read columns of a Parquet file as rows; only the `nullable` ones may contain nulls."""
    table = read_table(path, columns, remedy=remedy)
    for name in columns:
        if name not in nullable and table[name].null_count:
            row = table[name].is_null().index(True).as_py() + 1
            raise UnreadableInput(path, f"column {name} is null in row {row}", remedy)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def read_table(
    path: Path, columns: Sequence[str] | None = None, *, remedy: str = EXPORT_AGAIN
) -> pa.Table:
    """Read columns of a Parquet file, or all.

    Raises:
        UnreadableInput: the file is missing, no regular file or unreadable, or lacks a column.
    """
    if not path.is_file():  # to read a FIFO is to wait for its writer
        what = "is not a regular file" if path.exists() else "there is no such file"
        raise UnreadableInput(path, what, remedy)
    try:
        with pq.ParquetFile(path) as file:
            for name in columns or ():
                if name not in file.schema_arrow.names:
                    raise UnreadableInput(path, f"column {name} is missing", remedy)
            return file.read(columns=None if columns is None else list(columns))
    except (pa.ArrowException, OSError, ValueError) as error:
        what = f"cannot be read ({' '.join(str(error).split())})"
        raise UnreadableInput(path, what, remedy) from error


FEW_ROWS = 1000
"""Below this number of rows, reading with several threads takes longer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a table; the first has the number `start`, from 1."""

    start: int
    rows: pa.RecordBatch

    def column(self, name: str) -> list[Any] | None:
        """The values of a column; None if the file lacks it."""
        place = self.rows.schema.get_field_index(name)
        return None if place < 0 else self.rows.column(place).to_pylist()

    def numbered(self, *names: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row's number and its values of these columns, or of all; missing ones are None."""
        chosen = names or tuple(self.rows.schema.names)
        n_rows = self.rows.num_rows
        columns = [self.column(name) or [None] * n_rows for name in chosen]
        for place, values in enumerate(zip(*columns, strict=True)):
            yield self.start + place, dict(zip(chosen, values, strict=True))


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """A release on disk: its manifest, its kind, and the tables whose Parquet files are readable.

    `broken` has the reason why each other Parquet file cannot be read, including files of parts and
    layouts.
    """

    path: Path
    manifest: Mapping[str, Any]
    kind: ReleaseKind
    tables: Mapping[str, Table]
    broken: Mapping[str, str]

    @property
    def question_kind(self) -> Kind:
        return KIND_OF_RELEASE[self.kind.name]

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.schema(table).names)

    def schema(self, table: str) -> pa.Schema:
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            return file.schema_arrow

    def n_rows(self, table: str) -> int:
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            return int(file.metadata.num_rows)

    def batches(self, table: str, *columns: str) -> Iterator[Batch]:
        """The table's rows, of these columns or of all; columns missing in the file are omitted."""
        start = 1
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            chosen = [name for name in columns if name in file.schema_arrow.names]
            for rows in file.iter_batches(
                untrusted.ROWS_AT_ONCE,
                columns=chosen if columns else None,
                use_threads=file.metadata.num_rows > FEW_ROWS,
            ):
                yield Batch(start, rows)
                start += rows.num_rows


def open_release(path: Path) -> ReleaseFolder:
    """Open an untrusted release folder, even if its tables are damaged.

    Raises:
        UnreadableInput: the folder has no valid manifest, the kind is unknown, or the folder
        contains forbidden things, such as links or names of files outside the folder.
    """
    manifest = require_manifest(path)
    untrusted.require_regular_files(path)
    kind = RELEASE_KINDS.get(manifest["kind"])
    if kind is None:
        known = ", ".join(RELEASE_KINDS)
        what = f"kind {manifest['kind'][:40]!r} is unknown; known kinds: {known}"
        raise UnreadableInput(str(path / MANIFEST), what, "use a newer hsfiq")
    files = [file for file in untrusted.files_in(path) if file.suffix == ".parquet"]
    unopened_files = untrusted.unopened(files)
    tables = {}
    broken = {
        file.relative_to(path).with_suffix("").as_posix(): problem
        for file, problem in unopened_files.items()
    }
    for name, table in kind.all_tables().items():
        file = path / f"{name}.parquet"
        if not file.is_file() or file in unopened_files:
            continue
        problem = untrusted.table_problem(file)
        if problem is None:
            tables[name] = table
        else:
            broken[name] = problem
    return ReleaseFolder(path, manifest, kind, tables, broken)


def require_readable(path: Path) -> None:
    """Refuse a folder with unsafe tables; the reader reports missing ones.

    Manifests of other tools, and compatible column types, are accepted.

    Raises:
        UnreadableInput: the folder has a file that is not regular, or a table that cannot be read,
        needs more memory than its size justifies, or has a column of an incompatible type.
    """
    if not (path / MANIFEST).exists():
        return
    untrusted.require_regular_files(path)
    manifest = untrusted.read_bounded_json(path / MANIFEST)
    kind = RELEASE_KINDS.get(str(manifest.get("kind"))) if isinstance(manifest, dict) else None
    described = kind.all_tables() if kind else {}
    known = described or {table for kind in RELEASE_KINDS.values() for table in kind.schemas()}
    files = {name: path / f"{name}.parquet" for name in sorted(known)}
    files = {name: file for name, file in files.items() if file.is_file()}
    unopened_files = untrusted.unopened(list(files.values()))
    for name, file in files.items():
        problem = unopened_files.get(file) or untrusted.table_problem(file)
        if problem is None and name in described:
            with pq.ParquetFile(file) as opened:
                problem = unlike(opened.schema_arrow, described[name])
        if problem is not None:
            raise UnreadableInput(str(file), problem, EXPORT_AGAIN)


def unlike(schema: pa.Schema, table: Table) -> str | None:
    """A column of an incompatible type; None if there is none."""
    for field in schema:
        known = field.name in table.names
        if known and not is_like(field.type, table[field.name].arrow_type):
            return f"column {field.name} is {field.type}, and not {table[field.name].type_name}"
        if not known and not is_ours(field.type):
            name = untrusted.shortened(field.name)
            return f"column {name} is {field.type}, which no column of a release has"
    return None


def is_ours(kind: pa.DataType) -> bool:
    return any(is_like(kind, own) for own in ARROW_TYPES.values() if own != CONTENT)


def is_content(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whole numbers, too: pandas writes them as floats where a column has nulls."""
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


CLASSES = (untrusted.is_text, is_content, is_number, pa.types.is_boolean, pa.types.is_timestamp)


def is_like(kind: Any, ours: Any) -> bool:
    """Whether a type holds values as ours does, such as int64 for int8."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    if untrusted.is_list(ours):
        return untrusted.is_list(kind) and is_like(kind.value_type, ours.value_type)
    return any(is_of(ours) and is_of(kind) for is_of in CLASSES)
