"""Contact sheets: their layout, checked by pixels and cells instead of golden files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor

from hsfiq.contact_sheet import (
    ABSENT,
    COLOURS,
    EMPTY,
    FRAME,
    GAP,
    MOST_COLUMNS,
    OWN,
    Cell,
    Fonts,
    Sheet,
    SheetQuery,
    SheetRow,
    cell_width,
    draw_sheet,
    load,
    query_in_folder,
    rows_of_runs,
    score_texts,
    wrapped,
)
from hsfiq.errors import UnreadableInput
from tests.hsfiq.samples import CIRR, FASHIONIQ, RUNS, hsfiq

RED, BLUE = (200, 30, 30), (30, 30, 200)
QUERY = SheetQuery("shirt.val.0", "fashioniq", "is red and has no collar", "ref", ("tgt", "also"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("ref", "tgt", "also", "a", "b", "ref_a", "tgt_a", "s1"):
        Image.new("RGB", (60, 80), RED).save(folder / f"{name}.png")
    return folder


def drawn(images: Path, *rows: SheetRow, k: int = 5, query: SheetQuery = QUERY) -> Sheet:
    def find(name: str) -> Path | None:
        path = images / f"{name}.png"
        return path if path.exists() else None

    return draw_sheet(query, rows, k, find)


def listed(sheet: Sheet) -> list[Cell]:
    """The cells of the systems' lists."""
    return [cell for cell in sheet.cells if cell.rank is not None]


def colour(sheet: Sheet, x: int, y: int) -> object:
    return sheet.page.getpixel((x, y))


def frame_share(sheet: Sheet, cell: Cell) -> float:
    """The share of the line left of a cell's box that has the colour of its role."""
    left, top, _, bottom = cell.box
    ink = ImageColor.getrgb(COLOURS[cell.role]) if cell.role else RED
    x = left - GAP - FRAME // 2
    return sum(colour(sheet, x, y) == ink for y in range(top, bottom)) / (bottom - top)


# ------------------------------------------------------------------------------------- the page


def test_roles_are_shown_by_frames_and_words_not_only_by_colour(images: Path) -> None:
    sheet = drawn(images, SheetRow("s", ("a", "tgt", "also", "ref", "b")))
    roles = [cell.role for cell in listed(sheet)]
    assert roles == [None, "target", "truth", "reference", None]
    shares = [frame_share(sheet, cell) for cell in listed(sheet)]
    assert shares[0] == shares[4] == 0
    assert shares[1] == 1
    assert 0.4 < shares[2] < 0.7
    assert 0.4 < shares[3] < 0.7
    for cell in listed(sheet)[1:4]:
        assert cell.role is not None
        left, _, right, bottom = cell.box
        tag = sheet.page.crop((left, bottom + FRAME + GAP, right, bottom + FRAME + GAP + 24))
        colours = {pixel for _, pixel in tag.getcolors(10_000) or []}
        assert ImageColor.getrgb(COLOURS[cell.role]) in colours
        assert (255, 255, 255) in colours
        inside = sheet.page.crop((left + 1, cell.box[1] + 1, right - 1, bottom - 1))
        assert inside.getcolors() == [(inside.width * inside.height, RED)], "no frame covers it"
    reference_images = [cell.image for cell in sheet.cells if cell.rank is None]
    assert reference_images == ["ref", "tgt", "also"]


def test_a_sheet_of_a_query_without_reference_or_text(images: Path) -> None:
    row = SheetRow("s", ("a", "tgt"))
    texts_alone = SheetQuery("7", "shop", "a red shirt", None, ("tgt",))
    sheet = drawn(images, row, query=texts_alone)
    assert [cell.role for cell in sheet.cells] == ["target", None, "target"]
    image_alone = SheetQuery("7", "shop", "", "ref", ())
    assert drawn(images, row, query=image_alone).cells[0].role == "reference"


def test_absent_and_broken_images_become_labelled_placeholders(images: Path) -> None:
    (images / "b.png").write_bytes(b"no image")
    sheet = drawn(images, SheetRow("s", ("gone", "b", "a")))
    assert sheet.reasons == {"gone": ABSENT, "b": "image undecodable"}
    for cell, expected in zip(listed(sheet), (EMPTY, EMPTY, None), strict=True):
        left, top, right, bottom = cell.box
        expected_colour = ImageColor.getrgb(expected) if expected else RED
        assert colour(sheet, left + 5, top + 5) == expected_colour
        middle = sheet.page.crop((left + 5, top + 5, right - 5, bottom - 5))
        assert (len(middle.getcolors(100_000) or []) > 2) == (expected is not None), "words"


@pytest.mark.parametrize("size", [(30, 60), (400, 90), (3, 900), (2, 2)])
def test_pictures_keep_their_proportions_and_are_not_cropped(
    size: tuple[int, int], images: Path
) -> None:
    Image.new("RGB", size, BLUE).save(images / "a.png")
    sheet = drawn(images, SheetRow("s", ("a", "b")))
    left, top, right, bottom = listed(sheet)[0].box
    blue = sheet.page.crop((left, top, right, bottom)).split()[0].point(lambda v: 255 * (v == 30))
    bounds = blue.getbbox()
    assert bounds is not None
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    assert width / height == pytest.approx(size[0] / size[1], rel=0.05, abs=0.02)
    assert max(width / (right - left), height / (bottom - top)) > 0.97


