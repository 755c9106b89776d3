"""`hsfiq images` and `hsfiq show`: the images of a dataset or a study, and contact sheets."""

from __future__ import annotations

import re
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli import common
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.images.check import NOT_DECODED
from hsfiq.signals import Signals
from hsfiq.text import count_text, first_few

if TYPE_CHECKING:
    from collections.abc import Callable

    from hsfiq.db.engine import Database
    from hsfiq.images.check import BrokenImage, ImageCheck
    from hsfiq.images.store import Original
    from hsfiq.study.images import StudyImages

app = common.Commands(
    help="Check the images of a dataset or a study; make thumbnails in advance.",
    no_args_is_help=True,
)


LISTED = 100
"""The most broken images, and the most groups of twin files, that are listed as text."""


@app.callback()
def group() -> None:
    """Check the images of a dataset or a study."""


@app.command(epilog="Example: hsfiq images check autumn")
def check(
    call: common.JsonCall,
    about: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|DIR]",
            help="A study, or a folder of FashionIQ, CIRR or CIRCO; by default the only study.",
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            "--study", metavar="NAME", help="Same as NAME; needed if a folder has the same name."
        ),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL", help="The image folder or store; else images/ in DIR, or DIR."
        ),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this category.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this split.")
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="For a study: accept changed and new files, and record their digests.",
        ),
    ] = False,
) -> None:
    """Find missing, broken and changed images.

    The exit code is 1 if any are found. Every file is decoded. For a dataset, all images are
    checked, and images with several files are listed: readers use the last file. For a study, the
    references and candidates are checked and compared with the digests recorded at its creation.
    """
    is_folder = about is not None and not is_study(call, about)
    if is_folder and study is not None:
        raise UnreadableInput("DIR", "name either a dataset's folder or --study", "not both")
    if is_folder:
        if accept:
            raise UnreadableInput("--accept", "is for studies", "leave it out")
        check_dataset(Path(about or ""), images, category or [], split or [], as_json=call.as_json)
    elif images or category or split:
        what = "--images, --category and --split are for a dataset's folder"
        raise UnreadableInput("DIR", what, "name one, or leave them out")
    else:
        check_study(call, common.one_name(about, study), accept=accept)


def is_study(call: common.Call, name: str) -> bool:
    """Whether a name is that of a study and not of a folder."""
    from hsfiq.collect.studies import find_study

    if Path(name).is_dir():
        return False
    try:
        with call.reading() as session:
            return find_study(session, name) is not None
    except NothingToDo:
        return False


@app.command(epilog="Example: hsfiq images warm --study autumn")
def warm(
    call: common.JsonCall,
    study: Annotated[
        str | None, typer.Option("--study", metavar="NAME", help="Only this study's images.")
    ] = None,
) -> None:
    """Make the thumbnails of all studies' images in advance.

    Participants then need not wait for thumbnails. Existing thumbnails are kept, so an interrupted
    command can be repeated. `hsfiq serve` makes thumbnails in the background.
    """
    with common.requires("annotate"):
        from hsfiq.annotate.image_copies import (
            WebCopies,
            cache_folder,
            image_files_of,
            make_thumbnails,
        )
    from hsfiq.collect.studies import list_studies

    opened = call.open()
    with opened.reading() as session:
        studies = [common.chosen_study(session, study)] if study else list_studies(session)
        listed = [image_files_of(session, each) for each in studies]
    files = list(dict.fromkeys(path for paths, _ in listed for path in paths))
    copies, ended = WebCopies(cache_folder(opened)), Event()
    if copies.folder != cache_folder(opened):
        raise UnreadableInput(
            str(cache_folder(opened)), "thumbnails cannot be written to this folder"
        )
    begun = time.monotonic()
    with Signals() as signals, warnings.catch_warnings(action="ignore"):
        signals.call(ended.set)
        warmed = make_thumbnails(files, copies, ended, common.progress("thumbnails"))
    seconds = time.monotonic() - begun
    missing = sum(n_missing for _, n_missing in listed)
    line = (
        f"{count_text(warmed.made, 'thumbnail')} made, {warmed.existed:,} existed; "
        f"{warmed.bytes / 1e6:,.1f} MB in {copies.folder}"
    )
    if warmed.made:
        line += f"; {warmed.made / seconds:,.0f} a second"
    if warmed.faulty or missing:
        line += f"\nimages missing: {missing:,}; images that cannot be shown: {warmed.faulty:,}"
    result = {**asdict(warmed), "missing": missing, "seconds": round(seconds, 3)}
    call.print({**result, "folder": str(copies.folder)}, line)


