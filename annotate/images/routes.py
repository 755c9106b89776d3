"""The routes of images, in both sizes, for the owner, who may see all."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from hsfiq.annotate.images.copies import ImageSize
from hsfiq.annotate.images.response import image_response
from hsfiq.annotate.images.store import ImageStore
from hsfiq.db.engine import Database


def add_images(app: FastAPI, path: str, database: Database, images: ImageStore) -> None:
    """Add `path/TOKEN` and `path/TOKEN/full`."""

    def image(request: Request, token: str, size: ImageSize) -> Response:
        with database.reading() as session:
            known_tags = request.headers.get("if-none-match", "")
            return image_response(session, images, token, size, known_tags)

    @app.get(f"{path}/{{token}}")
    def thumbnail(request: Request, token: str) -> Response:
        return image(request, token, "thumbnail")

    @app.get(f"{path}/{{token}}/full")
    def full_image(request: Request, token: str) -> Response:
        return image(request, token, "full")
