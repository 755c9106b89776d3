"""Finding images and computing their tokens, so that a scorer can work on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from hsfiq.drawn import garment_of
from hsfiq.drawn.pictures import write_images
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.images.folder import ImageFolder, usual_folder
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.retrieval.loading import LoadedRetriever
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.training.callbacks import Callback
from hsfiq.releases.reader import ReleasedSet


def encode_images(
    loaded: LoadedRetriever,
    files: Mapping[str, Path],
    cache: Path,
    device: torch.device,
    callback: Callback,
) -> tuple[Inference, set[str]]:
    """Compute the tokens that the cache lacks, with a retriever on `device`.

    Gives inference on these images, and the ids of those that can be read.
    """
    tokens = FeatureCache.open(cache, loaded.frozen_encoder)
    report = tokens.fill(files, device=device, on_progress=callback.caching)
    inference = Inference(loaded.retriever, tokens, Distributed(device))
    return inference, files.keys() - report.unreadable.keys()


@contextmanager
def images_of_release(
    sets: Collection[ReleasedSet], release: Path, folder: Path | None
) -> Iterator[Mapping[str, Path]]:
    """The available files of the sets' images and references, by image id."""
    wanted = {image for released in sets for image in (released.reference, *released.images)}
    folder = folder or usual_folder(release) or usual_folder(Path())
    with find_images(folder, wanted, (str(release), "a release holds no images")) as files:
        yield files


@contextmanager
def find_images(
    folder: Path | None, wanted: Collection[str], unknown: tuple[str, str]
) -> Iterator[Mapping[str, Path]]:
    """The available files of some images, by image id.

    Pictures of the drawn catalogue need no folder: they are drawn again. `unknown` is `where` and
    `what` of the error if there is no folder.
    """
    if folder is not None:
        yield image_files(folder, wanted)
        return
    try:
        garments = [garment_of(image) for image in sorted(wanted)]
    except InvalidRecord:
        raise UnreadableInput(*unknown, "name their folder with --images") from None
    with TemporaryDirectory() as drawn:
        write_images(garments, Path(drawn))
        yield image_files(Path(drawn), wanted)


def image_files(folder: Path, wanted: Collection[str]) -> dict[str, Path]:
    if not folder.is_dir():
        raise UnreadableInput(str(folder), "there is no such folder", "name another with --images")
    files = ImageFolder(folder)
    return {image: path for image in sorted(wanted) if (path := files.find(image)) is not None}
