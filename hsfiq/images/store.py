"""Images in stores: object stores, the Hugging Face hub and web servers, read through fsspec.

A `StoreFolder` is to a store what an `ImageFolder` is to a folder. Credentials come from the
environment, where each store's own client looks for them, and are kept nowhere.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

from hsfiq.atomic_files import write_whole
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.images.folder import SUFFIXES, Fault, ImageFolder, stems
from hsfiq.images.stored_copies import BoundedFolder, read_copy, write_copy

T = TypeVar("T")

# The addresses of stores.


class StoreKind(NamedTuple):
    """The package that a store needs, the variables of its credentials, and its client's options.

    The clients' own retries would add up to minutes.
    """

    package: str
    variables: tuple[str, ...]
    options: Mapping[str, Any]


_S3_CLIENT = {"connect_timeout": 5, "read_timeout": 15, "retries": {"total_max_attempts": 1}}

KINDS = {
    "s3": StoreKind(
        "s3fs", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), {"config_kwargs": _S3_CLIENT}
    ),
    "gs": StoreKind("gcsfs", ("GOOGLE_APPLICATION_CREDENTIALS",), {"requests_timeout": 15}),
    "az": StoreKind(
        "adlfs",
        ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
        {"connection_timeout": 5, "read_timeout": 15},
    ),
    "hf": StoreKind("huggingface_hub", ("HF_TOKEN",), {}),
    "https": StoreKind("aiohttp", (), {}),
}

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts to which `http://` may go unencrypted, where a proxy or a test answers."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where images are in a store: `s3://bucket/prefix`, or `https://` and a listing's address."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def kind(self) -> StoreKind:
        scheme = self.text.partition(":")[0]
        return KINDS["https" if scheme == "http" else scheme]

    @property
    def is_listing(self) -> bool:
        return self.text.startswith("http")


Root: TypeAlias = Path | StoreAddress
"""Where a dataset's images are."""


def root_named(text: str) -> Root:
    """The folder or the store that is meant; `UnreadableInput` if a store's address is wrong."""
    return StoreAddress(sound_address(text)) if is_address(text) else Path(text)


def is_address(text: str) -> bool:
    return _ADDRESS.match(text) is not None


def sound_address(text: str) -> str:
    """The address of a store; no message repeats what may be a secret in it."""
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError as error:
        raise UnreadableInput("the images' address", "is not an address") from error
    scheme = parts.scheme
    if "@" in parts.netloc or parts.query or parts.fragment:
        what = "the address has a user, a password, or a part after ? or #"
        remedy = "leave them out: credentials come from the environment"
        raise UnreadableInput(f"{scheme}://...", what, remedy)
    if scheme not in KINDS and not (scheme == "http" and host in LOOPBACK):
        known = ", ".join(f"{name}://" for name in KINDS)
        raise UnreadableInput(text, "no such kind of store", f"name a folder, or one of {known}")
    if scheme == "hf" and (host != "datasets" or len(parts.path.split("/")) < 3):
        raise UnreadableInput(text, "is not a data set", "such as hf://datasets/OWNER/NAME")
    if not host:
        raise UnreadableInput(text, "names no bucket", f"such as {scheme}://NAME/FOLDER")
    return text.rstrip("/")


# The images of a store. They have the methods of a `Path` that readers of images need.


class StoreAway(OSError):
    """A store does not answer, or too many wait for it; it may answer later."""

    def __init__(self) -> None:
        super().__init__(errno.EHOSTUNREACH, "its store does not answer")


AWAY = Fault("unreadable", "cannot be read (its store does not answer)")


@dataclass(frozen=True, slots=True)
class StoreObject:
    """An image of a store; `size` and `version`, which changes with the content, are as listed.

    `location` is its path or its address for fsspec.
    """

    root: StoreAddress
    path: str
    location: str = field(compare=False)
    size: int | None = field(compare=False)
    version: str = field(compare=False)
    store: Store = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.location if self.root.is_listing else f"{self.root}/{self.path}"

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    def read_bytes(self) -> bytes:
        """The content, from the disk if it has been read before; `OSError` if it has none."""
        return self.store.read(self)


