"""The response to a browser's request for an image."""

from __future__ import annotations

import hashlib
import re

from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate import practice
from hsfiq.annotate.images.copies import ImageSize
from hsfiq.annotate.images.store import ImageStore
from hsfiq.db.tables import Image
from hsfiq.images.faults import Fault

TOKEN = re.compile(r"[0-9a-f]{32}")

HEADERS = {"Cache-Control": "private, max-age=300", "X-Content-Type-Options": "nosniff"}
"""The next question's images are fetched in advance and used within minutes; after that, browsers
ask whether an image has changed."""


def image_response(
    session: Session, store: ImageStore, token: str, size: ImageSize, known_tags: str = ""
) -> Response:
    """The image with this token; status 304 if the browser has it, 404 with the reason if nobody.

    The ETag depends on the content alone, and there is no Last-Modified: a file's date can identify
    it as well as its name. `known_tags` is the request's If-None-Match.
    """
    content = content_of(session, store, token, size)
    if isinstance(content, Fault):
        headers = {"Cache-Control": "no-store"}
        return JSONResponse({"error": content.why}, status_code=404, headers=headers)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = HEADERS | {"ETag": tag}
    if tag in known_tags:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/webp", headers=headers)


def content_of(session: Session, store: ImageStore, token: str, size: ImageSize) -> bytes | Fault:
    drawn = practice.image_content(token)
    if drawn is not None:
        return drawn
    image = None
    if TOKEN.fullmatch(token):
        image = session.scalars(select(Image).where(Image.token == token)).one_or_none()
    if image is None:
        return Fault("missing", "there is no such image")
    copy = store.file_of(session, image, size)
    return copy if isinstance(copy, Fault) else copy.read_bytes()
