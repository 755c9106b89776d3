"""Which images a live retriever searches in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import image_files
from hsfiq.live.protocol import LONGEST_ID, is_image_id
from hsfiq.model.data.triplets import distinct
from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.serving.ranker import Candidates

Rule = Literal["split", "union", "all"]
"""The images of a dataset's split, its references and targets alone, or every image."""


def folder_candidates(folder: Path, *, by_path: bool = False) -> Candidates:
    """Every image file below a folder, by its name without extension.

    With `by_path`, by its path below the folder, as own data names images.
    """
    files = image_files(folder)
    names = (path.relative_to(folder).as_posix() if by_path else path.stem for path in files)
    image_ids = tuple(distinct(names))
    if not image_ids:
        raise UnreadableInput(str(folder), "holds no images", "name another with --images")
    if wrong := next((each for each in image_ids if not is_image_id(each)), None):
        what = f"the image {wrong[:100]!r} has a name that no answer can have"
        remedy = f"{LONGEST_ID} characters or fewer, without control characters"
        raise UnreadableInput(str(folder), what, remedy)
    return Candidates(folder.name, image_ids, folder)


def benchmark_candidates(benchmark: Benchmark, rule: Rule, folder: Path) -> Candidates:
    """The candidates of all parts of a benchmark; with `union`, the references and targets."""
    images = distinct(image for part in benchmark.parts for image in part.corpus.images or ())
    if rule == "union":
        named = {
            image
            for part in benchmark.parts
            for query in part.queries
            for image in (query.reference, query.target, *query.truths)
        }
        images = tuple(image for image in images if image in named)
    if not images:
        raise UnreadableInput(
            f"{benchmark.name} {benchmark.split}", "its candidates are not known", "--corpus all"
        )
    part = rule if rule == "all" else f"{benchmark.split} {rule}"
    return Candidates(f"{benchmark.name} {part}", images, folder)
