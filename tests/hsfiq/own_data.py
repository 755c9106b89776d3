"""40 own images with queries and two systems' ranked lists, as spreadsheets write them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import openpyxl
from PIL import Image

IMAGES = [f"img{number:02d}" for number in range(40)]


def write_own_data(folder: Path) -> None:
    """A CSV table with semicolons, a BOM and CRLF, a run in JSONL, and one in JSON and .xlsx."""
    rng = Random(3)
    (folder / "photos" / "more").mkdir(parents=True)
    for number, name in enumerate(IMAGES):
        colour = tuple(rng.randrange(256) for _ in range(3))
        place = folder / "photos" / ("more" if number % 2 else "")
        Image.new("RGB", (60, 80), colour).save(place / f"{name}.jpg")
    rows = [
        f"q{number};is redder, and rounder;{name};{IMAGES[number - 1]}"
        for number, name in enumerate(IMAGES)
    ]
    table = "\ufeff" + "\r\n".join(["query_id;text;reference;target", *rows, ""])
    (folder / "queries.csv").write_bytes(table.encode())
    mine, theirs = ({f"q{number}": rng.sample(IMAGES, 8) for number in range(40)} for _ in range(2))
    lines = [json.dumps({"query_id": query, "images": mine[query]}) + "\n" for query in mine]
    (folder / "mine.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "clip.json").write_text(json.dumps(theirs), encoding="utf-8")
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["query_id", "rank", "image_id"])
    for query, images in theirs.items():
        for rank, image in enumerate(images, start=1):
            book.active.append([query, rank, image])
    book.save(folder / "clip4cir.xlsx")
