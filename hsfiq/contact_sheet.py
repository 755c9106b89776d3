"""Contact sheets: a query's reference, text, target and ranked lists on one picture."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from PIL import Image, ImageDraw, ImageFont
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db import source_tables
from hsfiq.db.source_tables import Dataset, Query, RankedList, System
from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED, split_query_id
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.display import displayable
from hsfiq.images.folder import usual_folder
from hsfiq.images.store import Original, Root, root_named
from hsfiq.importing import CIRCO_DATASETS, chunks
from hsfiq.readers.datasets import canonical, dataset_of, read_folder
from hsfiq.readers.runs import PlacedList, read_run
from hsfiq.records import Source, Triplet
from hsfiq.text import joined, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# The content of a sheet, from a dataset's folder and runs: a query and its ranked lists.


@dataclass(frozen=True, slots=True)
class SheetQuery:
    """A query; `answers` are its target, if known, and CIRCO's other ground truths.

    `reference` is None or `text` empty if the query has none.
    """

    query_id: str
    dataset: str
    text: str
    reference: str | None
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A system's list, best first; without a list, `reason` explains why."""

    system: str
    images: tuple[str, ...]
    scores: tuple[float, ...] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SheetContent:
    """A query, a row for each system, and the folder of the images, if known."""

    query: SheetQuery
    rows: list[SheetRow]
    image_root: Root | None


def content_from_folder(
    folder: Path, query_id: str, splits: Sequence[str], runs: Sequence[Path]
) -> SheetContent:
    """Read a query from its dataset's folder, and its lists from runs."""
    query = query_in_folder(folder, query_id, splits)
    return SheetContent(query, rows_of_runs(runs, query), usual_folder(folder) or folder)


def query_in_folder(folder: Path, query_id: str, splits: Sequence[str] = ()) -> SheetQuery:
    """Read a query, its captions in either order, from a folder of FashionIQ, CIRR or CIRCO.

    The `splits` are searched; in CIRCO, ids of different splits may be equal.

    Raises:
        UnreadableInput: it is missing, or in several splits.
    """
    dataset = dataset_of(folder)
    triplet_id, suffix = split_query_id(query_id)
    categories: Sequence[str] = ()
    if dataset == "fashioniq":
        category, split = category_and_split(triplet_id, folder)
        categories, splits = (category,), splits or (split,)
    matches = [
        (split, triplet)
        for split in read_folder(folder, categories, splits)
        for triplet in split.triplets
        if triplet.external_id == triplet_id
    ]
    if not matches or suffix not in ("", REVERSED):
        raise UnreadableInput(str(folder), f"has no query {query_id!r}")
    if len(matches) > 1:
        names = " and ".join(split.corpus for split, _ in matches)
        raise UnreadableInput("--split", f"query {query_id} is in {names}", "name one of them")
    return query_of(dataset, *matches[0], suffix)


def category_and_split(triplet_id: str, folder: Path) -> tuple[str, str]:
    """Return the category and the split in a FashionIQ triplet's id."""
    parts = triplet_id.split(".")
    if len(parts) != 3:
        raise UnreadableInput(
            str(folder), f"has no query {triplet_id!r}", "ids look like shirt.val.0"
        )
    return parts[0], parts[1]


def query_of(dataset: str, split: Source, triplet: Triplet, suffix: str) -> SheetQuery:
    """Return a triplet's query, its captions in the order given by the suffix."""
    captions = triplet.captions if suffix == "" else triplet.captions[::-1]
    return SheetQuery(
        query_id=triplet.external_id + suffix,
        dataset=dataset,
        text=joined(captions),
        reference=triplet.reference,
        answers=split.answers(triplet),
    )


def rows_of_runs(paths: Sequence[Path], query: SheetQuery) -> list[SheetRow]:
    """Return a row for each system of each run, named in the run, else by the file."""
    rows = [(path, row) for path in paths for row in rows_of_run(path, query)]
    counts = Counter(row.system for _, row in rows)
    return [
        replace(row, system=f"{row.system} ({path})") if counts[row.system] > 1 else row
        for path, row in rows
    ]


