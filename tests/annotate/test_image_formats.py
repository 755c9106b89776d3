"""What `GET` of an image returns for files of every kind, compared by pixels; or why nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import LONGEST_SIDE
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Image
from hsfiq.images.display import find_fault
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, enrol, make_study
from tests.hsfiq.images.pictures import (
    COLOURS,
    HEIGHT,
    REFUSED,
    SHOWN,
    WIDTH,
    are_close,
    colours,
    encoded,
    quarters,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, TestClient]]:
    """A study that is served while its images are replaced."""
    place = Place(tmp_path_factory.mktemp("formats"))
    database = make_study(place)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        yield place, enrol(client, database)
    database.close()


def replace_reference(
    place: Place, client: TestClient, suffix: str, content: bytes
) -> tuple[str, Path]:
    """Replace the file of the first question's reference image; its address and its new file."""
    token = token_of(view(client)["reference"])
    database: Database = open_database(place.url)
    with database.reading() as session:
        name = session.scalars(select(Image.name).where(Image.token == token)).one()
    database.close()
    for old in place.images.glob(f"{name}.*"):
        old.unlink()
    file = place.images / f"{name}{suffix}"
    file.write_bytes(content)
    return f"/image/{view(client)['reference']['token']}", file


def picture_at(client: TestClient, address: str) -> Picture.Image:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/webp"
    picture = Picture.open(BytesIO(answer.content))
    assert picture.format == "WEBP"
    return picture


@pytest.mark.parametrize("kind", SHOWN)
def test_an_image_is_shown_right(study: tuple[Place, TestClient], kind: str) -> None:
    place, client = study
    suffix, content, expected = SHOWN[kind]
    address, _ = replace_reference(place, client, suffix, content())
    assert view(client)["reference"]["missing"] is False
    for path in (address, f"{address}/full"):
        picture = picture_at(client, path)
        assert (picture.mode, picture.size) == ("RGB", (WIDTH, HEIGHT))
        assert are_close(colours(picture), expected), colours(picture)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_an_image_is_refused_with_the_reason(study: tuple[Place, TestClient], kind: str) -> None:
    place, client = study
    suffix, content, fault_kind = REFUSED[kind]
    address, file = replace_reference(place, client, suffix, content())
    fault = find_fault(file)
    assert fault is not None
    assert fault.kind == fault_kind
    assert view(client)["reference"]["missing"] is True
    for path in (address, f"{address}/full"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json() == {"error": fault.why}


LARGE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "PNG": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS, (7300, 5480)), "PNG", compress_level=1),
    ),
    "JPEG": (".jpg", lambda: encoded(quarters("RGB", COLOURS, (7300, 5480)), "JPEG")),
    "wider than WebP allows": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS, (20_000, 2_000)), "PNG", compress_level=1),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_an_image_of_40_megapixels_is_shown_right(
    study: tuple[Place, TestClient], kind: str
) -> None:
    place, client = study
    suffix, content = LARGE[kind]
    address, _ = replace_reference(place, client, suffix, content())
    for path, size in ((address, "thumbnail"), (f"{address}/full", "full")):
        picture = picture_at(client, path)
        assert max(picture.size) == LONGEST_SIDE[size]
        assert are_close(colours(picture), COLOURS), colours(picture)
