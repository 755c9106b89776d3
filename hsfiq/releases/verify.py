"""Verifying a release: its files, its description, and the values of its tables."""

from __future__ import annotations

import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from statistics import median_low
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.arrow_columns import json_lines
from hsfiq.atomic_files import sha256_of
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.kinds.tables import Column
from hsfiq.readers.files import Place, parse_json
from hsfiq.readers.hpfiq import KEYS, LONGEST_FORM, LONGEST_PERSON
from hsfiq.releases.croissant import DATA_TYPES
from hsfiq.releases.folder import (
    MANIFEST,
    PARTS,
    ReleaseFolder,
    as_it_is,
    content_digest,
    is_ours,
    open_release,
    points_of,
)
from hsfiq.releases.layouts.csv_files import write_csv, write_parts
from hsfiq.releases.layouts.trl import write_trl
from hsfiq.releases.untrusted import (
    columns_of,
    files_in,
    is_inside,
    is_regular,
    read_bounded_json,
    shortened,
)
from hsfiq.releases.verify_rows import (
    Findings,
    Relations,
    check_alike,
    check_answers,
    check_counts,
    check_funnel,
    check_keys,
    check_owners,
    check_queries_are_used,
    check_references,
    check_split,
    relations,
)

# The files of a release against its manifest: their digests, and that none is missing or extra.

CROISSANT = "croissant.json"


def check_files(release: ReleaseFolder, findings: Findings) -> None:
    listed = release.manifest.get("files")
    if not isinstance(listed, Mapping):
        findings.note(f"{MANIFEST} lists no digests: an older release; its files are not compared")
        return
    for name, entry in listed.items():
        path = release.path / name
        if not is_regular(path):
            findings.add(name, f"is missing, but {MANIFEST} lists it")
            continue
        expected = entry if isinstance(entry, Mapping) else {}
        if (size := path.stat().st_size) != expected.get("bytes", size):
            findings.add(name, f"has {size:,} bytes, and {MANIFEST} says {expected['bytes']:,}")
        elif sha256_of(path) != expected.get("sha256"):
            findings.add(name, f"differs from the file that {MANIFEST} lists (sha256)")
    for path in files_in(release.path):
        name = path.relative_to(release.path).as_posix()
        if name not in listed and name != MANIFEST:
            findings.add(name, f"is in the folder, and {MANIFEST} does not list it")


def check_content_digest(release: ReleaseFolder, findings: Findings) -> None:
    """The digest of the content is that of the options and the digests that the manifest lists.

    Whether the files have these digests is for `check_files`.
    """
    listed = release.manifest.get("files")
    if not isinstance(listed, Mapping) or "publication" not in release.manifest:
        findings.note(f"{MANIFEST} is of an older hsfiq; its content_sha256 is not compared")
        return
    try:
        digests = {name: entry["sha256"] for name, entry in listed.items()}
        expected = content_digest(release.manifest, digests)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"cannot be made again ({type(error).__name__}: {error})"
        findings.add(MANIFEST, what, column="content_sha256")
        return
    if release.manifest["content_sha256"] != expected:
        what = "is not that of the options and of the files that the manifest lists"
        findings.add(MANIFEST, what, column="content_sha256")


def check_tables_are_there(release: ReleaseFolder, findings: Findings) -> None:
    for name, reason in release.broken.items():
        findings.add(f"{name}.parquet", reason)
    for name, table in release.kind.all_tables().items():
        has_lines = (release.path / f"{name}.jsonl").is_file()
        if name in release.tables or name in release.broken:
            if not has_lines and table.has_lines:
                findings.add(f"{name}.jsonl", f"is missing beside {name}.parquet")
        elif has_lines or not table.present:
            findings.add(f"{name}.parquet", "is missing")


# --------------------------------------------------------------------------------------- croissant