def check_dataset(
    folder: Path, images: str | None, category: list[str], split: list[str], *, as_json: bool
) -> None:
    from hsfiq.images.check import check_images, decoder
    from hsfiq.readers.datasets import dataset_of, read_folder

    splits = read_folder(common.existing_folder(folder), category, split)
    root = common.images_root(images) if images else image_root(folder)
    with warnings.catch_warnings(action="ignore"):  # Pillow's, of unusual but complete files
        result = check_images(splits, root, decoder(), common.progress("images"))
    dataset = dataset_of(folder)
    lines = [*summary(dataset, result), *listing(result)]
    common.print_result({"dataset": dataset, **result.to_json()}, "\n".join(lines), as_json=as_json)
    raise typer.Exit(0 if result.passed else 1)


def check_study(call: common.JsonCall, study: str | None, *, accept: bool) -> None:
    from hsfiq.images.check import decoder
    from hsfiq.study.images import accept_changed, check_shown, record_new, shown_images

    opened = call.open()
    with opened.reading() as session:
        shown = shown_images(session, common.chosen_study(session, study))
    with warnings.catch_warnings(action="ignore"):
        result = check_shown(shown, decoder(), common.progress("images"))
    copies, damaged = damaged_copies_of(opened)
    lines = [*study_summary(result), *study_listing(result)]
    if damaged:
        lines.append(
            f"{damaged:,} of {count_text(copies, 'copy', 'copies')} for pages are damaged or of an "
            "earlier version: the server makes them again, or `hsfiq images warm` thumbnails"
        )
    passed = result.passed
    if accept:
        record_new(opened, result)
        accept_changed(opened, result)
        if result.changed or result.new:
            about = f"{len(result.changed)} changed and {len(result.new)} new images"
            with opened.writing() as session:
                common.record_command(
                    session, Action.IMAGES_ACCEPT, study=result.study, about=about
                )
        lines.append(
            f"{len(result.changed):,} changed and {len(result.new):,} new images were accepted"
        )
        passed = len(result.changed) == len(result.faulty)
    facts = {**result.to_json(), "accepted": accept, "damaged_copies": damaged}
    call.print(facts, "\n".join(lines))
    raise typer.Exit(0 if passed else 1)


def damaged_copies_of(database: Database) -> tuple[int, int]:
    """The number of copies for pages, and of the damaged ones; none where the app is missing."""
    from hsfiq.cli.serve import thumbnails_of
    from hsfiq.images.stored_copies import damaged_copies

    folder = thumbnails_of(database.engine)
    return (0, 0) if folder is None else damaged_copies(folder)


def study_summary(result: StudyImages) -> list[str]:
    place = f"images below {result.folder}" if result.folder else "the image folder is unknown"
    lines = [f"study {result.study}, {place}: {usable(result.images, result.kinds)}"]
    if not result.decoded:
        lines.append(NOT_DECODED)
    lines += [
        f"  {role}s: {usable(check.images, check.kinds)}" for role, check in result.roles.items()
    ]
    lines.append(f"  pairs with such an image: {result.pairs_touched:,} of {result.pairs:,}")
    return lines


def study_listing(result: StudyImages) -> list[str]:
    lines = [
        f"{image.image}: {image.kind} ({image.file or 'no file'}: {image.why}); "
        f"{' and '.join(image.roles)} of {first_few(image.queries)}"
        for image in result.faulty[:LISTED]
    ]
    lines += [
        f"{new.image}: new ({new.file}: no digest is recorded)" for new in result.new[:LISTED]
    ]
    more = sum(max(0, len(rows) - LISTED) for rows in (result.faulty, result.new))
    return [*lines, *([f"and {more:,} more: --json lists all"] if more > 0 else [])]