Original: TypeAlias = Path | StoreObject
"""An image's own file, or its object in a store."""


def cache_home() -> Path:
    """The folder of what was read and listed."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hsfiq" / "stores"


# Reading a store: in threads of its own, since not every client of a store keeps to a deadline.

AT_ONCE = 16
"""Reads at the same time: a server has 40 threads, and other requests need some of them."""

PATIENCE = 5.0
"""Seconds that a request of a page waits; the read goes on, and its result is kept."""

COMMAND_PATIENCE, LISTING_PATIENCE = 60.0, 300.0
READ_DEADLINE = 30.0
"""Seconds of one attempt, for clients that keep to it."""

RETRY_AFTER = (0.2, 1.0)
"""Seconds before the second attempt and the third, which is the last."""

PROBE_EVERY = 5.0
"""Seconds between attempts to reach a store that does not answer; until then no read is tried."""

LARGEST = 256 * 2**20
"""Bytes of an object; a larger one would not be an image that can be shown."""

_UNAUTHENTICATED = {"NoCredentialsError", "PartialCredentialsError", "ClientAuthenticationError"}


class Store:
    """Reads one store, whose objects are kept on this disk.

    `waits`: callers wait for long, as commands do; without it, a server's requests do not.
    """

    def __init__(self, address: StoreAddress, *, waits: bool) -> None:
        self.address = address
        self.is_away = False
        self._waits = waits
        self._slots = BoundedSemaphore(AT_ONCE)
        self._lock = Lock()
        self._files: Any = None
        self._cache = BoundedFolder(cache_home())
        with suppress(OSError):  # without a folder, nothing is kept
            cache_home().mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, image: StoreObject) -> bytes:
        facts = json.dumps([str(self.address), image.path, image.size, image.version])
        kept = cache_home() / f"{hashlib.sha256(facts.encode()).hexdigest()}.image"
        content = read_copy(kept)
        if content is not None:
            return content
        if image.size is not None and image.size > LARGEST:
            raise OSError(errno.EFBIG, f"has more than {LARGEST // 2**20} MB")
        patience = COMMAND_PATIENCE if self._waits else PATIENCE
        return self.call(lambda: self._fetched(image.location, kept), patience)

    def _fetched(self, location: str, kept: Path) -> bytes:
        content = self._content(location)
        with suppress(OSError):  # a full disk
            write_copy(kept, content)
            self._cache.has_grown(len(content))
        return content

    def call(self, ask: Callable[[], T], patience: float) -> T:
        """What `ask` returns, tried some times, or `OSError`; while the store is away at once."""
        if self.is_away:
            raise StoreAway
        if not self._slots.acquire(timeout=patience if self._waits else 0):
            raise StoreAway
        future: Future[T] = Future()
        Thread(target=self._attempt, args=(ask, future), daemon=True).start()
        try:
            return future.result(patience)
        except TimeoutError:
            self._is_lost(ask)
            raise StoreAway from None

    def _attempt(self, ask: Callable[[], T], future: Future[T]) -> None:
        try:
            for pause in (*RETRY_AFTER, None):
                try:
                    answer = ask()
                except Exception as error:  # noqa: BLE001 (each client has errors of its own)
                    final = final_error(error)
                    if final is not None:
                        self.is_away = False
                        return future.set_exception(final)
                    if pause is not None:
                        time.sleep(pause)
                else:
                    self.is_away = False
                    return future.set_result(answer)
            self._is_lost(ask)
            return future.set_exception(StoreAway())
        finally:
            self._slots.release()

    def _is_lost(self, ask: Callable[[], object]) -> None:
        """Refuse all reads until the one that failed succeeds."""
        with self._lock:
            if self.is_away:
                return
            self.is_away = True
        Thread(target=self._probe, args=(ask,), daemon=True).start()

    def _probe(self, ask: Callable[[], object]) -> None:
        while self.is_away:
            time.sleep(PROBE_EVERY)
            try:
                ask()
            except Exception as error:  # noqa: BLE001
                self.is_away = final_error(error) is None
            else:
                self.is_away = False

    def _content(self, location: str) -> bytes:
        files = self.files()
        return bytes(files.cat_file(location, **deadline(files)))

    def files(self) -> Any:
        """The file system of fsspec; its client connects here or when it reads."""
        with self._lock:
            if self._files is None:
                self._files = file_system(self.address)
            return self._files

    def listed(self) -> list[tuple[str, str, int | None, str | None]]:
        """Each image's path, location, size, and version if it has one."""
        files = self.files()
        if self.address.is_listing:
            text = self._content(self.address.text).decode(errors="replace")
            return list(listed_lines(self.address.text, text))
        root = str(files._strip_protocol(self.address.text))  # noqa: SLF001 (fsspec has no other)
        found = files.find(root, detail=True, **deadline(files, LISTING_PATIENCE))
        if not found and not files.exists(root.partition("/")[0], **deadline(files)):
            raise FileNotFoundError(errno.ENOENT, "there is no such bucket")
        return [
            (path.removeprefix(f"{root}/"), path, facts.get("size"), version_in(facts))
            for path, facts in found.items()
            if path.startswith(f"{root}/")
        ]


