"""Files that owners upload in the browser: received in parts, recognised by content, unpacked.

A file arrives in `incoming/` of its draft's folder. A part is on the disk before it is
acknowledged, so that an upload goes on from there, whatever ended it. What a complete file is
shows in its content, not in its name: images are put below `images/`, tables below `files/`.
"""

from __future__ import annotations

import json
import os
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from shutil import rmtree
from stat import S_ISLNK
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile, ZipFile, ZipInfo

from hsfiq.actors import Actor
from hsfiq.atomic_files import locked, sync, write_whole
from hsfiq.db.engine import Database
from hsfiq.db.failures import first_existing, free_space
from hsfiq.db.sqlite import OWNER, make_folder_private
from hsfiq.drafts import (
    IMAGES,
    Content,
    DraftFile,
    Role,
    Snapshot,
    change_draft,
    link,
    path_of,
    snapshot,
)
from hsfiq.errors import Conflict, HsfiqError, Refused
from hsfiq.images.folder import LONGEST_ID, SUFFIXES
from hsfiq.readers.files import SHEETS, columns_of, parquet_file
from hsfiq.readers.own_queries import guessed_columns
from hsfiq.readers.runs import lists_in
from hsfiq.text import has_control_character, is_storable_text

# The limits.

MOST_FILES, MOST_BYTES = 20_000, 10 * 10**9
"""Of a study's images, and of all its files, unpacked; an archive has no more files either."""

LARGEST_IMAGE, LARGEST_TABLE = 64 * 10**6, 100 * 10**6
LONGEST_NAME = 255
"""Bytes of a file and of its name."""

MOST_ROWS = 2_000_000
"""Of a Parquet file, whose few bytes can stand for any number of rows."""

LARGEST_RATIO, USUAL_BYTES = 100, 100 * 10**6
"""How many times larger than an archive its files may be, if they have more bytes than these."""

LARGEST_LISTING = 16 * 10**6
"""Bytes of an archive's list of files, which is read as a whole."""

MOST_UPLOADS = 200
"""Files of a draft, including incomplete uploads."""

RESERVE = 2 * 10**9
"""Bytes that stay free on the disk, for answers."""

TABLES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", *SHEETS)

NEITHER = "this is neither images nor a table"
TOO_MANY = f"a study has at most {MOST_FILES:,} images"
TOO_LARGE = f"a study has at most {MOST_BYTES // 10**9} GB"


def space_left(folder: Path) -> int:
    """Bytes that uploads may still take on the disk of a folder that may not exist yet."""
    return max(0, free_space(first_existing(folder) or Path()) - RESERVE)


def require_space(folder: Path, size: int) -> None:
    if size > space_left(folder):
        raise Refused("the disk has too little space for this")


# A file on its way.


