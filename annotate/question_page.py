"""The question page: its HTML with the first view, and its style sheets and scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Match, Route
from starlette.types import Scope

from hsfiq.annotate.cookies import UnknownParticipant
from hsfiq.annotate.pages import FOLDER, render
from hsfiq.annotate.texts import language_for
from hsfiq.collect.protocol import FailedOpening, Opening
from hsfiq.errors import Refused, Unavailable
from hsfiq.study.languages import standard_texts

FILES = {path.name: path.read_bytes() for path in sorted((FOLDER / "static" / "page").glob("*.*s"))}
"""The page's style sheets and scripts."""

VERSION = sha256(b"\0".join(FILES.values())).hexdigest()[:16]
"""Part of the files' addresses, so that browsers can keep them until they change."""

CACHED = {"Cache-Control": "public, max-age=31536000, immutable"}
MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}


def add_question_page(app: FastAPI, root: str, opening: Callable[[Request], Opening]) -> None:
    """Serve the page at `root`/study/ and its files next to it; `opening` is the first view.

    There is no state on the server: the participant is in the cookie, and their progress in the
    database.
    """

    def question_page(request: Request) -> Response:
        first: Opening | FailedOpening
        try:
            first = opening(request)
        except Unavailable:
            raise  # the app has a page for this
        except Refused as error:
            first = failed_opening(request.headers, error)
        # Without "<", no text of a study can end the element that holds it.
        text = json.dumps(first, ensure_ascii=False).replace("<", r"\u003c")
        page = render("question.html", version=VERSION, files=FILES, opening=Markup(text))  # noqa: S704
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    app.router.routes += [
        CompressedRoute(f"{root}/study/", question_page),
        CompressedRoute(f"{root}/page/{{version}}/{{name}}", page_file),
    ]


class CompressedRoute(Route):
    """A route whose responses are compressed for browsers that accept it."""

    def __init__(self, path: str, endpoint: Callable[..., Any]) -> None:
        super().__init__(path, endpoint, middleware=[Middleware(GZipMiddleware)])

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self}  # as FastAPI's routes do, for logs and metrics


async def page_file(request: Request) -> Response:
    name = request.path_params["name"]
    if request.path_params["version"] != VERSION or name not in FILES:
        return Response(status_code=404)
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(FILES[name], media_type=media_type, headers=CACHED)


def failed_opening(headers: Mapping[str, str], error: Refused) -> FailedOpening:
    """The content of the page instead of the study."""
    language = language_for(headers)
    return {
        "error": str(error),
        "participant_unknown": isinstance(error, UnknownParticipant),
        "language": language,
        "texts": standard_texts(language)["page"],
    }