def file_system(address: StoreAddress) -> Any:
    try:
        import fsspec  # noqa: PLC0415 (of the extra `stores`)

        scheme, options = address.text.partition(":")[0], dict(address.kind.options)
        if address.is_listing:
            from aiohttp import ClientTimeout  # noqa: PLC0415

            limit = ClientTimeout(total=READ_DEADLINE, connect=5)
            options["client_kwargs"] = {"timeout": limit}
        files = fsspec.filesystem(
            scheme, use_listings_cache=False, skip_instance_cache=True, **options
        )
    except ImportError as error:
        raise UnreadableInput(
            str(address), f"needs the package {address.kind.package}", "pip install 'hsfiq[stores]'"
        ) from error
    except ValueError as error:  # adlfs, if it finds no account
        raise PermissionError(errno.EACCES, "the store's client refuses its settings") from error
    if scheme == "s3":
        files.retries = 1
    return files


def deadline(files: Any, seconds: float = READ_DEADLINE) -> dict[str, float]:
    return {"timeout": seconds} if files.async_impl else {}


def final_error(error: Exception) -> Exception | None:
    """An error that trying again does not change, without the client's own words."""
    if isinstance(error, HsfiqError):
        return error
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, "is not in the store")
    is_refused = isinstance(error, PermissionError) or type(error).__name__ in _UNAUTHENTICATED
    if is_refused or status in (401, 403):
        return PermissionError(errno.EACCES, "the store refuses access")
    return None


def version_in(facts: Mapping[str, Any]) -> str | None:
    names = ("ETag", "etag", "generation", "blob_id", "LastModified", "last_modified", "mtime")
    values = [str(facts[name]) for name in (*names, "created") if facts.get(name)]
    return " ".join(values) or None


def listed_lines(listing: str, text: str) -> Iterable[tuple[str, str, int | None, str | None]]:
    """The images of a listing file: one address, or a path relative to the file, a line."""
    folder = listing.rpartition("/")[0] + "/"
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        location = urljoin(folder, line.strip())
        where = f"{listing}: line {number}"
        parts = urlsplit(location)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise UnreadableInput(where, "a user, a password, or a part after ? or #", "leave out")
        if not location.startswith((folder, "https://")):
            raise UnreadableInput(where, "not an https:// address", "write one, or a path")
        path = unquote(location.removeprefix(folder).removeprefix("https://"))
        yield path, location, None, None


# The listing of a store: read once, kept on this disk, and read again at most so often.

RELIST_AFTER, RELIST_MISSING_AFTER = 300.0, 60.0
"""Seconds after which a server lists a store again, to notice changes; if an image is missing."""

UNVERSIONED = 3600.0
"""Seconds for which a server takes an object without a version as unchanged."""


