"""`hsfiq show`: a query and what systems returned for it, on one page."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    existing_folder,
    open_chosen,
    print_result,
    room,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.contact_sheet import SheetQuery, SheetRow
    from hsfiq.contact_sheet.sheet import Sheet

LONGEST_LIST = 100
NAMED = 3
"""Images named of those without a picture."""


def register(app: typer.Typer) -> None:
    """Add the command."""
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
        str | None, typer.Option(metavar="NAME", help="Where DIR has the query in several.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the images lie; absent ones are drawn as such."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A system's ranked lists; may come several times. Else the database's.",
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
        typer.Option(metavar="FILE", help="A font for letters that none of this system's has."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a contact sheet: reference, text and target, then each system's list with its scores.

    The target is framed, and so are CIRCO's other truths and the reference where a list has them.
    """
    room("PIL", "annotate")
    from hsfiq.atomic_files import write_whole
    from hsfiq.contact_sheet.sheet import draw_sheet
    from hsfiq.images.folder import ImageFolder

    path = out or Path(f"show-{safe(query)}.png")
    if path.suffix.lower() != ".png":
        raise UnreadableInput(str(path), "a sheet is a PNG", "name a file that ends with .png")
    if path.exists() and not force:
        raise UnreadableInput(
            str(path), "is there already", "name another file with --out, or --force"
        )
    existing_folder(path.parent)
    if data is not None:
        asked, rows, usual = from_folder(existing_folder(data), query, split, run or [])
    elif split is None:
        asked, rows, usual = from_database(ctx, database, query, run or [])
    else:
        raise UnreadableInput("--split", "is for a dataset's folder", "name it with --data")
    root = existing_folder(images) if images else usual
    find = no_file if root is None else ImageFolder(root).find
    with warnings.catch_warnings(action="ignore"):  # Pillow's, of files that are odd but whole
        sheet = draw_sheet(asked, rows, k, find, font)
    write_whole(path, sheet.png())
    print_result(facts(path, asked, rows, sheet), describe(path, rows, sheet), as_json=as_json)
    for line in shortcomings(rows, sheet, root):
        typer.echo(line, err=True)


def safe(query_id: str) -> str:
    """A query's id as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._~#-]", "_", query_id)[:100]


def from_folder(
    folder: Path, query_id: str, split: str | None, runs: list[Path]
) -> tuple[SheetQuery, list[SheetRow], Path | None]:
    """The query from a dataset's folder, the lists from runs, and where the images lie."""
    from hsfiq.contact_sheet import query_in_folder, rows_of_runs
    from hsfiq.images.folder import usual_folder

    query = query_in_folder(folder, query_id, [split] if split else [])
    return query, rows_of_runs(runs, query), usual_folder(folder) or folder


def from_database(
    ctx: typer.Context, database: str | None, query_id: str, runs: list[Path]
) -> tuple[SheetQuery, list[SheetRow], Path | None]:
    """The same from the database, whose own lists are shown where no run is named."""
    from hsfiq.contact_sheet import rows_of_runs, stored_image_root, stored_query, stored_rows

    with open_chosen(ctx, database, create=False).reading() as session:
        query = stored_query(session, query_id)
        rows = rows_of_runs(runs, query) if runs else stored_rows(session, query)
        return query, rows, stored_image_root(session, query)


def describe(path: Path, rows: list[SheetRow], sheet: Sheet) -> str:
    """What was drawn, for a person."""
    n_empty = sum(not row.images for row in rows)
    systems = "1 system" if len(rows) == 1 else f"{len(rows):,} systems"
    without = f", {n_empty:,} without a list" if n_empty else ""
    size = f"{sheet.page.width} x {sheet.page.height} pixels"
    return f"{path}: {systems}{without}, {size}"


def facts(path: Path, query: SheetQuery, rows: list[SheetRow], sheet: Sheet) -> dict[str, Any]:
    """The same for a program."""
    target = query.answers[0] if query.answers else None
    return {
        "file": str(path),
        "query_id": query.query_id,
        "dataset": query.dataset,
        "size": list(sheet.page.size),
        "systems": [
            {
                "system": row.system,
                "images": len(row.images),
                "target_rank": row.images.index(target) + 1 if target in row.images else None,
                **({"reason": row.reason} if row.reason else {}),
            }
            for row in rows
        ],
        "without_picture": sheet.reasons,
        "letters_not_shown": sheet.lacking,
    }


def no_file(_image: str) -> Path | None:
    """Where an image lies while nobody says where images are."""
    return None


def shortcomings(rows: list[SheetRow], sheet: Sheet, root: Path | None) -> list[str]:
    """What the sheet could not show."""
    from hsfiq.contact_sheet.sheet import ABSENT

    lines = []
    if not rows:
        lines.append("no ranked list is known for this query: name runs with --run FILE")
    if sheet.reasons:
        names = list(sheet.reasons)
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        n_images = len({cell.image for cell in sheet.cells})
        n_absent = sum(reason == ABSENT for reason in sheet.reasons.values())
        where = f"below {root}" if root else "as no image folder is known (--images DIR)"
        lines.append(
            f"{len(names):,} of {n_images:,} images have no picture ({n_absent:,} absent {where}, "
            f"{len(names) - n_absent:,} broken): {', '.join(names[:NAMED])}{more}"
        )
    if sheet.lacking:
        lines.append(f"no font here shows {sheet.lacking}: name one with --font FILE")
    return lines