def rows_of_run(path: Path, query: SheetQuery) -> list[SheetRow]:
    lists: dict[str, dict[str, PlacedList]] = {}
    for placed in read_run(path).lists:
        lists.setdefault(placed.ranked.system or path.stem, {})[placed.ranked.query_id] = placed
    if not lists:
        return [SheetRow(path.stem, (), reason=f"{path.name} holds no list")]
    return [row_of(system, by_query, query, path) for system, by_query in lists.items()]


def row_of(system: str, lists: dict[str, PlacedList], query: SheetQuery, path: Path) -> SheetRow:
    """Return a system's list for the query, or the reason why there is none."""
    if query.query_id not in lists:
        triplet_id, suffix = split_query_id(query.query_id)
        other = triplet_id if suffix == REVERSED else triplet_id + REVERSED
        hint = f", only for {other}" if other in lists else ""
        return SheetRow(system, (), reason=f"no list for {query.query_id} in {path.name}{hint}")
    where, ranked = lists[query.query_id]
    images = ranked.images
    if query.dataset in CIRCO_DATASETS.values():
        images = tuple(canonical(image, where) for image in images)
    return SheetRow(system, images, ranked.scores)


# Fonts for a sheet: Pillow's own, or one of the system's if that one lacks a character.

FALLBACKS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "LiberationSans-Regular.ttf",
    "Arial.ttf",
    "arial.ttf",
    "NotoSansCJK-Regular.ttc",
    "wqy-zenhei.ttc",
    "Arial Unicode.ttf",
    "msyh.ttc",
    "malgun.ttf",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
)
"""Common system fonts, by the file names that Pillow searches for."""

ELLIPSIS = "..."

OWN = ""
"""Pillow's own font, which is not a file."""

_PROBE_SIZE = 20
_NO_LETTER = "\uffff"
_INVISIBLE = {"Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"}


class Fonts:
    """Chooses for each text the first font that has most of its characters.

    Pillow's own font has ASCII and few other characters, but is the same on every machine. A `file`
    is preferred to all others; `UnreadableInput` if it is not a font.
    """

    def __init__(self, file: Path | None = None) -> None:
        if file is not None and not is_font(str(file)):
            raise UnreadableInput(str(file), "is not a font", "name a TrueType or OpenType file")
        self._names = (OWN if file is None else str(file), *FALLBACKS)

    def of(self, text: str, size: int) -> ImageFont.FreeTypeFont:
        """Return the font for a text, `size` pixels high."""
        return load(self._choice(text)[0], size)

    def lacking(self, text: str) -> str:
        """Return the characters of a text that no font has."""
        return self._choice(text)[1]

    def _choice(self, text: str) -> tuple[str, str]:
        letters = sorted({c for c in text if unicodedata.category(c) not in _INVISIBLE})
        name = self._names[0]
        lacking = not_in(name, letters)
        for other in filter(is_font, self._names[1:] if lacking else ()):
            if len(still := not_in(other, letters)) < len(lacking):
                name, lacking = other, still
        return name, lacking


def not_in(name: str, letters: Iterable[str]) -> str:
    return "".join(letter for letter in letters if not has(name, letter))


@cache
def has(name: str, letter: str) -> bool:
    """Return whether a font draws a character differently from one that no font has."""
    font = load(name, _PROBE_SIZE)
    drawn, nothing = (font.getmask(text) for text in (letter, _NO_LETTER))
    return drawn.size != nothing.size or bytes(drawn) != bytes(nothing)


@cache
def is_font(name: str) -> bool:
    """Return whether there is a font with this name or in this file."""
    try:
        load(name, _PROBE_SIZE)
    except OSError:
        return False
    return True


