"""`hsfiq show`: a query and the lists that systems returned for it, on one page."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    existing_folder,
    open_chosen,
    print_result,
    requires,
)
from hsfiq.errors import UnreadableInput

LONGEST_LIST = 100


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq show shirt.val.0 --data fashion-iq --run sprc.jsonl")(show)


def show(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="An id: shirt.val.0, shirt.val.0~, a pairid.")
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
        Path | None,
        typer.Option(metavar="DIR", help="The images' folder; absent images are drawn as such."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A system's ranked lists (may be repeated); else the database's.",
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
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a contact sheet: reference, text and target, then each system's list with its scores.

    The target is framed in lists, as are CIRCO's other ground truths and the reference.
    """
    with requires("annotate"):
        from hsfiq.contact_sheet import describe, draw_sheet, shortcomings, summarise
    from hsfiq.atomic_files import write_whole
    from hsfiq.contact_sheet import content_from_database, content_from_folder
    from hsfiq.images.folder import ImageFolder

    path = out or Path(f"show-{file_name(query)}.png")
    if path.suffix.lower() != ".png":
        raise UnreadableInput(str(path), "a sheet is a PNG", "name a file that ends with .png")
    if path.exists() and not force:
        raise UnreadableInput(
            str(path), "exists already", "name another file with --out, or --force"
        )
    existing_folder(path.parent)
    runs = run or []
    if data is not None:
        content = content_from_folder(existing_folder(data), query, [split] if split else [], runs)
    elif split is None:
        with open_chosen(ctx, database, create=False).reading() as session:
            content = content_from_database(session, query, runs)
    else:
        raise UnreadableInput("--split", "is for a dataset's folder", "name it with --data")
    root = existing_folder(images) if images else content.image_root
    find = ImageFolder(root).find if root else lambda _: None
    with warnings.catch_warnings(action="ignore"):  # Pillow's, about odd but complete files
        sheet = draw_sheet(content.query, content.rows, k, find, font)
    write_whole(path, sheet.png())
    print_result(summarise(path, content, sheet), describe(path, content, sheet), as_json=as_json)
    for line in shortcomings(content, sheet, root):
        typer.echo(line, err=True)


def file_name(query_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._~#-]", "_", query_id)[:100]
