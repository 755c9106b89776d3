"""The files of a release against its manifest: their digests, and that none is missing or extra."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.croissant import DATA_TYPES
from hsfiq.releases.manifest import MANIFEST, content_digest
from hsfiq.releases.untrusted import (
    files_in,
    is_inside,
    is_regular,
    read_bounded_json,
    shortened,
)

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
        elif digest_of(path) != expected.get("sha256"):
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


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        elif digest is not None and digest != digest_of(path):
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