def usable(n_images: int, kinds: dict[str, int]) -> str:
    return f"{n_images - sum(kinds.values()):,} of {n_images:,} can be shown{counts(kinds)}"


def image_root(folder: Path) -> Path:
    """The usual image folder of a dataset, or the dataset's folder itself."""
    from hsfiq.images.folder import image_files, usual_folder

    root = usual_folder(folder) or folder
    if not image_files(root):
        raise UnreadableInput(str(root), "holds no image", "name the image folder with --images")
    return root


def summary(dataset: str, result: ImageCheck) -> list[str]:
    state = "complete" if result.decoded else "exist"
    n_usable = result.images - len(result.broken)
    totals = f"{n_usable:,} of {result.images:,} {state}{counts(result.kinds)}"
    lines = [f"{dataset}, images below {result.folder}: {totals}"]
    if not result.decoded:
        lines.append(NOT_DECODED)
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


# `hsfiq show`: a query and the lists that systems returned for it, on one page.

LONGEST_LIST = 100


@app.command(epilog="Example: hsfiq images draw-fisd fisd-drawn")
def draw_fisd(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    triplets: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1000, help="The triplets of each aspect; FISD has 200."
        ),
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the triplets.")] = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Draw FISD's six aspects on garments, for `hsfiq evaluate fisd`."""
    with common.requires("annotate"):
        from hsfiq.drawn.fisd import write_drawn_fisd
    n = write_drawn_fisd(out, seed, triplets)
    line = f"{out}: six aspects of {count_text(triplets, 'triplet')}, {count_text(n, 'picture')}"
    common.print_result({"out": str(out), "triplets": triplets, "images": n}, line, as_json=as_json)


show_app = common.Commands()


@show_app.command(epilog="Example: hsfiq show shirt.val.0 --data fashion-iq --run sprc.jsonl")
def show(
    call: common.JsonCall,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="The query's id: shirt.val.0, shirt.val.0~, a pairid."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder of FashionIQ, CIRR or CIRCO; else the database."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Needed if several splits of DIR have the query."),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            help="The images' folder or store; absent images are drawn as such.",
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A system's ranked lists; else those in the database.",
        ),
    ] = None,
    k: Annotated[
        int, typer.Option(metavar="N", help="Images of each list.", min=1, max=LONGEST_LIST)
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="The sheet's file [show-QUERY.png].", dir_okay=False),
    ] = None,
    font: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A font for letters that no installed font has."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Draw a contact sheet: reference, text and target, then each system's list with its scores.

    The target is framed in lists, as are CIRCO's other ground truths and the reference.
    """
    with common.requires("annotate"):
        from hsfiq.contact_sheet import describe, draw_sheet, shortcomings, summarize
    from hsfiq.atomic_files import write_whole
    from hsfiq.contact_sheet import content_from_database, content_from_folder
    from hsfiq.images.store import open_images

    path = out or Path(f"show-{file_name(query)}.png")
    if path.suffix.lower() != ".png":
        raise UnreadableInput(str(path), "is not a PNG file", "name a file that ends with .png")
    if path.exists() and not force:
        raise UnreadableInput(
            str(path), "exists already", "name another file with --out, or --force"
        )
    common.existing_folder(path.parent)
    runs = run or []
    if data is not None:
        content = content_from_folder(
            common.existing_folder(data), query, [split] if split else [], runs
        )
    elif split is None:
        with call.reading() as session:
            content = content_from_database(session, query, runs)
    else:
        raise UnreadableInput("--split", "is for a dataset's folder", "name it with --data")
    root = common.images_root(images) if images else content.image_root
    find: Callable[[str], Original | None] = open_images(root).find if root else lambda _: None
    with warnings.catch_warnings(action="ignore"):  # Pillow's, about odd but complete files
        sheet = draw_sheet(content.query, content.rows, k, find, font)
    write_whole(path, sheet.png())
    call.print(summarize(path, content, sheet), describe(path, content, sheet))
    for line in shortcomings(content, sheet, root):
        common.note(line)


def file_name(query_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._~#-]", "_", query_id)[:100]
