"""Every package decodes image files, or refuses them with the same reason."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hsfiq.annotate.images import WebCopies
from hsfiq.contact_sheet.sheet import load_pictures
from hsfiq.errors import UnreadableInput
from hsfiq.images.decode import MAX_PIXELS, UndecodableImage, decode, find_fault, on_white, upright
from hsfiq.model.features.images import open_image


def encoded(kind: str = "JPEG", size: tuple[int, int] = (60, 80)) -> bytes:
    file = BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, kind)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_refused_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (10_000, 10_000)).save(path)

    fault = find_fault(path)
    assert fault is not None
    assert fault.kind == "too-large"
    _, reasons = load_pictures(["large"], lambda _: path, 100)
    assert reasons == {"large": "image too-large"}
    thumbnails = WebCopies(tmp_path / "cache")
    assert thumbnails.of(path, "thumbnail") is None
    assert thumbnails.of(path, "full") is None
    with pytest.raises(UnreadableInput) as raised:
        open_image(path)
    assert raised.value.where == str(path)
    assert raised.value.what == fault.why
    assert f"{MAX_PIXELS:,} pixels" in fault.why


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_file_is_undecodable(kind: str, tmp_path: Path) -> None:
    complete = encoded(kind, (200, 260))
    path = tmp_path / "image"
    path.write_bytes(complete)
    assert find_fault(path) is None
    for share in (0.01, 0.3, 0.6, 0.9):
        path.write_bytes(complete[: int(len(complete) * share)])
        fault = find_fault(path)
        assert fault is not None
        assert fault.kind == "truncated" or share == 0.01


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_give_an_image_or_a_fault(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(encoded(data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF"]))))
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        content[place] = byte
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged)
    fault = find_fault(path)
    if fault is None:
        assert decode(path).size != (0, 0)
        assert decode(damaged).tobytes() == decode(path).tobytes()
    else:
        assert "\n" not in fault.why


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    path = tmp_path / "turned.png"
    Image.new("RGB", (30, 20)).save(path, exif=exif)
    assert upright(decode(path)).size == ((20, 30) if orientation >= 5 else (30, 20))


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    path = tmp_path / "transparent.png"
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(path)
    assert on_white(upright(decode(path))).getpixel((1, 1)) == (255, 255, 255)
    Image.new("P", (4, 4)).save(path, transparency=0)
    assert on_white(upright(decode(path))).getpixel((1, 1)) == (255, 255, 255)


def test_a_folder_is_undecodable(tmp_path: Path) -> None:
    with pytest.raises(UndecodableImage, match="is not a file"):
        decode(tmp_path)