@settings(max_examples=25)
@given(k=st.integers(1, 30), lengths=st.lists(st.integers(1, 40), max_size=4))
def test_cells_have_one_size_and_one_grid(k: int, lengths: list[int]) -> None:
    rows = [SheetRow(f"s{n}", tuple(f"i{i}" for i in range(n))) for n in lengths]
    sheet = draw_sheet(QUERY, rows, k, lambda _: None)
    sizes = {(c.box[2] - c.box[0], c.box[3] - c.box[1]) for c in sheet.cells}
    assert len(sizes) == 1
    assert max(max(size) for size in sizes) <= 300 * 1.5
    boxes = [cell.box for cell in sheet.cells]
    for number, box in enumerate(boxes):
        assert box[0] >= 8
        assert box[2] <= sheet.page.width - 8
        assert box[3] <= sheet.page.height - 30
        for other_box in boxes[:number]:
            min_distance = 2 * (FRAME + GAP)
            assert (
                box[0] - other_box[2] >= min_distance
                or other_box[0] - box[2] >= min_distance
                or box[1] - other_box[3] >= 40
            )
    assert len(listed(sheet)) == sum(min(k, n) for n in lengths)
    assert len({box[0] for box in boxes}) <= max(MOST_COLUMNS, 4)
    assert cell_width(k) <= 300


def test_the_text_wraps_and_the_page_grows(images: Path) -> None:
    long = SheetQuery("q", "d", "is longer and " * 80 + "x" * 400, "ref", ("tgt",))
    assert drawn(images, query=long).page.height > drawn(images).page.height
    assert drawn(images, query=long).page.width == drawn(images).page.width


@settings(max_examples=60)
@given(text=st.text(alphabet="ab .", max_size=60), width=st.integers(30, 300))
def test_wrapping_loses_no_letter(text: str, width: int) -> None:
    font = load(OWN, 20)
    lines = wrapped(text, font, width)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(font.getlength(line) <= width for line in lines)


def test_letters_missing_from_the_font_are_named() -> None:
    assert Fonts().lacking("is red, ~60% off") == ""
    private = "\ue123"
    assert Fonts().lacking(f"a {private}") == private
    query = SheetQuery("q", "d", f"is {private}", "ref", ())
    assert draw_sheet(query, [], 5, lambda _: None).lacking == private
    with pytest.raises(UnreadableInput, match="is not a font"):
        Fonts(Path(__file__))


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        (None, ["", ""]),
        ((0.98, 0.5), ["0.980", "0.500"]),
        ((0.0, 0.0), ["0.000", "0.000"]),
        ((-3e-7, -4e-7), ["-3e-07", "-4e-07"]),
    ],
)
def test_scores(scores: tuple[float, ...] | None, texts: list[str]) -> None:
    assert score_texts(SheetRow("s", ("a", "b"), scores), 2) == texts


# --------------------------------------------------------------------------- sources of the query


def test_from_a_folder_with_runs(images: Path) -> None:
    show = ("show", "shirt.val.0", "--data", FASHIONIQ)
    runs = ("--run", RUNS / "sprc.jsonl", "--run", RUNS / "sprc.json")
    command = hsfiq(*show, "--images", images, *runs, "--k", "2")
    assert (command.code, command.err) == (0, "")
    assert command.out.startswith("show-shirt.val.0.png: 2 systems, ")
    with Image.open("show-shirt.val.0.png") as page:
        assert page.format == "PNG"
    again = hsfiq(*show)
    assert (again.code, again.out) == (2, "")
    assert "show-shirt.val.0.png: exists already" in again.err
    assert hsfiq(*show, "--force").code == 0
    assert [path.name for path in Path().glob("*show*")] == ["show-shirt.val.0.png"]
    command = hsfiq(*show, "--force", "--images", images, "--run", RUNS / "sprc.jsonl", "--json")
    assert command.result["without_picture"] == {"s2": ABSENT}
    assert command.result["systems"] == [{"system": "SPRC", "images": 3, "target_rank": 1}]
    assert command.err == f"1 of 4 images have no picture (1 absent below {images}, 0 broken): s2\n"


def test_captions_in_the_reversed_order() -> None:
    assert query_in_folder(FASHIONIQ, "shirt.val.0").text == "is red and has no collar"
    reversed_ = query_in_folder(FASHIONIQ, "shirt.val.0~")
    assert (reversed_.query_id, reversed_.text) == ("shirt.val.0~", "has no collar and is red")
    assert query_in_folder(FASHIONIQ, "shirt.test.0").answers == ()
    assert query_in_folder(CIRR, "7").reference == "dev-1-0-img0"


