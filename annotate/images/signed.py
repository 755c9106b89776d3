"""Images at the addresses in participants' views, which browsers keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response

from hsfiq.annotate import practice
from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.images.addresses import WEEK, Address, read_address
from hsfiq.annotate.images.copies import ImageSize
from hsfiq.annotate.images.response import HEADERS, NO_SUCH_IMAGE, not_found
from hsfiq.annotate.images.store import ImageStore, StoredImage
from hsfiq.db.engine import Database
from hsfiq.images.folder import Fault

KEPT = HEADERS | {"Cache-Control": f"private, max-age={WEEK}, immutable"}
"""Another content has another address."""


@dataclass(frozen=True, slots=True)
class SignedImages:
    """Images for whom their addresses were signed.

    The database is asked only about images that this process does not know, or cannot show.
    """

    database: Database
    images: ImageStore
    signer: Signer

    def response(self, participants: Sequence[str], address: str, size: ImageSize) -> Response:
        """The image; status 404, with the reason, if there is none for these participants."""
        drawn = practice.image_content(address)
        if drawn is not None:
            return Response(drawn, media_type="image/webp", headers=HEADERS)
        signed = read_address(address)
        if signed is None or not signed.is_current:
            return not_found(NO_SUCH_IMAGE)
        content = self._content(self.images.known.get(signed.token), signed, participants, size)
        if isinstance(content, Fault):
            with self.database.reading() as session:
                image = self.images.look_up(session, signed.token)
            content = self._content(image, signed, participants, size)
        if isinstance(content, Fault):
            return not_found(content)
        return Response(content, media_type="image/webp", headers=KEPT)

    def _content(
        self,
        image: StoredImage | None,
        signed: Address,
        participants: Sequence[str],
        size: ImageSize,
    ) -> bytes | Fault:
        digest = None if image is None else self.images.digest_where_known(image)
        if image is None or digest is None:
            return NO_SUCH_IMAGE
        if not signed.is_signed_for(self.signer, participants, digest):
            return NO_SUCH_IMAGE
        return self.images.content_where_known(image, size)


def add_signed_images(
    app: FastAPI,
    path: str,
    images: SignedImages,
    participants_of: Callable[[Request], Sequence[str]],
) -> None:
    """Add `path/ADDRESS` and `path/ADDRESS/full`.

    `participants_of` has those whose images a browser may see, and refuses unknown browsers.
    """

    @app.get(f"{path}/{{token}}")
    def thumbnail(request: Request, token: str) -> Response:
        return images.response(participants_of(request), token, "thumbnail")

    @app.get(f"{path}/{{token}}/full")
    def full_image(request: Request, token: str) -> Response:
        return images.response(participants_of(request), token, "full")