def check_croissant(release: ReleaseFolder, findings: Findings) -> None:
    """The tables, columns, types and digests that croissant.json describes are those of the files.

    A column that neither has is of a newer hsfiq, which is a note.
    """
    described = read_croissant(release, findings)
    if described is None:
        return
    for key in ("name", "version"):
        if described.get(key) != release.manifest[key]:
            what = f"is {described.get(key)!r}, and {MANIFEST} says {release.manifest[key]!r}"
            findings.add(CROISSANT, what, column=key)
    for file in objects(described, "distribution"):
        url, digest = file.get("contentUrl"), file.get("sha256")
        if not is_inside(url):
            what = f"{shortened(repr(url))} does not name a file inside the release's folder"
            findings.add(CROISSANT, what, column="distribution")
            continue
        path = release.path / str(url)
        if not is_regular(path):
            findings.add(CROISSANT, f"describes {url}, which is missing", column="distribution")
        elif digest is not None and digest != sha256_of(path):
            findings.add(CROISSANT, f"has another sha256 of {url}", column="distribution")
    types = described_types(described)
    for name in types.keys() - release.tables.keys() - release.broken.keys():
        findings.add(CROISSANT, f"describes table {name}, which is missing", column="recordSet")
    for name in release.tables:
        check_described(release, name, types.get(name), findings)


def check_described(
    release: ReleaseFolder, name: str, types: Mapping[str, Any] | None, findings: Findings
) -> None:
    if types is None:
        findings.add(CROISSANT, f"does not describe table {name}", column="recordSet")
        return
    schema = release.schema(name)
    for unknown in sorted(types.keys() - set(schema.names)):
        findings.add(CROISSANT, f"{name}.parquet has no such column", column=f"{name}/{unknown}")
    for column in schema:
        where, type_ = f"{name}/{column.name}", DATA_TYPES.get(column.type)
        if column.name not in types:
            findings.add(CROISSANT, f"does not describe this column of {name}", column=where)
        elif type_ is not None and types[column.name] != type_:
            what = f"is {types[column.name]}, and in {name}.parquet {column.type}"
            findings.add(CROISSANT, what, column=where)


def read_croissant(release: ReleaseFolder, findings: Findings) -> dict[str, Any] | None:
    path = release.path / CROISSANT
    if not path.is_file():
        findings.add(CROISSANT, "is missing")
        return None
    try:
        described = read_bounded_json(path)
    except UnreadableInput as error:
        findings.add(CROISSANT, f"is not JSON ({error.what})")
        return None
    if not isinstance(described, dict):
        findings.add(CROISSANT, "is not a JSON object")
        return None
    return described


