"""Which images that a dataset names are missing or broken, and which queries that touches.

Decoding is the caller's: without Pillow, missing and empty files are found all the same.
"""

from __future__ import annotations

import filecmp
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hsfiq.images.faults import Fault, FaultKind
from hsfiq.images.folder import ImageFolder, image_files, stems
from hsfiq.readers.dataset_folder import DatasetSplit

AHEAD = 8
"""Files for each thread that are being decoded or wait for it, at most: it bounds memory."""


Decode = Callable[[Path], Fault | None]
Track = Callable[[Sequence[str]], Iterable[str]]
Lists = defaultdict[str, list[str]]


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """An image that cannot be shown, with the triplets that need it; none: only a candidate.

    `file` is below the image folder, None where there is none; `splits` are those that name it;
    `truth_of` are CIRCO's queries that it answers besides their target.
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
    """Files of one name, or of names that only letter case tells apart; `used` are those taken."""

    files: tuple[str, ...]
    used: tuple[str, ...]
    same_content: bool


@dataclass(frozen=True, slots=True)
class SplitCheck:
    """A split's images and queries, how many images are broken by kind, and queries touched."""

    images: int
    kinds: dict[str, int]
    queries: int
    queries_touched: int


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """What was found; `decoded` is whether files were decoded, not only looked at."""

    folder: str
    decoded: bool
    images: int
    splits: dict[str, SplitCheck]
    broken: tuple[BrokenImage, ...]
    twins: tuple[Twins, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """How many images are broken, by kind."""
        return dict(Counter(image.kind for image in self.broken))

    @property
    def is_well(self) -> bool:
        """Whether every image is there and whole, and no other file competes with its own."""
        return not self.broken and all(twins.same_content for twins in self.twins)

    def to_json(self) -> dict[str, Any]:
        """All of it for a program."""
        return {"well": self.is_well, "kinds": self.kinds, **asdict(self)}


def check_images(
    splits: Sequence[DatasetSplit], root: Path, decode: Decode | None = None, track: Track = iter
) -> ImageCheck:
    """Look for every image that the splits name, and decode its file.

    Args:
        splits: of one dataset.
        root: the image folder.
        decode: finds the fault of a file that is not empty, in several threads at once; without
            it no file is opened.
        track: goes over the images, for a progress bar.
    """
    names = list(dict.fromkeys(name for split in splits for name in split.images))
    folder = ImageFolder(root)
    files = files_by_case(root, names)
    faults = {
        name: with_other_case(fault, root, files[name.casefold()])
        for name, fault in find_faults(names, folder, decode, track)
    }
    return ImageCheck(
        folder=str(root),
        decoded=decode is not None,
        images=len(names),
        splits={split.name: check_split(split, faults) for split in splits},
        broken=describe(splits, faults, folder),
        twins=tuple(twins(found, folder) for found in files.values() if len(found) > 1),
    )


def find_faults(
    names: Sequence[str], folder: ImageFolder, decode: Decode | None, track: Track
) -> Iterator[tuple[str, Fault]]:
    """The images that are not whole, in order; files are decoded by as many threads as cores."""
    threads = os.cpu_count() or 1
    pending: deque[tuple[str, Future[Fault | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for name in track(names):
                pending.append((name, pool.submit(fault_of, folder.find(name), decode)))
                if len(pending) >= threads * AHEAD:
                    yield from finished(pending)
            while pending:
                yield from finished(pending)
        finally:
            pool.shutdown(cancel_futures=True)


def finished(pending: deque[tuple[str, Future[Fault | None]]]) -> Iterator[tuple[str, Fault]]:
    """The oldest image waited for, if it has a fault."""
    name, future = pending.popleft()
    if (fault := future.result()) is not None:
        yield name, fault


def fault_of(path: Path | None, decode: Decode | None) -> Fault | None:
    """What is wrong with an image's file."""
    if path is None:
        return Fault("missing", "none has this name")
    try:
        if path.stat().st_size == 0:
            return Fault("empty", "has zero bytes")
    except OSError as error:
        return Fault("undecodable", f"cannot be read ({error.strerror})")
    return decode(path) if decode else None


def files_by_case(root: Path, names: Iterable[str]) -> defaultdict[str, list[Path]]:
    """The files that could be taken for one of the images, letter case aside."""
    key_of = {stem.casefold(): name.casefold() for name in names for stem in stems(name)}
    found = defaultdict(list)
    for path in image_files(root):
        key = key_of.get(path.stem.casefold())
        if key is not None:
            found[key].append(path)
    return found


def with_other_case(fault: Fault, root: Path, files: Sequence[Path]) -> Fault:
    """A missing image's fault, naming the file that only letter case keeps from being it."""
    if fault.kind != "missing" or not files:
        return fault
    return Fault("missing", f"{files[0].relative_to(root)} is there, letter case apart")


def twins(files: Sequence[Path], folder: ImageFolder) -> Twins:
    """Files that compete for one image."""
    taken = [path for path in files if folder.find(path.stem) == path]
    try:
        same = all(filecmp.cmp(files[0], other, shallow=False) for other in files[1:])
    except OSError:
        same = False
    return Twins(
        tuple(str(path.relative_to(folder.root)) for path in files),
        tuple(str(path.relative_to(folder.root)) for path in taken),
        same,
    )


def check_split(split: DatasetSplit, faults: Mapping[str, Fault]) -> SplitCheck:
    """The counts of a split."""
    kinds = Counter[str](faults[name].kind for name in split.images if name in faults)
    touched = sum(
        any(name in faults for name in (triplet.reference, *split.answers(triplet)))
        for triplet in split.triplets
    )
    return SplitCheck(len(split.images), dict(kinds), len(split.triplets), touched)


def describe(
    splits: Sequence[DatasetSplit], faults: Mapping[str, Fault], folder: ImageFolder
) -> tuple[BrokenImage, ...]:
    """The broken images with the splits that name them and the triplets that need them."""
    named_by, reference_of, target_of, truth_of = (Lists(list) for _ in range(4))
    for split in splits:
        for name in split.images:
            if name in faults:
                named_by[name].append(split.name)
        for triplet in split.triplets:
            reference_of[triplet.reference].append(triplet.external_id)
            for place, name in enumerate(split.answers(triplet)):
                (truth_of if place else target_of)[name].append(triplet.external_id)
    return tuple(
        BrokenImage(
            image=name,
            kind=fault.kind,
            why=fault.why,
            file=below(folder, folder.find(name)),
            splits=tuple(named_by[name]),
            reference_of=tuple(reference_of.get(name, ())),
            target_of=tuple(target_of.get(name, ())),
            truth_of=tuple(truth_of.get(name, ())),
        )
        for name, fault in faults.items()
    )


def below(folder: ImageFolder, path: Path | None) -> str | None:
    """A file's place in the image folder."""
    return None if path is None else str(path.relative_to(folder.root))
