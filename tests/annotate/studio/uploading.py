"""Sending files to a draft as the page's script does, and small archives of any kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from PIL import Image

from hsfiq.drafts import DraftFile, draft_folder
from hsfiq.uploads import uploads_of
from tests.annotate.studio.conftest import StudioClient

LONGEST_SECONDS = 600


def picture(number: int = 0, side: int = 40, form: str = "PNG") -> bytes:
    content = BytesIO()
    Image.new("RGB", (side, side + 10), (number % 256, 90, 200)).save(content, form)
    return content.getvalue()


def zip_of(files: Mapping[str | ZipInfo, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    content = BytesIO()
    with ZipFile(content, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def send_part(
    studio: StudioClient, token: str, name: str, size: int, offset: int, body: bytes, **more: Any
) -> Any:
    fields: dict[str, Any] = {"name": name, "size": size, "stamp": "1", "offset": offset} | more
    return studio.client.post(
        f"/owner/draft/{token}/upload",
        params=fields,
        content=body,
        headers={"content-type": "application/octet-stream"},
    )


def send(
    studio: StudioClient, token: str, name: str, content: bytes, part: int = 2**20, **more: Any
) -> DraftFile:
    """Send a whole file; what it has become."""
    reply = send_part(studio, token, name, len(content), 0, b"", **more)
    while reply.status_code == 200 and (at := reply.json()["received"]) < len(content):
        reply = send_part(studio, token, name, len(content), at, content[at : at + part], **more)
    assert reply.status_code == 200, reply.text
    wait_until_in_place(studio, token)
    return studio.draft(token).content.files[-1]


def wait_until_in_place(studio: StudioClient, token: str) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while any(each.is_complete for each in uploads_of(folder_of(studio, token))):
        assert time.monotonic() < end
        studio.get(f"draft/{token}/images")
        time.sleep(0.02)


def folder_of(studio: StudioClient, token: str) -> Path:
    return draft_folder(studio.database, token)
