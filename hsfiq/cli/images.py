"""`hsfiq images`: whether the images that a dataset names exist and can be decoded."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, progress
from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few

if TYPE_CHECKING:
    from hsfiq.images.check import BrokenImage, FindFault, ImageCheck

app = typer.Typer(help="Check the images of a dataset.", no_args_is_help=True)

LISTED = 100
"""The most broken images, and the most groups of twin files, that are listed as text."""


@app.callback()
def group() -> None:
    """Check the images of a dataset."""


@app.command(epilog="Example: hsfiq images check fashion-iq --category shirt --split val")
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of FashionIQ, CIRR or CIRCO.")
    ],
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The image folder; else images/ in DIR, or DIR."),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this category; can be repeated.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this split; can be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find missing, empty, truncated and undecodable images; exit code 1 if there are any.

    Every file is decoded. Several files for one image are listed, too: readers take the last.
    """
    from hsfiq.images.check import check_images
    from hsfiq.readers.dataset_folder import dataset_of, read_folder

    splits = read_folder(existing_folder(folder), category or (), split or ())
    root = existing_folder(images) if images else image_root(folder)
    with warnings.catch_warnings(action="ignore"):  # Pillow's, of unusual but complete files
        result = check_images(splits, root, decoder(), progress("images"))
    dataset = dataset_of(folder)
    lines = [*summary(dataset, result), *listing(result)]
    print_result({"dataset": dataset, **result.to_json()}, "\n".join(lines), as_json=as_json)
    raise typer.Exit(0 if result.passed else 1)


def image_root(folder: Path) -> Path:
    """The usual image folder of a dataset, or the dataset's folder itself."""
    from hsfiq.images.folder import image_files, usual_folder

    root = usual_folder(folder) or folder
    if not image_files(root):
        raise UnreadableInput(str(root), "holds no image", "name the image folder with --images")
    return root


def decoder() -> FindFault | None:
    """The function that decodes a file, None without Pillow."""
    try:
        from hsfiq.images.display import find_fault
    except ModuleNotFoundError:
        return None
    return find_fault


def summary(dataset: str, result: ImageCheck) -> list[str]:
    state = "complete" if result.decoded else "exist"
    n_usable = result.images - len(result.broken)
    totals = f"{n_usable:,} of {result.images:,} {state}{counts(result.kinds)}"
    lines = [f"{dataset}, images below {result.folder}: {totals}"]
    if not result.decoded:
        lines.append("decoding was not checked: that needs Pillow (pip install 'hsfiq[annotate]')")
    for name, split in result.splits.items():
        n_usable = split.images - sum(split.kinds.values())
        lines.append(
            f"  {name}: {n_usable:,} of {split.images:,}{counts(split.kinds)}; "
            f"{split.queries_touched:,} of {split.queries:,} queries affected"
        )
    return lines


def counts(kinds: dict[str, int]) -> str:
    return "".join(f", {n:,} {kind}" for kind, n in sorted(kinds.items()))


def listing(result: ImageCheck) -> list[str]:
    lines = [
        f"{image.image}: {image.kind} ({image.file or 'no file'}: {image.why}); {needed_by(image)}"
        for image in result.broken[:LISTED]
    ]
    lines += [
        f"{', '.join(twins.files)}: {'same content' if twins.same_content else 'contents differ'}, "
        f"used: {', '.join(twins.used)}"
        for twins in result.twins[:LISTED]
    ]
    more = sum(max(0, len(rows) - LISTED) for rows in (result.broken, result.twins))
    return [*lines, *([f"and {more:,} more: --json lists all"] if more else [])]


def needed_by(image: BrokenImage) -> str:
    roles = {"reference": image.reference_of, "target": image.target_of, "truth": image.truth_of}
    uses = [f"{role} of {first_few(ids)}" for role, ids in roles.items() if ids]
    return ", ".join(uses) or f"only a candidate ({', '.join(image.splits)})"