def objects(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = value.get(key)
    if not isinstance(listed, list):
        return []
    return [entry for entry in listed if isinstance(entry, Mapping)]


def described_types(described: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The data type of each column, by table."""
    return {
        str(table.get("name")): {
            str(field.get("name")): field.get("dataType") for field in objects(table, "field")
        }
        for table in objects(described, "recordSet")
    }


# Files of a release beside its tables: they have the same answers.

HPFIQ, QRELS, RECORDS, TEXTS = (
    "hpfiq.json",
    "qrels.txt",
    "session_records.jsonl",
    "text_versions.json",
)

SPARE_EMPTY_SETS = 100
"""Empty question sets allowed in addition to one for each row of `preferences`."""
OF_SYSTEMS = ("system", "system_1", "system_2")


def check_further(tables: Relations, findings: Findings) -> None:
    """Compare each file with the tables that it repeats, if the release has them all."""
    release = tables.release
    checks: dict[str, tuple[set[str], Callable[[Relations, Findings], None]]] = {
        HPFIQ: ({"preferences", "queries", "sets"}, check_hpfiq),
        QRELS: ({"relevance"}, check_qrels),
        RECORDS: ({"sessions"}, check_records),
        TEXTS: (set(), check_text_versions),
    }
    if release.question_kind.is_live:
        checks[MANIFEST] = ({"sessions"}, check_searches)
    for name, (needed, check) in checks.items():
        if not (release.path / name).is_file() or not needed <= release.tables.keys():
            continue
        try:
            check(tables, findings)
        except HsfiqError as error:
            findings.add(name, f"is not in its layout ({error.what})")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            findings.add(name, f"is not in its layout ({type(error).__name__}: {error})")


# ------------------------------------------------------------------------------------------- hpfiq


def check_hpfiq(tables: Relations, findings: Findings) -> None:
    """The published layout has the questions of `preferences`, in its order."""
    for listed, row in zip_longest(published_answers(tables.release), answers_in(tables)):
        if listed is None:
            findings.add(HPFIQ, f"lacks question {row['question']}")
            return
        if row is None:
            findings.add(HPFIQ, f"has {listed['question']}, which preferences.parquet lacks")
            return
        number = row.pop("row")
        for column, value in row.items():
            if listed[column] != value:
                what = f"is {listed[column]!r} of {listed['question']}, and in the tables {value!r}"
                findings.add(HPFIQ, what, row=number, column=column)


def answers_in(tables: Relations) -> Iterator[dict[str, Any]]:
    """Each row of `preferences` with what the published layout has of it."""
    rows = tables.rows(
        """
        select p."#", p.participant_id, p.form, q.reference_id, q.target_id, p.text,
               s1.image_ids, p.score_1, s2.image_ids, p.score_2, p.preferred
        from preferences p
        left join queries q on q.query_id = p.query_id
        left join sets s1 on s1.set_id = p.set_1
        left join sets s2 on s2.set_id = p.set_2
        order by p."#"
        """
    )
    for row, person, form, reference, target, text, first, score_1, second, score_2, best in rows:
        yield {
            "row": row,
            "question": (person, form),
            "ref_img_paths": reference,
            "targ_img_paths": target,
            "sentences": text,
            "retrieved_set1": (first, score_1),
            "retrieved_set2": (second, score_2),
            "preferred set": best,
        }


def published_answers(release: ReleaseFolder) -> Iterator[dict[str, Any]]:
    """The questions of the published layout.

    Raises:
        UnreadableInput: the name of a user or a question set cannot be stored, a user has no
            question set, or too many sets are empty (a published study may have some).
    """
    n_empty, most_empty = 0, release.n_rows("preferences") + SPARE_EMPTY_SETS
    for participant, forms in users_in(release):
        Place(participant, f"{HPFIQ}: ").name(LONGEST_PERSON)
        if not forms:
            raise UnreadableInput(HPFIQ, f"{participant[:40]!r} has no question set")
        for form, place in Place(forms, f"{HPFIQ}: ").items(LONGEST_FORM):
            columns = {name: place.key(name).value for name in KEYS}
            n_empty += not any(columns.values())
            if n_empty > most_empty:
                raise UnreadableInput(HPFIQ, f"has more than {most_empty:,} empty question sets")
            for values in zip(*columns.values(), strict=True):
                listed = dict(zip(KEYS, values, strict=True))
                yield {
                    "question": (participant, form),
                    "ref_img_paths": image_of(listed["ref_img_paths"]),
                    "targ_img_paths": image_of(listed["targ_img_paths"]),
                    "sentences": listed["sentences"],
                    "retrieved_set1": set_of(listed["retrieved_set1"]),
                    "retrieved_set2": set_of(listed["retrieved_set2"]),
                    "preferred set": int(listed["preferred set"]),
                }


def users_in(release: ReleaseFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    """The users of a file with our indent, one at a time."""
    lines: list[str] = []
    with (release.path / HPFIQ).open(encoding="utf-8") as file:
        for line in file:
            if line.startswith('  "'):
                lines = [line]
            elif lines:
                lines.append(line)
                if line.rstrip(",\n") == "  }":
                    text = "{" + "".join(lines).rstrip(",\n") + "}"
                    ((user, forms),) = parse_json(text, HPFIQ).items()
                    yield user, forms
                    lines = []


def image_of(path: str) -> str:
    return PurePosixPath(path).stem


def set_of(value: dict[str, Any]) -> tuple[list[str], int]:
    return [image_of(path) for path in value["img_path"]], int(value["user_score"])


# ---------------------------------------------------------------------------------------- the rest


def check_qrels(tables: Relations, findings: Findings) -> None:
    """Each line has the median level that annotators gave the image for the query."""
    levels: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in tables.dicts("relevance", "query_id", "image_id", "relevance"):
        levels[row["query_id"], row["image_id"]].append(row["relevance"])
    expected = (f"{query} 0 {image} {median_low(own)}" for (query, image), own in levels.items())
    with (tables.release.path / QRELS).open(encoding="utf-8") as file:
        lines = (line.rstrip("\n") for line in file)
        for number, (line, own) in enumerate(zip_longest(lines, expected), start=1):
            if line != own:
                what = f"is {line or 'missing'!r}, and by relevance.parquet {own!r}"
                findings.add(QRELS, what, row=number)


def check_records(tables: Relations, findings: Findings) -> None:
    """Each session is a search, with its participant, its query and as many rounds as turns."""
    names = ("question_id", "participant_id", "query_id", "turns")
    searches = {row["question_id"]: row for row in tables.dicts("sessions", *names)}
    with (tables.release.path / RECORDS).open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            record = parse_json(line, RECORDS, number)
            own = searches.pop(record["session_id"], None)
            if own is None:
                what = f"{record['session_id']} is not in sessions.parquet, or twice here"
                findings.add(RECORDS, what, row=number)
                continue
            given = {
                "participant": (record.get("participant"), own["participant_id"]),
                "query_id": (record.get("query_id"), own["query_id"]),
                "rounds": (len(record["rounds"]), own["turns"]),
            }
            for name, (value, expected) in given.items():
                if value != expected:
                    what = f"is {value}, and in the tables {expected}"
                    findings.add(RECORDS, what, row=number, column=name)
    for name, own in searches.items():
        if own["turns"]:
            findings.add(RECORDS, f"lacks {name}, which has {own['turns']} turns")


def check_searches(tables: Relations, findings: Findings) -> None:
    """Each search has the settings of the manifest, and retrievers that it describes."""
    release = tables.release
    if "retrievers" not in release.manifest:
        findings.note(f"{MANIFEST} does not say what the retrievers were: it is of an older hsfiq")
        return
    searches = release.manifest["searches"]
    corpora = {each["system"]: each["corpus"] for each in release.manifest["retrievers"]}
    settings = {name: searches[name] for name in ("task", "history", "chooser")}
    for batch in release.batches("sessions"):
        for number, row in batch.numbered():
            expected = {**settings, "max_rounds": searches["rounds"]}
            systems = [name for name in OF_SYSTEMS if name in row]
            for name in systems:
                if row[name] not in corpora:
                    what = f"{row[name]} is no retriever of {MANIFEST}"
                    findings.add("sessions.parquet", what, row=number, column=name)
            if corpus := corpora.get(row[systems[0]]):
                expected |= {"corpus": corpus["name"], "corpus_size": corpus["size"]}
            for name, value in expected.items():
                if row[name] != value:
                    what = f"is {row[name]}, and in {MANIFEST} {value}"
                    findings.add("sessions.parquet", what, row=number, column=name)


def check_text_versions(tables: Relations, findings: Findings) -> None:
    """The versions of the texts that pages showed are in the file of their texts."""
    known = [number for number, _ in text_versions(tables.release.path)]
    unknown = """
        select "#", text_version from main_rows
        where text_version is not null and not list_contains(?, text_version) order by "#"
    """
    for row, version in tables.rows(unknown, known):
        what = f"{version} is not in {TEXTS}"
        findings.add(f"{tables.main}.parquet", what, row=row, column="text_version")


def text_versions(folder: Path) -> list[tuple[int, Any]]:
    """The number and the texts of each version; none if the release does not have the file.

    Raises:
        UnreadableInput: the file is not in its layout.
    """
    path = folder / TEXTS
    if not path.is_file():
        return []
    versions = []
    for place in Place(read_bounded_json(path), f"{path}: ").list():
        texts = place.key("texts")
        list(texts.items())
        as_it_is(texts)
        versions.append((place.key("number").integer(), texts.value))
    if len({number for number, _ in versions}) < len(versions):
        raise UnreadableInput(str(path), "has a version twice")
    return versions


# Files that repeat a release's tables: JSON lines, the tables in parts, and layouts.
#
# JSON lines are compared with the Parquet files, row by row where they differ; the tables in parts,
# `csv` and `trl` with the same files made again. Packed images, and what is made of them, are
# compared by their digests only.

Row = dict[str, Any]

FEW_ROWS = 100
SPARE = 2**16
LONGEST_LINE = 2**24
"""Bytes of a line that differs from the row of the Parquet file."""


def check_lines(release: ReleaseFolder, table: str, findings: Findings) -> None:
    path, name = release.path / f"{table}.jsonl", f"{table}.jsonl"
    if not path.is_file():
        return
    n_rows = release.n_rows(table)
    with path.open("rb") as file:
        for batch in release.batches(table):
            start = file.tell()
            expected = json_lines(pa.Table.from_batches([batch.rows])).to_pybytes()
            if file.read(len(expected)) == expected:
                continue  # which is faster than comparing row by row
            file.seek(start)
            for number, row in batch.numbered():
                line, own = file.readline(LONGEST_LINE), as_line(row)
                if not line:
                    what = f"is missing: {table}.parquet has {n_rows:,} rows"
                    findings.add(name, what, row=number)
                    return
                if len(line) == LONGEST_LINE > len(own):
                    findings.add(name, f"has more than {LONGEST_LINE:,} bytes", row=number)
                    return
                if line != own:
                    check_line(name, number, row, line, findings)
        if file.read(1):
            findings.add(name, f"is not in {table}.parquet: {n_rows:,} rows", row=n_rows + 1)


def check_line(
    name: str, number: int, row: dict[str, Any], line: bytes, findings: Findings
) -> None:
    try:
        value = parse_json(line.decode(), name, number)
    except (UnreadableInput, UnicodeDecodeError) as error:
        reason = error.what if isinstance(error, UnreadableInput) else "not UTF-8"
        findings.add(name, f"is not JSON ({reason})", row=number)
        return
    if not isinstance(value, dict):
        findings.add(name, "is not a JSON object", row=number)
        return
    for column, expected, given in differences(row, value):
        what = f"is {given}, and in {name.removesuffix('.jsonl')}.parquet {expected}"
        findings.add(name, what, row=number, column=column)


def differences(row: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The columns that differ, each with the text of the Parquet file's value and of the line's."""
    for column in row.keys() | value.keys():
        expected = as_json(row[column]) if column in row else "absent"
        given = as_json(value[column]) if column in value else "absent"
        if expected != given:
            yield column, expected, given


def as_line(row: dict[str, Any]) -> bytes:
    return f"{as_json(row)}\n".encode()


def as_json(value: object) -> str:
    """A value as `hsfiq.releases` writes it: times in ISO 8601."""
    return json.dumps(value, ensure_ascii=False, default=as_text)


def as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


# ------------------------------------------------------------------------------ made again


def check_repeated_tables(release: ReleaseFolder, findings: Findings) -> None:
    """Tables in parts and as CSV have the names that we write, of tables that the release has."""
    layouts, parts = release.manifest.get("layouts", {}), release.manifest.get("parts", {})
    for file in layouts.get("csv", ()):
        if not (file.endswith(".csv") and file.removesuffix(".csv") in release.tables):
            findings.add(MANIFEST, f"{file} is the CSV of no table", column="layouts.csv")
    for table, files in parts.items():
        for part, file in files.items():
            if table not in release.tables or file != f"{table}-{part}.parquet":
                findings.add(MANIFEST, f"{file} is the part of no table", column=f"parts.{table}")
            elif part not in PARTS:
                findings.add(MANIFEST, f"{part} is no part of a split", column=f"parts.{table}")


def check_rebuilt(release: ReleaseFolder, findings: Findings) -> None:
    """Compare row by row; call it only for a release without other findings.

    Files that were made of wrong tables would only repeat what is wrong with them.
    """
    layouts, parts = release.manifest.get("layouts", {}), release.manifest.get("parts", {})
    has_images = bool(release.manifest.get("images"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in release.tables:
            file = f"{table}.parquet"
            (folder / file).symlink_to((release.path / file).resolve())
        makers: list[tuple[Iterable[str], Callable[[], object]]] = []
        if "csv" in layouts:
            tables = [Path(file).stem for file in layouts["csv"]]
            makers.append((layouts["csv"], lambda: write_csv(folder, tables)))
        if "trl" in layouts and not has_images:
            makers.append((layouts["trl"], lambda: write_trl(folder, None)))
        if parts:
            files = [file for of_table in parts.values() for file in of_table.values()]
            makers.append((files, lambda: write_parts(folder, parts)))
        for repeated, make in makers:
            compare(release.path, folder, repeated, make, findings)
    if has_images:
        findings.note("images.parquet, trl and webdataset are compared by their digests only")


def compare(
    ours: Path, again: Path, files: Iterable[str], make: Callable[[], object], findings: Findings
) -> None:
    """Make files again and add what differs: the first row of each file."""
    try:
        make()
    except (HsfiqError, pa.ArrowException, OSError) as error:
        findings.add("manifest.json", f"its layouts cannot be made again ({error})")
        return
    for file in files:
        if not (ours / file).is_file():
            continue  # `check_files` has found this
        if not (again / file).is_file():
            findings.add(file, "has rows, and the tables give none")
            continue
        try:
            if file.endswith(".parquet") and (problem := unlike(ours / file, again / file)):
                findings.add(file, problem)
                continue
            add_first_difference(file, rows_of(ours / file), rows_of(again / file), findings)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
            findings.add(file, f"cannot be read ({' '.join(str(error).split())})")


def unlike(ours: Path, again: Path) -> str | None:
    """Why a Parquet file is not to be read: columns or sizes are not those of the file made again.

    What is in it is compared row by row, so it may be somewhat larger.
    """
    with pq.ParquetFile(ours) as file, pq.ParquetFile(again) as expected:
        if not file.schema_arrow.equals(expected.schema_arrow):
            return "has other columns than the tables give"
        sizes, known = sizes_of(file.metadata), sizes_of(expected.metadata)
    if any(size > 2 * own + SPARE for size, own in zip(sizes, known, strict=True)):
        return "has more rows or bytes than the tables give"
    return None


def sizes_of(metadata: pq.FileMetaData) -> tuple[int, int, int]:
    """The numbers of rows and of values, and the bytes without compression."""
    columns = columns_of(metadata)
    n_bytes = sum(column.total_uncompressed_size for column in columns)
    return metadata.num_rows, sum(column.num_values for column in columns), n_bytes


def add_first_difference(
    file: str, ours: Iterator[Row], again: Iterator[Row], findings: Findings
) -> None:
    for number, (row, expected) in enumerate(zip_longest(ours, again), start=1):
        if row == expected:
            continue
        if row is None or expected is None:
            what = "is missing" if row is None else "is in none of the tables"
            findings.add(file, what, row=number)
            return
        keys = [key for key in {**expected, **row} if row.get(key) != expected.get(key)]
        findings.add(
            file,
            f"is {row.get(keys[0])!r}, and {expected.get(keys[0])!r} by the tables",
            row=number,
            column=keys[0],
        )
        return


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a CSV or a Parquet file, some at a time."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
        return
    with pq.ParquetFile(path) as opened:
        for batch in opened.iter_batches(FEW_ROWS):
            yield from batch.to_pylist()


# Each table against its description: types, nulls, and the values that there can be.

Array = Any
"""An Arrow array; the types of Arrow's functions are not told apart further."""
pc: Any = pyarrow.compute


def check_columns(release: ReleaseFolder, table: str, findings: Findings) -> None:
    """The columns are those of the description, with their types.

    A column that is missing is a note if croissant.json of the release does not have it either: so
    is one that only other versions of hsfiq have.
    """
    schema, file = release.schema(table), f"{table}.parquet"
    own = own_columns(release, table)
    known = release.tables[table]
    for column in known:
        if column.name in schema.names:
            continue
        if column.name in known.key or own is None or column.name in own:
            findings.add(file, "is missing", column=column.name)
        else:
            findings.note(f"{file} has no column {column.name}, which this hsfiq writes")
    for name in schema.names:
        if name not in known.names:
            if own is not None and name in own:
                findings.note(f"{file} has a column {name}, which this hsfiq does not know")
            else:
                findings.add(file, "is no column of this table", column=name)


def own_columns(release: ReleaseFolder, table: str) -> set[str] | None:
    """The table's columns in croissant.json; None if that does not describe the table."""
    described = read_croissant(release, Findings())
    if described is None or not objects(described, "recordSet"):
        return None
    types = described_types(described).get(table)
    return None if types is None else set(types)


def check_values(release: ReleaseFolder, table: str, findings: Findings) -> bool:
    """Check types, nulls and values; whether the table has the types that comparing it needs."""
    file, points = f"{table}.parquet", points_of(release.manifest) or HIGHEST_SCORE
    unlike: set[str] = set()
    for batch in release.batches(table):
        for column in release.tables[table]:
            place = batch.rows.schema.get_field_index(column.name)
            if place < 0 or column.name in unlike:
                continue
            values = batch.rows.column(place)
            if wrong := wrong_type(column, values):
                unlike.add(column.name)
                row, what = wrong
                findings.add(file, what, row=batch.start + row, column=column.name)
                continue
            for row in places(values.is_null()) if column.null is None else ():
                what = "is null, and this column never is"
                findings.add(file, what, row=batch.start + row, column=column.name)
            for row, what in wrong_values(column, values, points):
                findings.add(file, what, row=batch.start + row, column=column.name)
    schema = release.schema(table)
    foreign = [field for field in schema if field.name not in release.tables[table].names]
    for field in foreign:
        if not is_ours(field.type):
            unlike.add(field.name)
            what = f"has type {field.type}, which no column of a release has"
            findings.add(file, what, column=field.name)
    return not unlike and set(release.tables[table].key) <= set(schema.names)


def wrong_type(column: Column, values: Array) -> tuple[int, str] | None:
    """The place of a value that has another type, and what is wrong with it; nulls have any."""
    if values.type == column.arrow_type or values.null_count == len(values):
        return None
    shown = f"({shortened(str(values.type))})"
    for place, value in enumerate(values):
        if value.is_valid and not fits(value, column.arrow_type):
            try:
                text = shortened(repr(value.as_py()))
            except ValueError:  # nanoseconds
                text = "a value"
            return place, f"is {text} {shown}, and not of type {column.arrow_type}"
    place = pc.index(values.is_valid(), True).as_py()
    return place, f"has type {shortened(str(values.type))}, and not {column.arrow_type}"


def fits(value: Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return False
    return True


def wrong_values(column: Column, values: Array, points: int) -> Iterator[tuple[int, str]]:
    """The place of each wrong value, and what is wrong with it."""
    if values.type != column.arrow_type:  # all are null
        return
    parents = None
    if pa.types.is_list(values.type):
        parents, values = pc.list_parent_indices(values), pc.list_flatten(values)
    for place, what in outside(column, values, points):
        yield (parents[place].as_py() if parents is not None else place), what


def outside(column: Column, values: Array, points: int) -> Iterator[tuple[int, str]]:
    """The places of the values that the column cannot have."""
    if column.values:
        known = pa.array(column.values, values.type)
        for place in places(pc.and_(values.is_valid(), pc.invert(pc.is_in(values, known)))):
            yield place, f"is {values[place].as_py()!r}, not {listed(column.values)}"
        return
    if pa.types.is_floating(values.type):
        for place in places(pc.invert(pc.is_finite(values))):
            yield place, f"is {values[place].as_py()}, not a finite number"
    lowest, highest = column.lowest, points if column.on_scale else column.highest
    for bound, is_wrong in ((lowest, pc.less), (highest, pc.greater)):
        if bound is None:
            continue
        for place in places(is_wrong(values, pa.scalar(bound))):
            yield place, f"is {values[place].as_py()}, not {range_text(lowest, highest)}"


def places(wrong: Array) -> list[int]:
    """Where it is true; null counts as false."""
    listed: list[int] = pc.indices_nonzero(wrong).to_pylist()
    return listed


def range_text(lowest: float | None, highest: float | None) -> str:
    if lowest is None:
        return f"at most {highest:g}"
    return f"{lowest:g} or more" if highest is None else f"from {lowest:g} to {highest:g}"


def listed(values: tuple[str | int, ...]) -> str:
    return " or ".join([", ".join(map(str, values[:-1])), str(values[-1])])


def verify(folder: Path) -> Findings:
    """What is wrong with the release in a folder: no finding if it is what it says.

    Raises:
        UnreadableInput: the folder is no release.
    """
    release, findings = open_release(folder), Findings()
    check_files(release, findings)
    check_content_digest(release, findings)
    check_tables_are_there(release, findings)
    check_croissant(release, findings)
    for name in release.tables:
        check_columns(release, name, findings)
    comparable = {}
    for name, table in release.tables.items():
        if check_values(release, name, findings):
            check_lines(release, name, findings)
            comparable[name] = table
    release = replace(release, tables=comparable)
    if release.kind.main not in release.tables:
        return findings
    with relations(release) as tables:
        check_between(tables, findings)
    if not findings.n:
        check_rebuilt(release, findings)
    return findings


def check_between(tables: Relations, findings: Findings) -> None:
    """What the tables, the manifest and the further files say of each other."""
    for table in tables.release.tables.values():
        check_keys(tables, table, findings)
    for table in tables.release.tables.values():
        check_references(tables, table, findings)
        check_owners(tables, table, findings)
    check_answers(tables, findings)
    check_funnel(tables, findings)
    check_counts(tables, findings)
    check_alike(tables, findings)
    check_queries_are_used(tables, findings)
    check_split(tables, findings)
    check_repeated_tables(tables.release, findings)
    check_further(tables, findings)
