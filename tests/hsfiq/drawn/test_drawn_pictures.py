from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("PIL")

from PIL import Image, ImageChops, ImageStat

from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Category, Garment, catalogue
from hsfiq.drawn.pictures import (
    NEUTRAL,
    PALETTES,
    SIZE,
    Stencil,
    draw,
    layers,
    logo_parts,
    pattern_parts,
    write_images,
)
from tests.drawings import shared_picture


@pytest.mark.parametrize("category", ["dress", "shirt", "toptee"])
def test_a_change_of_any_attribute_is_visible(category: Category) -> None:
    for garment in (
        Garment(category, "red", "short", "plain", "round", "none"),
        Garment(category, "black", "long", "floral", "collar", "text"),
    ):
        picture = draw(garment)
        for name in ATTRIBUTES:
            for value in set(VALUES[name]) - {garment.value(name)}:
                repainted = draw(replace(garment, **{name: value}))  # type: ignore[arg-type]
                difference = ImageChops.difference(picture, repainted).convert("L")
                changed = ImageStat.Stat(difference.point(lambda v: 255 if v > 24 else 0)).mean[0]
                # Of 360 x 480 pixels at least 150 are clearly another colour.
                assert changed / 255 * SIZE[0] * SIZE[1] > 150, (garment, name, value)


def test_categories_look_different_and_pictures_have_the_requested_size() -> None:
    garments = [
        Garment(category, "blue", "short", "plain", "round", "none")
        for category in ("dress", "shirt", "toptee")
    ]
    assert len({draw(garment).tobytes() for garment in garments}) == 3
    assert (draw(garments[0]).size, draw(garments[0]).mode) == ((360, 480), "RGB")
    assert draw(garments[0], (90, 120)).size == (90, 120)


def in_frame(stencil: Stencil) -> Image.Image:
    mask = Image.new("L", SIZE)
    mask.paste(stencil.mask, stencil.box)
    return mask


def drawn_on_the_whole_frame(garment: Garment) -> Image.Image:
    """The twin of `draw`: each colour fills a mask of the frame's size."""
    palette, category = PALETTES[garment.colour], garment.category
    shared = layers(category, garment.sleeve, garment.neckline)
    cloth = Image.new("RGB", SIZE, palette.cloth)
    for role, stencil in (
        *pattern_parts(category, garment.sleeve, garment.pattern),
        ("cloth", shared.unpatterned),
        *logo_parts(category, garment.neckline, garment.logo),
        ("button", shared.buttons),
    ):
        cloth.paste(getattr(palette, role), mask=in_frame(stencil))
    shading = Image.new("RGB", SIZE)
    shading.paste(shared.shading, shared.box)
    shaded = ImageChops.add(cloth, shading, 1, -NEUTRAL)
    return Image.composite(shaded, shared.backdrop, shared.cloth)


def test_a_picture_is_the_twins() -> None:
    for garment in catalogue(Random(3), 12):
        assert draw(garment).tobytes() == drawn_on_the_whole_frame(garment).tobytes(), garment


def test_the_garment_has_its_colour_on_a_light_background() -> None:
    picture = draw(Garment("toptee", "red", "short", "plain", "round", "none"))
    red, green, blue = picture.getpixel((180, 300))  # type: ignore[misc]
    assert red > 2 * max(green, blue)
    for corner in ((0, 0), (359, 0), (0, 479), (359, 479)):
        assert min(picture.getpixel(corner)) > 215  # type: ignore[arg-type, type-var]


def test_files_are_named_by_image_id_and_the_same_every_time(tmp_path: Path) -> None:
    garments = catalogue(Random(0), 2)
    write_images(garments, tmp_path / "new" / "images")
    shared_picture.cache_clear()
    write_images(reversed(garments), tmp_path / "again")
    written = sorted((tmp_path / "new" / "images").iterdir())
    assert [path.name for path in written] == [f"{garment.image_id}.jpg" for garment in garments]
    for path in written:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
        with Image.open(path) as picture:
            assert picture.size == SIZE
