"""Find missing and broken images of a dataset, and the queries that they affect.

The caller passes the decoder: missing and empty files are found without Pillow, too.
"""

from __future__ import annotations

import hashlib
import stat
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from hsfiq import atomic_files
from hsfiq.images.folder import CHANGED, NOT_REGULAR, Fault, FaultKind, stems
from hsfiq.images.store import Images, Original, Root, open_images
from hsfiq.records import Source

NOT_DECODED = "decoding was not checked: that needs Pillow (pip install 'hsfiq[annotate]')"

AHEAD = 8
"""The most files per thread that are being decoded or wait for it: it bounds memory."""

EMPTY = Fault("empty", "has zero bytes")

T = TypeVar("T")
FindFault = Callable[[Original], Fault | None]
Track = Callable[[Sequence[str]], Iterable[str]]
Lists = defaultdict[str, list[str]]


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """An image that cannot be shown, with the ids of the triplets that need it.

    Attributes:
        why: the fault in words.
        file: the path below the image folder, None if there is no file.
        splits: the splits that name the image.
        truth_of: ids of CIRCO's queries with this further ground truth.
    """

    image: str
    kind: FaultKind
    why: str
    file: str | None
    splits: tuple[str, ...]
    reference_of: tuple[str, ...]
    target_of: tuple[str, ...]
    truth_of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Twins:
    """Several files for one image, or with names that differ only in case; readers take `used`."""

    files: tuple[str, ...]
    used: tuple[str, ...]
    same_content: bool


@dataclass(frozen=True, slots=True)
class SplitCheck:
    """A split's counts: images, broken images by kind, queries, and queries with a broken image."""

    images: int
    kinds: dict[str, int]
    queries: int
    queries_touched: int


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """The result of a check; `decoded` is whether files were decoded."""

    folder: str
    decoded: bool
    images: int
    splits: dict[str, SplitCheck]
    broken: tuple[BrokenImage, ...]
    twins: tuple[Twins, ...]

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(image.kind for image in self.broken))

    @property
    def passed(self) -> bool:
        return not self.broken and all(twins.same_content for twins in self.twins)

    def to_json(self) -> dict[str, Any]:
        return {"well": self.passed, "kinds": self.kinds, **asdict(self)}


def check_images(
    splits: Sequence[Source], root: Root, find_fault: FindFault | None = None, track: Track = iter
) -> ImageCheck:
    """Check every image that a dataset's splits name.

    `find_fault` decodes a file that is not empty, in several threads at once; if None, no file is
    opened. `track` iterates over the images, for a progress bar.
    """
    images_of = {split.corpus: split.all_images() for split in splits}
    names = list(dict.fromkeys(name for images in images_of.values() for name in images))
    folder = open_images(root)
    files = files_by_name(folder, names)
    faults = {
        name: with_other_case(fault, folder, files[name.casefold()])
        for name, fault in find_faults(names, folder, find_fault, track)
    }
    return ImageCheck(
        folder=str(root),
        decoded=find_fault is not None,
        images=len(names),
        splits={
            split.corpus: check_split(split, images_of[split.corpus], faults) for split in splits
        },
        broken=describe(splits, images_of, faults, folder),
        twins=tuple(twins(same, folder) for same in files.values() if len(same) > 1),
    )


def find_faults(
    names: Sequence[str], folder: Images, find_fault: FindFault | None, track: Track
) -> Iterator[tuple[str, Fault]]:
    """The faulty images, in order; files are decoded by several threads."""

    def fault(_name: str, path: Original | None) -> Fault | None:
        return fault_of(path, find_fault)

    for name, fault_of_image in inspect_files(names, folder, fault, track):
        if fault_of_image is not None:
            yield name, fault_of_image


def inspect_files(
    names: Sequence[str],
    folder: Images,
    inspect: Callable[[str, Original | None], T],
    track: Track,
) -> Iterator[tuple[str, T]]:
    """Each image with what `inspect` returns for it and its file.

    There are as many threads as cores, and more where they wait for a store.
    """
    threads = folder.n_readers
    pending: deque[tuple[str, Future[T]]] = deque()

    def oldest() -> tuple[str, T]:
        name, future = pending.popleft()
        return name, future.result()

    with ThreadPoolExecutor(threads) as pool:
        try:
            for name in track(names):
                pending.append((name, pool.submit(inspect, name, folder.find(name))))
                if len(pending) >= threads * AHEAD:
                    yield oldest()
            while pending:
                yield oldest()
        finally:
            pool.shutdown(cancel_futures=True)


