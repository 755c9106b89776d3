"""The routes of images, in both sizes, for everybody who may see a study's images."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from sqlalchemy.orm import Session

from hsfiq.annotate.images.copies import ImageSize
from hsfiq.annotate.images.response import image_response
from hsfiq.annotate.images.store import ImageStore
from hsfiq.db.engine import Database


def add_images(
    app: FastAPI,
    path: str,
    database: Database,
    images: ImageStore,
    require_known: Callable[[Session, Request], object],
) -> None:
    """Add `path/TOKEN` and `path/TOKEN/full`; `require_known` refuses browsers that may not."""

    def image(request: Request, token: str, size: ImageSize) -> Response:
        with database.reading() as session:
            require_known(session, request)
            known_tags = request.headers.get("if-none-match", "")
            return image_response(session, images, token, size, known_tags)

    @app.get(f"{path}/{{token}}")
    def thumbnail(request: Request, token: str) -> Response:
        return image(request, token, "thumbnail")

    @app.get(f"{path}/{{token}}/full")
    def full_image(request: Request, token: str) -> Response:
        return image(request, token, "full")