class StoreFolder:
    """The images of a store by image id, as `ImageFolder` has those of a folder.

    With `waits`, the store is listed first; an error is raised unless it only does not answer and
    has been listed before. A server begins with the listing on the disk, and never fails.
    `answers`: the listing is the store's own.
    """

    n_readers = AT_ONCE

    def __init__(self, address: StoreAddress, *, waits: bool = True) -> None:
        self.root = address
        self.is_listed = self.answers = False
        self._waits = waits
        self._store = Store(address, waits=waits)
        self._kept = cache_home() / f"{hashlib.sha256(str(address).encode()).hexdigest()}.listing"
        self._lock = Lock()
        self._is_listing = False
        self._tried = self._listed = float("-inf")
        self._paths: Mapping[str, StoreObject] = {}
        self._files: Mapping[str, StoreObject] = {}
        with suppress(OSError, ValueError, TypeError):
            self._take(json.loads(self._kept.read_bytes()))
        if waits:
            self._list_for_command()
        elif not self.is_listed:
            self.refresh()
            self._lister.join(PATIENCE)

    def find(self, name: str) -> StoreObject | None:
        if not self._waits and time.monotonic() - self._listed > RELIST_AFTER:
            self.refresh()
        if (found := self._paths.get(name)) is not None:
            return found
        return next(filter(None, map(self._files.get, stems(name))), None)

    def names(self) -> list[str]:
        return sorted(self._paths)

    def files(self) -> list[StoreObject]:
        return [image for _, image in sorted(self._paths.items())]

    def name_of(self, original: Original) -> str:
        return original.path if isinstance(original, StoreObject) else str(original)

    def __len__(self) -> int:
        return len(self._files)

    def refresh(self) -> bool:
        """Begin to list again, if the last time is long enough ago: the result comes later."""
        with self._lock:
            now = time.monotonic()
            least = RELIST_MISSING_AFTER if self.is_listed else PROBE_EVERY
            if self._is_listing or now - self._tried < least:
                return False
            self._tried, self._is_listing = now, True
        self._lister = Thread(target=self._list_again, daemon=True)
        self._lister.start()
        return False

    def _list_again(self) -> None:
        with suppress(OSError, HsfiqError):  # the last listing holds until the store answers
            self._list()
        self._is_listing = False

    def _list_for_command(self) -> None:
        try:
            self._list()
        except OSError as error:
            if isinstance(error, StoreAway) and self.is_listed:
                return
            what, remedy = "the store does not answer", "check the address and the network"
            if isinstance(error, FileNotFoundError):
                what, remedy = "there is no such bucket, folder or file", "check the address"
            elif isinstance(error, PermissionError):
                what, remedy = "the store refuses access", credentials_remedy(self.root)
            raise UnreadableInput(str(self.root), what, remedy) from error

    def _list(self) -> None:
        self._tried = time.monotonic()
        listed = self._store.call(self._store.listed, LISTING_PATIENCE)
        rows = [
            (path, location, size, version or self._assumed_version(path))
            for path, location, size, version in listed
            if PurePosixPath(path).suffix.lower() in SUFFIXES
        ]
        self._take(rows)
        self._listed, self.answers = time.monotonic(), True
        with suppress(OSError):  # it is only for a restart while the store is away
            write_whole(self._kept, json.dumps(rows).encode())

    def _assumed_version(self, path: str) -> str:
        """The time since which an object without a version counts as unchanged."""
        known, now = None if self._waits else self._paths.get(path), time.time()
        is_recent = known is not None and now - float(known.version) < UNVERSIONED
        return known.version if known is not None and is_recent else str(now)

    def _take(self, rows: Iterable[tuple[str, str, int | None, str]]) -> None:
        paths = {
            path: StoreObject(self.root, path, location, size, version, self._store)
            for path, location, size, version in rows
        }
        self._files = {paths[path].stem: paths[path] for path in sorted(paths)}
        self._paths, self.is_listed = paths, True


def credentials_remedy(address: StoreAddress) -> str:
    """Which of the store's variables are not set."""
    unset = [name for name in address.kind.variables if not os.environ.get(name)]
    if unset:
        return f"set {' and '.join(unset)}"
    return "check the credentials in the environment and their permissions"


Images: TypeAlias = ImageFolder | StoreFolder
"""The images of a dataset, wherever they are."""


def open_images(root: Root, *, waits: bool = True) -> Images:
    """The images of a folder or of a store; see `StoreFolder`."""
    return ImageFolder(root) if isinstance(root, Path) else StoreFolder(root, waits=waits)
