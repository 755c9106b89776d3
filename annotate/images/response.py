"""The response to the owner's request for an image."""

from __future__ import annotations

import hashlib
import re

from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.annotate.images.copies import ImageSize
from hsfiq.annotate.images.store import ImageStore
from hsfiq.images.folder import Fault

TOKEN = re.compile(r"[0-9a-f]{32}")

HEADERS = {"Cache-Control": "private, max-age=300", "X-Content-Type-Options": "nosniff"}
"""After some minutes, browsers ask whether an image has changed."""

NO_SUCH_IMAGE = Fault("missing", "there is no such image")


def image_response(
    session: Session, store: ImageStore, token: str, size: ImageSize, known_tags: str = ""
) -> Response:
    """The image with this token; status 304 if the browser has it, 404 with the reason if nobody.

    The ETag depends on the content alone, and there is no Last-Modified: a file's date can identify
    it as well as its name. `known_tags` is the request's If-None-Match.
    """
    image = store.look_up(session, token) if TOKEN.fullmatch(token) else None
    content = NO_SUCH_IMAGE if image is None else store.content_where_known(image, size)
    if isinstance(content, Fault):
        return not_found(content)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = HEADERS | {"ETag": tag}
    if tag in known_tags:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/webp", headers=headers)


def not_found(fault: Fault) -> Response:
    headers = {"Cache-Control": "no-store"}
    return JSONResponse({"error": fault.why}, status_code=404, headers=headers)