def test_circo_has_several_targets_and_ids_in_two_splits(tmp_path: Path) -> None:
    entry = {"id": 0, "reference_img_id": 3, "relative_caption": "two dogs", "shared_concept": "a"}
    val = entry | {"target_img_id": 12, "gt_img_ids": [12, 44], "semantic_aspects": []}
    (tmp_path / "val.json").write_text(json.dumps([val]))
    (tmp_path / "test.json").write_text(json.dumps([entry]))
    with pytest.raises(UnreadableInput, match="--split: query 0 is in val and test; name one"):
        query_in_folder(tmp_path, "0")
    query = query_in_folder(tmp_path, "0", ["val"])
    assert query.answers == ("12", "44")
    run = tmp_path / "mine.json"
    run.write_text(json.dumps({"0": [44, "000000000012", 5]}))
    (row,) = rows_of_runs([run], query)
    assert row == SheetRow("mine", ("44", "12", "5"))
    command = hsfiq("show", "0", "--data", ".", "--split", "val", "--run", run, "--json")
    assert command.result["systems"][0]["target_rank"] == 2


def test_a_run_without_the_query_says_so(tmp_path: Path) -> None:
    query = query_in_folder(FASHIONIQ, "shirt.val.1")
    (row,) = rows_of_runs([RUNS / "sprc.trec"], query)
    assert (row.system, row.images) == ("SPRC", ())
    assert row.reason == "no list for shirt.val.1 in sprc.trec, only for shirt.val.1~"
    command = hsfiq("show", "shirt.val.1", "--data", FASHIONIQ, "--run", RUNS / "sprc.trec")
    assert "1 system, 1 without a list" in command.out


def test_systems_of_the_same_name_get_distinct_labels() -> None:
    query = query_in_folder(FASHIONIQ, "shirt.val.0")
    rows = rows_of_runs([RUNS / "sprc.trec", RUNS / "sprc.jsonl"], query)
    names = [f"SPRC ({RUNS / file})" for file in ("sprc.trec", "sprc.jsonl")]
    assert [row.system for row in rows] == names
    assert rows[0].images == rows[1].images == ("tgt_a", "s1", "s2")


def test_from_the_database(images: Path) -> None:
    hsfiq("import", "fashioniq", FASHIONIQ, "--images", images)
    hsfiq("import", "runs", RUNS / "sprc.trec")
    command = hsfiq("show", "shirt.val.0", "--json")
    assert command.result["systems"] == [{"system": "SPRC", "images": 3, "target_rank": 1}]
    assert command.result["without_picture"] == {"s2": ABSENT}
    (other,) = hsfiq("show", "shirt.val.1~", "--json").result["systems"]
    assert other["target_rank"] == 2
    bare = hsfiq("show", "shirt.val.2")
    assert (bare.code, "no ranked list of this query" in bare.err) == (0, True)
    run = hsfiq("show", "shirt.val.0", "--run", RUNS / "sprc.json", "--out", "it.png", "--json")
    assert [row["system"] for row in run.result["systems"]] == ["sprc"]
    for query in ("shirt.val.99", "shirt.val.0#1"):
        command = hsfiq("show", query)
        assert (command.code, f"query '{query}': is not in the database" in command.err) == (
            2,
            True,
        )


def test_from_a_database_without_an_image_folder() -> None:
    shutil.copytree(FASHIONIQ, "fiq")
    hsfiq("import", "fashioniq", "fiq")
    Image.new("RGB", (9, 9)).save("ref_a.png")
    command = hsfiq("show", "shirt.val.0")
    assert "2 of 2 images have no picture (2 absent as the image folder is unknown" in command.err


# ------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("shirt.val.99", "--data", FASHIONIQ), "has no query 'shirt.val.99'"),
        (("shirt.val.0#1", "--data", FASHIONIQ), "has no query 'shirt.val.0#1'"),
        (("7", "--data", FASHIONIQ), "has no query '7'; ids look like shirt.val.0"),
        (("hat.val.0", "--data", FASHIONIQ), "no captions of category 'hat'; there are"),
        (("7", "--data", CIRR, "--split", "train"), "no captions of split 'train'"),
        (("7", "--data", "absent"), "absent: there is no such folder"),
        (("7", "--data", CIRR, "--run", "absent.json"), "absent.json: there is no such file"),
        (("7", "--data", CIRR, "--out", "it.jpg"), "is not a PNG file"),
        (("7", "--data", CIRR, "--out", "absent/it.png"), "absent: there is no such folder"),
        (("7", "--data", CIRR, "--font", RUNS / "sprc.json"), "is not a font"),
        (("7", "--data", CIRR, "--k", "0"), "--k"),
        (("7", "--split", "val"), "--split: is for a dataset's folder; name it with --data"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(
    words: tuple[str | Path, ...], message: str, tmp_path: Path
) -> None:
    command = hsfiq("show", *words)
    assert (command.code, command.out) == (2, "")
    assert message in command.err
    assert command.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_database() -> None:
    command = hsfiq("show", "7")
    assert (command.code, command.out) == (1, "")
    assert "the database does not exist" in command.err
