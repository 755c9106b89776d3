"""Images as the pages show them: WebP copies at addresses that are signed for participants."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from hsfiq.annotate import drawn_practice
from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.image_copies import ImageSize, ImageStore, StoredImage, WebCopies
from hsfiq.db.engine import Database
from hsfiq.images.folder import Fault

# The addresses of images in a participant's views.
#
# An address is signed for one participant, one content and one week. So a browser can keep what it
# gets, and the server need not ask the database who may see it. A browser without the participant's
# cookie gets nothing, and an address ends with the week after its own.

WEEK = 7 * 24 * 3600

ADDRESS = re.compile(r"([0-9a-f]{32})\.([0-9]{1,6})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Address:
    """An address that a browser has sent: an image's token, a week, and a signature."""

    token: str
    week: int
    signature: str

    @property
    def is_current(self) -> bool:
        """Whether it is of this week or one beside it, as clocks may differ."""
        return abs(self.week - this_week()) <= 1

    def is_signed_for(self, signer: Signer, participants: Sequence[str], digest: str) -> bool:
        text = signed_text(self.token, self.week, digest)
        return any(
            signer.confirms(purpose_for(participant), text, self.signature)
            for participant in participants
        )


def signed_address(signer: Signer, participant: str, token: str, digest: str | None) -> str:
    """The address of an image's content, for one participant; without a digest, of no content."""
    week = this_week()
    signature = signer.derive(purpose_for(participant), signed_text(token, week, digest or ""))
    return f"{token}.{week}.{signature}"


def read_address(text: str) -> Address | None:
    match = ADDRESS.fullmatch(text)
    return Address(match[1], int(match[2]), match[3]) if match else None


def this_week() -> int:
    return int(time.time() // WEEK)


def signed_text(token: str, week: int, digest: str) -> str:
    return f"{token}:{week}:{digest}"


def purpose_for(participant: str) -> str:
    return f"images of {participant}"


# The response to the owner's request for an image.

TOKEN = re.compile(r"[0-9a-f]{32}")

HEADERS = {"Cache-Control": "private, max-age=300", "X-Content-Type-Options": "nosniff"}
"""After some minutes, browsers ask whether an image has changed."""

NO_SUCH_IMAGE = Fault("missing", "there is no such image")


def image_response(
    session: Session, store: ImageStore, token: str, size: ImageSize, known_tags: str = ""
) -> Response:
    """The image with this token; status 304 if the browser has it, 404 with the reason if missing.

    The ETag depends on the content alone, and there is no Last-Modified: a file's date can identify
    it as well as its name. `known_tags` is the request's If-None-Match.
    """
    image = store.look_up(session, token) if TOKEN.fullmatch(token) else None
    content = NO_SUCH_IMAGE if image is None else store.content_where_known(image, size)
    return not_found(content) if isinstance(content, Fault) else tagged(content, known_tags)


def tagged(content: bytes, known_tags: str) -> Response:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = HEADERS | {"ETag": tag}
    if tag in known_tags:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/webp", headers=headers)


def file_response(copies: WebCopies, path: Path, request: Request) -> Response:
    """The thumbnail of a file that is not an image of a dataset."""
    copy = copies.of(path, "thumbnail")
    content = copy if isinstance(copy, Fault) else copies.read(copy)
    if content is None or isinstance(content, Fault):
        return not_found(content or NO_SUCH_IMAGE)
    return tagged(content, request.headers.get("if-none-match", ""))


def not_found(fault: Fault) -> Response:
    headers = {"Cache-Control": "no-store"}
    return JSONResponse({"error": fault.why}, status_code=404, headers=headers)


# The routes of images, in both sizes, for the owner, who may see all.


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


# Images at the addresses in participants' views, which browsers keep.

KEPT = HEADERS | {"Cache-Control": f"private, max-age={WEEK}, immutable"}
"""Different content has a different address."""


@dataclass(frozen=True, slots=True)
class SignedImages:
    """Images for the participants for whom their addresses were signed.

    The database is asked only about images that this process does not know, or cannot show.
    """

    database: Database
    images: ImageStore
    signer: Signer

    def response(self, participants: Sequence[str], address: str, size: ImageSize) -> Response:
        """The image; status 404, with the reason, if there is none for these participants."""
        drawn = drawn_practice.image_content(address)
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
    images_of: Callable[[Request], SignedImages],
    participants_of: Callable[[Request], Sequence[str]],
) -> None:
    """Add `path/ADDRESS` and `path/ADDRESS/full`.

    `participants_of` has those whose images a browser may see, and refuses unknown browsers.
    """

    @app.get(f"{path}/{{token}}")
    def thumbnail(request: Request, token: str) -> Response:
        return images_of(request).response(participants_of(request), token, "thumbnail")

    @app.get(f"{path}/{{token}}/full")
    def full_image(request: Request, token: str) -> Response:
        return images_of(request).response(participants_of(request), token, "full")