@cache
def load(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Load a font in this size in pixels; `OSError` if there is no font with this name."""
    if name:
        return ImageFont.truetype(name, size)
    return cast("ImageFont.FreeTypeFont", ImageFont.load_default(size))


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Break a text at spaces, and within words that are too long, into lines of at most `width`.

    >>> wrapped("is red and long", load(OWN, 20), 80)
    ['is red', 'and long']
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if font.getlength(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while len(line) > 1 and font.getlength(line) > width:
            fits = most_letters(line, font, width)
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line] if line else lines


def most_letters(word: str, font: ImageFont.FreeTypeFont, width: int) -> int:
    """Return how many characters at the start of a word fit, at least one."""
    fits = 1
    while fits < len(word) and font.getlength(word[: fits + 1]) <= width:
        fits += 1
    return fits


def shortened(text: str, font: ImageFont.FreeTypeFont, width: int) -> str:
    """Return a text in one line, cut off if it is too long."""
    if font.getlength(text) <= width:
        return text
    return text[: most_letters(text, font, width - ceil(font.getlength(ELLIPSIS)))] + ELLIPSIS


# One image on a sheet: its box, its frame and its caption.

Role = Literal["target", "truth", "reference"]
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are exclusive."""

INK, SOFT_INK = "#1a1a1a", "#4d4d4d"
LINE, EMPTY = "#c4c4c4", "#efefef"
COLOURS: dict[Role, str] = {"target": "#00663f", "truth": "#0a4f9e", "reference": "#5a5a5a"}
DASHES: dict[Role, int] = {"target": 0, "truth": 18, "reference": 5}
"""Pixels of a dash of the frame, 0 for a solid one, so that roles do not differ only by colour."""

FRAME = 5
"""Width of a frame in pixels; it is drawn around the picture."""
GAP = 2
LINE_HEIGHT = 22
CAPTION = 2 * LINE_HEIGHT + 6
"""Pixels below a box, for two lines: rank, role and score; the image's id."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An image in a box; `reason` says why it has no picture."""

    image: str
    box: Box
    role: Role | None
    rank: int | None = None
    score: str = ""
    reason: str = ""


def draw_cell(page: Image.Image, cell: Cell, picture: Image.Image | None, fonts: Fonts) -> None:
    pen = ImageDraw.Draw(page)
    left, top, right, bottom = cell.box
    if picture is None:
        draw_placeholder(pen, cell, fonts)
    else:
        at = (
            left + (right - left - picture.width) // 2,
            top + (bottom - top - picture.height) // 2,
        )
        page.paste(picture, at)
    pen.rectangle((left, top, right - 1, bottom - 1), outline=LINE)
    if cell.role is not None:
        draw_frame(pen, cell.box, cell.role)
    draw_caption(pen, cell, fonts)


def draw_placeholder(pen: ImageDraw.ImageDraw, cell: Cell, fonts: Fonts) -> None:
    """Write into the box that the image is absent or broken, and its id."""
    left, top, right, bottom = cell.box
    pen.rectangle((left, top, right - 1, bottom - 1), fill=EMPTY)
    width = right - left - 16
    lines = [
        (line, font, ink)
        for text, size, ink in ((cell.reason, 17, INK), (cell.image, 14, SOFT_INK))
        for font in (fonts.of(text, size),)
        for line in wrapped(text, font, width)
    ]
    lines = lines[: (bottom - top) // LINE_HEIGHT]
    y = top + (bottom - top - LINE_HEIGHT * len(lines)) // 2
    for line, font, ink in lines:
        pen.text(((left + right) / 2, y), line, fill=ink, font=font, anchor="ma")
        y += LINE_HEIGHT


def draw_frame(pen: ImageDraw.ImageDraw, box: Box, role: Role) -> None:
    """Frame a box: solid for the target, dashed for other truths, dotted for the reference."""
    left, top, right, bottom = box
    out = FRAME + GAP
    for start in dashes(left - out, right + out, DASHES[role]):
        for y in (top - out, bottom + GAP):
            pen.rectangle((start[0], y, start[1] - 1, y + FRAME - 1), fill=COLOURS[role])
    for start in dashes(top - out, bottom + out, DASHES[role]):
        for x in (left - out, right + GAP):
            pen.rectangle((x, start[0], x + FRAME - 1, start[1] - 1), fill=COLOURS[role])


def dashes(start: int, end: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the dashes of a line, with gaps of equal length; the whole line if `length` is 0."""
    if not length:
        yield start, end
        return
    for at in range(start, end, 2 * length):
        yield at, min(at + length, end)


def draw_caption(pen: ImageDraw.ImageDraw, cell: Cell, fonts: Fonts) -> None:
    """Write rank, role and score in a line below the box, then the image's id."""
    left, _, right, bottom = cell.box
    middle = bottom + FRAME + GAP + LINE_HEIGHT // 2 + 2
    x: float = left
    if cell.rank is not None:
        number = str(cell.rank)
        font = fonts.of(number, 17)
        pen.text((x, middle), number, fill=INK, font=font, anchor="lm")
        x += font.getlength(number) + 8
    if cell.role is not None:
        draw_tag(pen, x, middle, cell.role, fonts)
    if cell.score:
        font = fonts.of(cell.score, 15)
        pen.text((right, middle), cell.score, fill=SOFT_INK, font=font, anchor="rm")
    font = fonts.of(cell.image, 13)
    name = shortened(cell.image, font, right - left)
    pen.text((left, middle + LINE_HEIGHT - 3), name, fill=SOFT_INK, font=font, anchor="lm")


def draw_tag(
    pen: ImageDraw.ImageDraw, left: float, middle: float, role: Role, fonts: Fonts
) -> None:
    """Write the role in white on its colour."""
    font = fonts.of(role, 14)
    right = left + font.getlength(role) + 10
    pen.rectangle((left, middle - 10, right, middle + 9), fill=COLOURS[role])
    pen.text((left + 5, middle), role, fill="white", font=font, anchor="lm")


# The layout of a sheet: a grid of columns, with all cells of the same size.

MOST_COLUMNS, LEAST_COLUMNS = 10, 4
"""Cells side by side; a longer list continues below, a shorter one leaves space for the text."""
MARGIN, GUTTER = 32, 20
LEAST_WIDTH, MOST_WIDTH, USUAL_PAGE = 176, 260, 1400
"""Limits of a cell's width, and the usual width of a page, in pixels."""
TEXT_COLUMNS = 3
NAME_SIZE, STATUS_SIZE, TEXT_SIZE, TITLE_SIZE = 24, 17, 28, 16
TEXT_LINE, ROW_HEAD, TITLE_HEAD = 38, 52, 36
ROW_GAP = 22
NO_REFERENCE, NO_TEXT, NO_TARGET = "no reference", "no text", "target withheld"


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; `at` is the start of its baseline."""

    at: tuple[int, int]
    text: str
    font: ImageFont.FreeTypeFont
    ink: str


class Layout:
    """Places cells and words on a page, from top to bottom.

    `k` is the number of images of each list, `ratio` a cell's height over its width; `reasons` say
    why an image has no picture, by its id.
    """

    def __init__(
        self, query: SheetQuery, k: int, ratio: float, reasons: Mapping[str, str], fonts: Fonts
    ) -> None:
        self.query, self.k, self.reasons, self.fonts = query, k, reasons, fonts
        self.columns = page_columns(k)
        self.cell = (cell_width(k), round(cell_width(k) * ratio))
        self.width = self.left(self.columns) - GUTTER + MARGIN
        self.y = MARGIN
        self.cells: list[Cell] = []
        self.words: list[Words] = []
        self.rules: list[int] = []

    def left(self, column: int) -> int:
        return MARGIN + column * (self.cell[0] + GUTTER)

    def add_query(self) -> None:
        """Place the reference, the text and the target; below them, the other ground truths."""
        title = f"{self.query.dataset}  {self.query.query_id}"
        font = self.fonts.of(title, TITLE_SIZE)
        self._write(MARGIN, self.y + TITLE_SIZE, title, font, SOFT_INK)
        self.y += TITLE_HEAD
        if self.query.reference is None:
            self._note(0, NO_REFERENCE)
        else:
            self._place(self.query.reference, 0, "reference")
        span = min(TEXT_COLUMNS, self.columns - 2)
        indent = 8
        width = self.left(1 + span) - self.left(1) - GUTTER - 2 * indent
        text = shown(self.query.text) or NO_TEXT
        ink = INK if self.query.text else SOFT_INK
        font = self.fonts.of(text, TEXT_SIZE)
        lines = wrapped(text, font, width)
        top = self.y + max(0, self.cell[1] - TEXT_LINE * len(lines)) // 2
        for number, line in enumerate(lines):
            baseline = top + TEXT_LINE * number + TEXT_SIZE
            self._write(self.left(1) + indent, baseline, line, font, ink)
        if self.query.answers:
            self._place(self.query.answers[0], 1 + span, "target")
        else:
            self._note(1 + span, NO_TARGET)
        self.y += max(self.cell[1] + CAPTION, TEXT_LINE * len(lines)) + ROW_GAP
        if others := self.query.answers[1:]:
            self._head("other truths", f"{len(others)}, besides the target")
            self._grid([(name, None, "") for name in others], self.columns)

    def add_row(self, row: SheetRow) -> None:
        """Place a system's name, the target's rank, and the images of the system's list."""
        self._head(row.system, row.reason or standing(self.query, row, self.k))
        scores = score_texts(row, self.k)
        images = [
            (name, rank, score)
            for rank, (name, score) in enumerate(zip(row.images, scores, strict=False), start=1)
        ]
        self._grid(images, min(self.k, MOST_COLUMNS))

    def _note(self, column: int, text: str) -> None:
        """Write in place of an image that the query does not have."""
        font = self.fonts.of(text, STATUS_SIZE)
        self._write(self.left(column), self.y + self.cell[1] // 2, text, font, SOFT_INK)

    def _head(self, name: str, status: str) -> None:
        self.rules.append(self.y)
        baseline = self.y + ROW_HEAD - 20
        font = self.fonts.of(name, NAME_SIZE)
        name = shortened(name, font, self.width // 2)
        self._write(MARGIN, baseline, name, font, INK)
        at = MARGIN + round(font.getlength(name)) + 18
        font = self.fonts.of(status, STATUS_SIZE)
        status = shortened(status, font, self.width - MARGIN - at)
        self._write(at, baseline, status, font, SOFT_INK)
        self.y += ROW_HEAD

    def _grid(self, images: Sequence[tuple[str, int | None, str]], columns: int) -> None:
        for start in range(0, len(images), columns):
            for column, (name, rank, score) in enumerate(images[start : start + columns]):
                self._place(name, column, role_of(self.query, name), rank, score)
            self.y += self.cell[1] + CAPTION + ROW_GAP

    def _place(
        self, name: str, column: int, role: Role | None, rank: int | None = None, score: str = ""
    ) -> None:
        x, y = self.left(column), self.y
        box = (x, y, x + self.cell[0], y + self.cell[1])
        self.cells.append(Cell(name, box, role, rank, score, self.reasons.get(name, "")))

    def _write(self, x: int, y: int, text: str, font: ImageFont.FreeTypeFont, ink: str) -> None:
        self.words.append(Words((x, y), text, font, ink))


def page_columns(k: int) -> int:
    return max(LEAST_COLUMNS, min(k, MOST_COLUMNS))


def cell_width(k: int) -> int:
    columns = page_columns(k)
    fitting = (USUAL_PAGE - 2 * MARGIN) // columns - GUTTER
    return max(LEAST_WIDTH, min(MOST_WIDTH, fitting))


def role_of(query: SheetQuery, image: str) -> Role | None:
    if image in query.answers:
        return "target" if image == query.answers[0] else "truth"
    return "reference" if image == query.reference else None


def standing(query: SheetQuery, row: SheetRow, k: int) -> str:
    """Describe the target's rank in a list, and how many ground truths are among the first `k`."""
    if not query.answers:
        return f"first {min(k, len(row.images))} of {len(row.images)}"
    target = query.answers[0]
    if target not in row.images:
        text = f"target not among its {len(row.images)}"
    else:
        rank = row.images.index(target) + 1
        text = f"target at rank {rank}" + ("" if rank <= k else ", not shown")
    if len(query.answers) > 1:
        n_retrieved = sum(name in query.answers for name in row.images[:k])
        text += f"; {n_retrieved} of {len(query.answers)} truths among the first {k}"
    return text


def score_texts(row: SheetRow, k: int) -> list[str]:
    """Format the first `k` scores of a list, all in the same format."""
    if row.scores is None:
        return [""] * len(row.images[:k])
    scores = row.scores[:k]
    largest = max(map(abs, scores))
    form = ".3f" if 0.01 <= largest < 100_000 or largest == 0 else ".3g"
    return [format(score, form) for score in scores]


# A contact sheet: the query above, then a row for each system. Needs Pillow.
#
# All cells of a sheet have the same size; pictures keep their proportions and are not cropped.

ABSENT = "image absent"
TALLEST, FLATTEST = 1.5, 0.75
"""Limits of a cell's height over its width, which otherwise is that of the tallest image."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A drawn sheet; `reasons` say why images have no picture, `lacking` are undrawn characters."""

    page: Image.Image
    cells: tuple[Cell, ...]
    reasons: dict[str, str]
    lacking: str

    def png(self) -> bytes:
        file = BytesIO()
        self.page.save(file, "PNG", optimize=True)
        return file.getvalue()


def draw_sheet(
    query: SheetQuery,
    rows: Sequence[SheetRow],
    k: int,
    find: Callable[[str], Original | None],
    font: Path | None = None,
) -> Sheet:
    """Draw a query with the first `k` images of each list.

    `find` returns an image's file, or None if it is absent. `font` is a font file for the texts
    (else `UnreadableInput`); by default, it is Pillow's font, else the system's.
    """
    fonts = Fonts(font)
    listed = [name for row in rows for name in row.images[:k]]
    references = [] if query.reference is None else [query.reference]
    names = dict.fromkeys([*references, *query.answers, *listed])
    pictures, reasons = load_pictures(names, find, cell_width(k))
    ratios = [picture.height / picture.width for picture in pictures.values()]
    ratio = min(TALLEST, max([FLATTEST, *ratios]))
    layout = Layout(query, k, ratio, reasons, fonts)
    layout.add_query()
    for row in rows:
        layout.add_row(row)
    page = Image.new("RGB", (layout.width, layout.y), "white")
    pen = ImageDraw.Draw(page)
    for y in layout.rules:
        pen.line((MARGIN, y, layout.width - MARGIN - 1, y), fill=LINE)
    for words in layout.words:
        pen.text(words.at, words.text, fill=words.ink, font=words.font, anchor="ls")
    for cell in layout.cells:
        picture = pictures.get(cell.image)
        draw_cell(page, cell, None if picture is None else fitted(picture, layout.cell), fonts)
    texts = [shown(query.text), *(row.system for row in rows), *names]
    lacking = "".join(dict.fromkeys(letter for text in texts for letter in fonts.lacking(text)))
    return Sheet(page, tuple(layout.cells), reasons, lacking)


def load_pictures(
    names: Iterable[str], find: Callable[[str], Original | None], width: int
) -> tuple[dict[str, Image.Image], dict[str, str]]:
    """Return the pictures by id, no larger than cells, and the reasons why others are missing."""
    pictures, reasons = {}, {}
    for name in names:
        path = find(name)
        try:
            if path is None:
                reasons[name] = ABSENT
            else:
                with decoded(path) as image:
                    box = (width, round(width * TALLEST))
                    pictures[name] = fitted(displayable(image), box)
        except UndecodableImage as error:
            reasons[name] = f"image {error.fault.kind}"
    return pictures, reasons


def fitted(picture: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Resize the picture to the largest size that fits into the box."""
    scale = min(box[0] / picture.width, box[1] / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)


# The content of a sheet, read from the database.


def content_from_database(session: Session, query_id: str, runs: Sequence[Path]) -> SheetContent:
    """Read a query from the database, and its lists from runs; without runs, from the database."""
    query = stored_query(session, query_id)
    rows = rows_of_runs(runs, query) if runs else stored_rows(session, query)
    return SheetContent(query, rows, stored_image_root(session, query))


def stored_query(session: Session, query_id: str) -> SheetQuery:
    """Return the query with this outside id; `UnreadableInput` unless just one dataset has it."""
    triplets, suffix = triplets_with_id(session, query_id), ""
    if not triplets:
        triplet_id, suffix = split_query_id(query_id)
        triplets = triplets_with_id(session, triplet_id)
    if len(triplets) > 1:
        names = " and ".join(triplet.dataset.name for triplet in triplets)
        raise UnreadableInput(
            f"query {query_id}", f"is in {names}", "name one dataset's folder with --data"
        )
    text = text_of(session, triplets[0], suffix) if triplets else None
    if text is None:
        raise UnreadableInput(
            f"query {query_id!r}",
            "is not in the database",
            "name its dataset's folder with --data, or import it",
        )
    reference, target = triplets[0].reference, triplets[0].target
    return SheetQuery(
        query_id=query_id,
        dataset=triplets[0].dataset.name,
        text=text,
        reference=None if reference is None else reference.name,
        answers=() if target is None else (target.name,),
    )


def triplets_with_id(session: Session, triplet_id: str) -> Sequence[source_tables.Triplet]:
    return session.scalars(
        select(source_tables.Triplet).where(source_tables.Triplet.external_id == triplet_id)
    ).all()


def text_of(session: Session, triplet: source_tables.Triplet, suffix: str) -> str | None:
    """Return the text of a triplet's query; None if it is unknown."""
    query = session.scalars(
        select(Query).where(Query.triplet_id == triplet.id, Query.suffix == suffix)
    ).one_or_none()
    if query is not None:
        return query.text
    if suffix not in ("", REVERSED) or not triplet.captions:
        return None
    return joined(triplet.captions if suffix == "" else triplet.captions[::-1])


def stored_rows(session: Session, query: SheetQuery) -> list[SheetRow]:
    """Return the ranked lists of every system for a stored query, by the systems' names."""
    lists = session.execute(
        select(System.name, RankedList.image_ids, RankedList.scores)
        .join(System, RankedList.system_id == System.id)
        .join(Query, RankedList.query_id == Query.id)
        .join(source_tables.Triplet, Query.triplet_id == source_tables.Triplet.id)
        .join(Dataset, source_tables.Triplet.dataset_id == Dataset.id)
        .where(
            source_tables.Triplet.external_id + Query.suffix == query.query_id,
            Dataset.name == query.dataset,
        )
        .order_by(System.name)
    ).all()
    return [
        SheetRow(
            system,
            image_names(session, image_ids),
            None if scores is None else tuple(scores),
        )
        for system, image_ids, scores in lists
    ]


def image_names(session: Session, keys: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of the images with these database keys, in the same order."""
    names: dict[int, str] = {}
    for chunk in chunks(keys):
        rows = session.execute(
            select(source_tables.Image.id, source_tables.Image.name).where(
                source_tables.Image.id.in_(chunk)
            )
        )
        names.update((key, name) for key, name in rows)
    return tuple(names[key] for key in keys)


def stored_image_root(session: Session, query: SheetQuery) -> Root | None:
    """Return the folder of the dataset's images; None if it is unknown."""
    root = session.scalars(
        select(Dataset.image_root).where(Dataset.name == query.dataset)
    ).one_or_none()
    return None if root is None else root_named(root)


# What a contact sheet shows and what it could not show.

NAMED = 3
"""How many images without a picture are listed by name."""


def summarize(path: Path, content: SheetContent, sheet: Sheet) -> dict[str, Any]:
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


def shortcomings(content: SheetContent, sheet: Sheet, root: Root | None) -> list[str]:
    """Describe missing lists, images and characters; `root` is the image folder, if known."""
    lines = []
    if not content.rows:
        lines.append("no ranked list of this query: name runs with --run FILE")
    if sheet.reasons:
        names = list(sheet.reasons)
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        n_images = len({cell.image for cell in sheet.cells})
        n_absent = sum(reason == ABSENT for reason in sheet.reasons.values())
        where = f"below {root}" if root else "as the image folder is unknown (--images DIR)"
        lines.append(
            f"{len(names):,} of {n_images:,} images have no picture ({n_absent:,} absent {where}, "
            f"{len(names) - n_absent:,} broken): {', '.join(names[:NAMED])}{more}"
        )
    if sheet.lacking:
        lines.append(
            f"no installed font has the characters {sheet.lacking}: name a font with --font FILE"
        )
    return lines