def decoder() -> FindFault | None:
    """The function that decodes a file, None without Pillow."""
    try:
        from hsfiq.images.display import find_fault  # noqa: PLC0415 (needs Pillow)
    except ModuleNotFoundError:
        return None
    return find_fault


def fault_of(path: Original | None, find_fault: FindFault | None) -> Fault | None:
    if path is None:
        return Fault("missing", "none has this name")
    fault = file_fault(path) if isinstance(path, Path) else EMPTY if path.size == 0 else None
    return fault or (find_fault(path) if find_fault else None)


def file_fault(path: Path) -> Fault | None:
    """What is wrong with a file, without opening it."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return NOT_REGULAR
        if status.st_size == 0:
            return EMPTY
    except FileNotFoundError:
        return Fault("missing", "is a link to a file that does not exist")
    except OSError as error:
        return Fault("unreadable", f"cannot be read ({error.strerror})")
    return None


def files_by_name(folder: Images, names: Iterable[str]) -> defaultdict[str, list[Original]]:
    """The files that match each image's name if case is ignored."""
    key_of = {stem.casefold(): name.casefold() for name in names for stem in stems(name)}
    files = defaultdict(list)
    for path in folder.files():
        key = key_of.get(path.stem.casefold())
        if key is not None:
            files[key].append(path)
    return files


def with_other_case(fault: Fault, folder: Images, files: Sequence[Original]) -> Fault:
    """A missing image's fault, naming a file that matches except for case."""
    if fault.kind != "missing" or not files:
        return fault
    return Fault("missing", f"{folder.name_of(files[0])} differs in upper and lower case")


def twins(files: Sequence[Original], folder: Images) -> Twins:
    used = [path for path in files if folder.find(path.stem) == path]
    first, *others = map(sha256_of, files)
    return Twins(
        tuple(map(folder.name_of, files)),
        tuple(map(folder.name_of, used)),
        isinstance(first, str) and all(other == first for other in others),
    )


def check_split(split: Source, images: Sequence[str], faults: Mapping[str, Fault]) -> SplitCheck:
    kinds = Counter[str](faults[name].kind for name in images if name in faults)
    touched = sum(
        any(name in faults for name in (triplet.reference, *split.answers(triplet)))
        for triplet in split.triplets
    )
    return SplitCheck(len(images), dict(kinds), len(split.triplets), touched)


def describe(
    splits: Sequence[Source],
    images_of: Mapping[str, Sequence[str]],
    faults: Mapping[str, Fault],
    folder: Images,
) -> tuple[BrokenImage, ...]:
    """The broken images with the splits that name them and the triplets that need them."""
    named_by, reference_of, target_of, truth_of = (Lists(list) for _ in range(4))
    for split in splits:
        for name in images_of[split.corpus]:
            named_by[name].append(split.corpus)
        for triplet in split.triplets:
            reference_of[triplet.reference].append(triplet.external_id)
            for place, name in enumerate(split.answers(triplet)):
                (truth_of if place else target_of)[name].append(triplet.external_id)
    return tuple(
        BrokenImage(
            image=name,
            kind=fault.kind,
            why=fault.why,
            file=None if (path := folder.find(name)) is None else folder.name_of(path),
            splits=tuple(named_by[name]),
            reference_of=tuple(reference_of.get(name, ())),
            target_of=tuple(target_of.get(name, ())),
            truth_of=tuple(truth_of.get(name, ())),
        )
        for name, fault in faults.items()
    )


# Digests of files: whether one still has the bytes that it had.


def sha256_of(path: Original) -> str | Fault:
    """The SHA-256 of a file's bytes in hexadecimal; a fault if the file cannot be read."""
    try:
        if not isinstance(path, Path):
            return hashlib.sha256(path.read_bytes()).hexdigest()
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for its writer
            return NOT_REGULAR
        return atomic_files.sha256_of(path)
    except FileNotFoundError:
        return Fault("missing", "has been removed")
    except OSError as error:
        return Fault("unreadable", f"cannot be read ({error.strerror})")


def change_of(path: Original, recorded: str) -> Fault | None:
    """`CHANGED` if the file has other bytes than the recorded ones; a fault if it is unreadable."""
    digest = sha256_of(path)
    if isinstance(digest, Fault):
        return digest
    return None if digest == recorded else CHANGED
