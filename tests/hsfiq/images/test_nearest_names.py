"""The image whose name is most like one that stands for none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.images.folder import ImageFolder, OwnImages

NAMES = ("lamp-07.jpg", "lamp-40.jpg", "shop/Red Shirt 1.png", "chair.png", "table.png")


@pytest.fixture
def images(tmp_path: Path) -> OwnImages:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    return OwnImages(ImageFolder(tmp_path))


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("lamp-7.jpeg", "lamp-07.jpg"),
        ("LAMP_007", "lamp-07.jpg"),
        ("lmap-40.jpg", "lamp-40.jpg"),
        ("lamp-41.jpg", None),
        ("lamp-04.jpg", None),
        ("red-shirt-01.jpg", "shop/Red Shirt 1.png"),
        ("photos/chairs.png", "chair.png"),
        ("sofa.png", None),
        ("", None),
        ("../\0", None),
    ],
)
def test_numbers_must_be_the_same(images: OwnImages, written: str, nearest: str | None) -> None:
    assert images.nearest(written) == nearest


def test_a_name_in_another_case_is_named(images: OwnImages) -> None:
    with pytest.raises(ValueError, match="is image 'Chair'") as error:
        images.id_of("Chair")
    assert error.value.remedy == "there is chair.png"  # type: ignore[attr-defined]