@dataclass(frozen=True, slots=True)
class Sent:
    """A browser's description of a file; the same name, size and stamp mean the same content.

    `stamp` changes with the content, such as the date of the last change; `replaces` is the name
    of the file in whose place this one comes.
    """

    name: str
    size: int
    stamp: str
    replaces: str = ""

    @property
    def key(self) -> str:
        facts = json.dumps((self.name, self.size, self.stamp))
        return sha256(facts.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that arrives in a draft's folder, or has arrived and is not in its place yet."""

    folder: Path
    sent: Sent

    def path(self, ending: str) -> Path:
        """Of what has arrived: `part` or `whole`; of what is known of it: `json`, `record`."""
        return self.folder / "incoming" / f"{self.sent.key}.{ending}"

    @property
    def is_complete(self) -> bool:
        return self.path("whole").exists()

    @property
    def received(self) -> int:
        with suppress(FileNotFoundError):
            return self.path("part").stat().st_size
        return self.sent.size if self.is_complete else 0

    def unpacked(self) -> str:
        """How many of an archive's images are in place, as `12 of 40`; empty if it is not known."""
        with suppress(OSError):
            return self.path("progress").read_text()
        return ""

    def forget(self) -> None:
        for ending in ("part", "whole", "progress", "json"):
            self.path(ending).unlink(missing_ok=True)
        rmtree(self.path("draft"), ignore_errors=True)


def uploads_of(folder: Path) -> list[Upload]:
    """The uploads of a draft that have begun, and that are not in their place yet."""
    uploads = []
    for path in sorted((folder / "incoming").glob("*.json")):
        with suppress(FileNotFoundError):  # it is in its place by now
            uploads.append(Upload(folder, Sent(**json.loads(path.read_text("utf-8")))))
    return uploads


def begin(draft: Snapshot, sent: Sent) -> Upload:
    """Prepare for a file, or go on with it; `Refused` if it cannot be taken.

    One that was in its place before is complete at once.
    """
    upload = Upload(draft.folder, sent)
    if not upload.path("json").exists():
        is_one = bool(sent.name) and not set(sent.name) & {"/", "\\"} and sent.name[0] != "."
        if not is_one or not is_sound(sent.name):
            raise Refused("a file cannot have this name")
        others = uploads_of(draft.folder)
        kept = kept_files(draft.content, sent)
        if len(others) + len(kept) >= MOST_UPLOADS:
            raise Refused(f"there are already {MOST_UPLOADS} files: remove some")
        if sent.size <= 0:
            raise Refused("the file is empty")
        if sent.size > MOST_BYTES - sum(file.size for file in kept):
            raise Refused(TOO_LARGE)
        require_space(draft.folder, sent.size + sum(o.sent.size - o.received for o in others))
        make_folder_private(upload.path("json").parent)
        begun = upload.path("whole" if upload.path("record").exists() else "part")
        os.close(os.open(begun, os.O_WRONLY | os.O_CREAT, OWNER))
        write_whole(upload.path("json"), json.dumps(asdict(sent)).encode())
    if upload.received == sent.size:
        complete(upload)
    return upload


def kept_files(content: Content, sent: Sent) -> list[DraftFile]:
    """The files of a draft that stay when another one is in its place."""
    return [file for file in content.files if file.name not in (sent.name, sent.replaces)]


def is_sound(path: str) -> bool:
    """Whether a path can be stored: of usual length and characters."""
    if len(path) > LONGEST_ID or not is_storable_text(path) or has_control_character(path):
        return False
    return max(len(part.encode()) for part in path.split("/")) <= LONGEST_NAME


def receive(upload: Upload, offset: int, content: bytes) -> int:
    """Store a part of a file; how many bytes of the file are on the disk then.

    What is on the disk already is left as it is, and a part that comes too early is not stored.
    """
    part = upload.path("part")
    try:
        with locked(part):
            received = part.stat().st_size
            fresh = content[received - offset :] if 0 <= offset <= received else b""
            if received + len(fresh) > upload.sent.size:
                raise Refused("the file is longer than announced")
            with part.open("ab") as file:
                file.write(fresh)
                file.flush()
                os.fsync(file.fileno())
            if received + len(fresh) == upload.sent.size:
                complete(upload)
    except FileNotFoundError:
        pass
    except BlockingIOError as error:
        raise Conflict("this file is being uploaded from another window") from error
    return upload.received


def complete(upload: Upload) -> None:
    with suppress(FileNotFoundError):
        upload.path("part").rename(upload.path("whole"))
        sync(upload.path("whole").parent)


# Putting complete files in place.


def finish(database: Database, token: str, actor: Actor, upload: Upload) -> None:
    """Put a complete file in place and note it in its draft, unless that happens already."""
    with suppress(BlockingIOError, FileNotFoundError), locked(upload.path("whole")):
        with database.reading() as session:
            draft = snapshot(session, database, token)
        file = put_in_place(draft, upload)
        with database.writing() as session:
            change_draft(
                session, token, actor, lambda content: with_new(content, upload.sent, file)
            )
        upload.forget()


def with_new(content: Content, sent: Sent, file: DraftFile) -> Content:
    """A draft with a new file; a new table of queries comes in place of another one."""
    if content.file(file.name) == file and file.role != "unused":
        return content
    kept = kept_files(content, sent)
    changes: dict[str, Any] = {}
    if file.role == "queries":
        kept = [other for other in kept if other.role != "queries"]
        changes = {"columns": {}, "repairs": {}}
    changed = content.model_copy(update={**changes, "files": tuple(kept)}).with_file(file)
    if content.dataset and file.role in ("images", "queries"):
        changed = changed.model_copy(update={"dataset": ""})
        changed = changed.with_value("queries.dataset", content.value("study.name"))
    return changed


class Found(NamedTuple):
    """What an upload is: its images with their sides and digests, what was left out, and why."""

    file: DraftFile
    images: Sequence[tuple[str, int, int, str]] = ()
    left_out: Sequence[tuple[str, str]] = ()


def put_in_place(draft: Snapshot, upload: Upload) -> DraftFile:
    """What an upload is in a draft; one that was in its place before is recognised at once."""
    if upload.path("record").exists():
        known = json.loads(upload.path("record").read_text("utf-8"))
        return DraftFile.model_validate(known["file"])
    try:
        found = recognised(draft, upload)
    except HsfiqError as error:
        note = error.what.replace(str(draft.folder), "")
        return DraftFile(name=upload.sent.name, role="unused", size=upload.sent.size, note=note)
    known = found._asdict() | {"file": found.file.model_dump()}
    write_whole(upload.path("record"), json.dumps(known, ensure_ascii=False).encode())
    return found.file


def recognised(draft: Snapshot, upload: Upload) -> Found:
    from hsfiq.images.decode import header_fault  # noqa: PLC0415 (needs Pillow)

    path, sent = upload.path("whole"), upload.sent
    kept = kept_files(draft.content, sent)
    room = MOST_FILES - sum(file.count for file in kept), MOST_BYTES - sum(f.size for f in kept)
    if is_archive(path):
        with zip_members(path) as members:
            return unpack(upload, members, *room)
    if header_fault(path) is None:
        return unpack(upload, [Member(sent.name, sent.size, lambda: path.open("rb"))], *room)
    return Found(put_table(upload))


class Member(NamedTuple):
    """A file of an archive, with its path there."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack(upload: Upload, members: Sequence[Member], most: int, most_bytes: int) -> Found:
    """Store the images of an archive, and no other of its files."""
    images = [m for m in members if PurePosixPath(m.name).suffix.lower() in SUFFIXES]
    total = sum(member.size for member in images)
    if len(members) > MOST_FILES or len(images) > most:
        raise Refused(TOO_MANY)
    if total > most_bytes:
        raise Refused(TOO_LARGE)
    if total > max(USUAL_BYTES, LARGEST_RATIO * upload.sent.size):
        raise Refused(f"its files are more than {LARGEST_RATIO} times as large as itself")
    require_space(upload.folder, total)
    draft, place = upload.path("draft"), upload.folder / IMAGES / upload.sent.key
    rmtree(draft, ignore_errors=True)
    stored: list[tuple[str, int, int, str]] = []
    left_out = [(member.name, "is no image") for member in members if member not in images]
    for number, member in enumerate(images):
        if number % TOLD_EVERY == 0:
            upload.path("progress").write_text(f"{number:,} / {len(images):,}")
        image = stored_image(member, draft / member.name)
        if isinstance(image, str):
            left_out.append((member.name, image))
        else:
            stored.append((member.name, *image))
    if not stored:
        raise Refused("{} {}".format(*left_out[-1]) if images else NEITHER)
    make_folder_private(place.parent)
    rmtree(place, ignore_errors=True)
    draft.rename(place)
    os.sync()
    name, count = upload.sent.name, len(stored)
    file = DraftFile(name=name, role="images", size=total, count=count, source=place.name)
    return Found(file, stored, left_out)


TOLD_EVERY = 20
"""Images after which an upload says again how far it is."""

DAMAGED = (BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, ValueError)
"""What reading a damaged file of an archive raises."""


def stored_image(member: Member, place: Path) -> tuple[int, int, str] | str:
    """Write an image to a new file; its sides and its digest, or why it is left out."""
    from PIL import Image  # noqa: PLC0415

    from hsfiq.images.decode import UndecodableImage, decoded  # noqa: PLC0415

    if member.size > LARGEST_IMAGE:
        return f"has more than {LARGEST_IMAGE // 10**6} MB"
    if not is_sound(member.name):
        return "has a name that is too long, or has control characters"
    digest = sha256()
    try:
        make_folder_private(place.parent)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
        with os.fdopen(handle, "wb") as file, member.open() as source:
            while block := source.read(2**20):
                digest.update(block)
                file.write(block)
        with decoded(place, at_least=64):  # a JPEG at an eighth of its size, which is fast
            pass
        with Image.open(place) as image:
            return (*image.size, digest.hexdigest()[:32])
    except (FileExistsError, NotADirectoryError):
        return "occurs twice"
    except (UndecodableImage, *DAMAGED) as error:
        place.unlink()
        return error.fault.why if isinstance(error, UndecodableImage) else "is damaged"


# Archives.

OTHER_ARCHIVES = (b"Rar!", b"7z\xbc\xaf\x27\x1c", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")


def is_archive(path: Path) -> bool:
    """Whether it is a zip that is no spreadsheet; other archives are refused."""
    with path.open("rb") as file:
        head = file.read(262)
    if head.startswith(OTHER_ARCHIVES) or head[257:] == b"ustar":
        raise Refused("this archive is no zip: pack the files as a zip")
    return head.startswith(b"PK") and sheet_suffix(path) is None


@contextmanager
def opened_zip(path: Path) -> Iterator[ZipFile]:
    try:
        with path.open("rb") as file:
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # noqa: SLF001
            if end is None:
                raise BadZipFile
            if end[5] > LARGEST_LISTING:
                raise Refused(TOO_MANY)
        with ZipFile(path) as archive:
            if any(info.header_offset < 0 for info in archive.infolist()):
                raise BadZipFile
            yield archive
    except (BadZipFile, NotImplementedError, EOFError, struct.error, ValueError) as error:
        raise Refused("the archive is damaged") from error


@contextmanager
def zip_members(path: Path) -> Iterator[list[Member]]:
    """The files of an archive; `Refused` if it is encrypted, or has links or paths out of it."""
    with opened_zip(path) as archive:
        named = [(name_in(info), info) for info in archive.infolist() if not info.is_dir()]
        yield [
            Member(name, info.file_size, partial(archive.open, info))
            for name, info in named
            if not is_hidden(name)
        ]


def name_in(info: ZipInfo) -> str:
    """A file's path in an archive, with accents and Korean letters written in one way."""
    if info.flag_bits & 0x1:
        raise Refused("the archive has a password: pack it without one")
    if S_ISLNK(info.external_attr >> 16):
        raise Refused("the archive has links: pack the files themselves")
    name = info.filename
    if not info.flag_bits & 0x800 and not name.isascii():
        for encoding in ("cp949", "utf-8"):  # Korean Windows does not say which it writes
            with suppress(UnicodeError):
                name = info.filename.encode("cp437").decode(encoding)
    name = unicodedata.normalize("NFC", name.replace("\\", "/"))
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/") or name[1:2] == ":" or not parts:
        raise Refused("a path in the archive leads out of it")
    return "/".join(parts)


def is_hidden(name: str) -> bool:
    parts = name.split("/")
    return "__MACOSX" in parts or any(part.startswith(".") for part in parts)


# Tables.


def put_table(upload: Upload) -> DraftFile:
    """Put a table in place, its name with the extension of its content; `Refused` if it is none."""
    path, name = upload.path("whole"), PurePosixPath(upload.sent.name)
    kind = table_suffix(path)
    if kind is None or upload.sent.size > LARGEST_TABLE:
        raise Refused(f"a table has at most {LARGEST_TABLE // 10**6} MB" if kind else NEITHER)
    suffix = name.suffix.lower()
    is_of_kind = suffix == kind or (suffix, kind) == (".tsv", ".csv")
    shown = name if is_of_kind else name.with_suffix(kind)
    size, source = upload.sent.size, upload.sent.key
    file = DraftFile(name=str(shown), role="queries", size=size, source=source)
    place = path_of(file, upload.folder)
    make_folder_private(place.parent)
    link(path, place)
    return file.model_copy(update={"role": role_of(place, kind != ".csv" or suffix in TABLES)})


def table_suffix(path: Path) -> str | None:
    """The extension that belongs to a table's content; None if it is no table."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return ".xls"
    if head.startswith(b"PK"):
        return sheet_suffix(path)
    if b"\0" in head or head.startswith(b"%PDF"):
        return None
    return ".jsonl" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".csv"


def sheet_suffix(path: Path) -> str | None:
    """The extension of a zip that is a spreadsheet; `Refused` if it is too large to be read."""
    with opened_zip(path) as archive:
        names = set(archive.namelist())
        if not names & {"xl/workbook.xml", "xl/workbook.bin", "content.xml"}:
            return None
        if sum(info.file_size for info in archive.infolist()) > 10 * LARGEST_TABLE:
            raise Refused("the spreadsheet is too large")
        return ".ods" if "content.xml" in names else ".xlsx"


LISTS = ({"query_id", "images"}, {"query_id", "rank", "image_id"})
"""Columns that ranked lists have, and queries do not."""


def role_of(path: Path, is_table: bool) -> Role:
    """Whether a table has queries or ranked lists; `Refused` if neither.

    A text that is not known to be a table can only be ranked lists.
    """
    if path.suffix == ".parquet":
        with parquet_file(path) as (file, _):
            if file.metadata.num_rows > MOST_ROWS:
                raise Refused("the table has too many rows")
    names: list[str] = []
    with suppress(HsfiqError):
        names = columns_of(path)
    if any(each <= set(names) for each in LISTS):
        return "lists"
    if is_table and {"text", "reference"} & set(guessed_columns(names)):
        return "queries"
    with suppress(HsfiqError):
        lists_in(path)
        return "lists"
    if is_table and len(names) > 1:
        return "queries"
    raise Refused(NEITHER)


# What is known of a draft's images.


@lru_cache(maxsize=8)
def facts_of(sources: tuple[str, ...], folder: Path) -> Mapping[str, object]:
    """The smallest image's sides, the images with equal content, and the files left out, and why.

    Each of the latter is named with its upload.
    """
    records = [folder / "incoming" / f"{source}.record" for source in sources]
    known = [json.loads(path.read_text("utf-8")) for path in records if path.exists()]
    images = {name: (w, h, digest) for record in known for name, w, h, digest in record["images"]}
    by_content: dict[str, list[str]] = {}
    for name, (_, _, digest) in images.items():
        by_content.setdefault(digest, []).append(name)
    sides = [(width, height) for width, height, _ in images.values()]
    return {
        "smallest": min(sides, key=lambda side: side[0] * side[1], default=(0, 0)),
        "same": [names for names in by_content.values() if len(names) > 1],
        "left_out": [(*left, row["file"]["source"]) for row in known for left in row["left_out"]],
    }
