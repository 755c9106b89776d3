"""`hsfiq images`: whether the images that a dataset names are there and whole."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, progress
from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few

if TYPE_CHECKING:
    from hsfiq.images.check import BrokenImage, Decode, ImageCheck

app = typer.Typer(help="Look after the images of a dataset.", no_args_is_help=True)

LISTED = 100
"""Images, and files that compete for one, that a person is shown."""


@app.callback()
def group() -> None:
    """Look after the images of a dataset."""


@app.command(epilog="Example: hsfiq images check fashion-iq --category shirt --split val")
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of FashionIQ, CIRR or CIRCO.")
    ],
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the images lie; else images/ in DIR, or DIR."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this category; may come several times."),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this split; may come several times."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the images that are missing, empty, truncated or no image; exit code 1 if there are any.

    Every file is decoded. Files that compete for one image are named too: readers take the last.
    """
    from hsfiq.images.check import check_images
    from hsfiq.readers.dataset_folder import read_folder

    dataset = read_folder(existing_folder(folder), category or (), split or ())
    root = existing_folder(images) if images else image_root(folder)
    with warnings.catch_warnings(action="ignore"):  # Pillow's, of files that are odd but whole
        found = check_images(dataset.splits, root, decoder(), progress("images"))
    lines = [*summary(dataset.dataset, found), *listing(found)]
    print_result({"dataset": dataset.dataset, **found.to_json()}, "\n".join(lines), as_json=as_json)
    raise typer.Exit(0 if found.is_well else 1)


def image_root(folder: Path) -> Path:
    """Where a dataset's images lie, if nobody says: in the usual place, or anywhere below it.

    Raises:
        UnreadableInput: there is no image at all.
    """
    from hsfiq.images.folder import image_files, usual_folder

    root = usual_folder(folder) or folder
    if not image_files(root):
        raise UnreadableInput(str(root), "holds no image", "name their folder with --images")
    return root


def decoder() -> Decode | None:
    """What decodes a file, None without Pillow."""
    try:
        from hsfiq.images.decode import find_fault
    except ModuleNotFoundError:
        return None
    return find_fault


def summary(dataset: str, found: ImageCheck) -> list[str]:
    """How many images there are of each state, altogether and in each split."""
    whole = "whole" if found.decoded else "there"
    head = f"{dataset}, images below {found.folder}: {found.images - len(found.broken):,} of "
    lines = [f"{head}{found.images:,} {whole}{counts(found.kinds)}"]
    if not found.decoded:
        lines.append("decoding was not checked: that needs Pillow (pip install 'hsfiq[annotate]')")
    for name, split in found.splits.items():
        n_whole = split.images - sum(split.kinds.values())
        lines.append(
            f"  {name}: {n_whole:,} of {split.images:,}{counts(split.kinds)}; "
            f"{split.queries_touched:,} of {split.queries:,} queries touched"
        )
    return lines


def counts(kinds: dict[str, int]) -> str:
    """The kinds of faults with their numbers, after a comma."""
    return "".join(f", {n:,} {kind}" for kind, n in sorted(kinds.items()))


def listing(found: ImageCheck) -> list[str]:
    """The broken images and the files that compete, the first of each."""
    lines = [
        f"{image.image}: {image.kind} ({image.file or 'no file'}: {image.why}); {needed_by(image)}"
        for image in found.broken[:LISTED]
    ]
    lines += [
        f"{', '.join(twins.files)}: {'the same content' if twins.same_content else 'differ'}, "
        f"taken: {', '.join(twins.used)}"
        for twins in found.twins[:LISTED]
    ]
    left = sum(max(0, len(rows) - LISTED) for rows in (found.broken, found.twins))
    return [*lines, *([f"and {left:,} more: --json lists all"] if left else [])]


def needed_by(image: BrokenImage) -> str:
    """The queries that an image's loss touches."""
    roles = {
        "reference": image.reference_of,
        "target": image.target_of,
        "truth": image.truth_of,
    }
    said = [f"{role} of {first_few(ids)}" for role, ids in roles.items() if ids]
    return ", ".join(said) or f"only a candidate ({', '.join(image.splits)})"
