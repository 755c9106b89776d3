"""What a contact sheet shows and what it could not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hsfiq.contact_sheet.content import SheetContent
from hsfiq.contact_sheet.sheet import ABSENT, Sheet

NAMED = 3
"""How many images without a picture are listed by name."""


def summarise(path: Path, content: SheetContent, sheet: Sheet) -> dict[str, Any]:
    """Return the JSON result of `hsfiq show`."""
    query = content.query
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
            for row in content.rows
        ],
        "without_picture": sheet.reasons,
        "letters_not_shown": sheet.lacking,
    }


def describe(path: Path, content: SheetContent, sheet: Sheet) -> str:
    rows = content.rows
    n_empty = sum(not row.images for row in rows)
    systems = "1 system" if len(rows) == 1 else f"{len(rows):,} systems"
    without = f", {n_empty:,} without a list" if n_empty else ""
    size = f"{sheet.page.width} x {sheet.page.height} pixels"
    return f"{path}: {systems}{without}, {size}"


def shortcomings(content: SheetContent, sheet: Sheet, root: Path | None) -> list[str]:
    """Describe what the sheet could not show; `root` is the folder of the images, if known."""
    lines = []
    if not content.rows:
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
