"""The common parts of all pages of the studio: the frame, acts, and the owner's language.

A page is rendered by the server. Its buttons and fields send acts as JSON to the page's own
address; the reply has the updated page, and `static/studio/studio.js` applies the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from hsfiq.actors import Actor, Permission, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.login import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    OWNER,
    Identities,
    language_of,
    translated,
)
from hsfiq.annotate.owner.study_pages import number_in, study_of
from hsfiq.annotate.pages import FOLDER, render
from hsfiq.annotate.security import relative_root
from hsfiq.annotate.serving.proxy import remote_user
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.drafts import ChangedElsewhere
from hsfiq.errors import HsfiqError, Refused, Unavailable
from hsfiq.readers.files import parse_json
from hsfiq.text import is_storable_text

YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Studio:
    """The server's services that the pages need."""

    services: Services
    identities: Identities

    @property
    def database(self) -> Database:
        return self.services.database


@dataclass(frozen=True, slots=True)
class Desk:
    """A request of a logged-in user; `given` are the values sent with an act."""

    studio: Studio
    request: Request
    user: User
    language: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> Database:
        return self.studio.database

    @property
    def actor(self) -> Actor:
        return Actor(self.user.name)

    @property
    def place(self) -> Mapping[str, str]:
        """The parts of the page's address, such as the token of a draft."""
        return self.request.path_params

    @property
    def root(self) -> str:
        """The relative address of /owner/."""
        return f"{relative_root(self.request)}{OWNER[1:]}/"

    def study_in(self, session: Session) -> Study:
        """The study of the page's address."""
        return study_of(session, number_in(self.place["study_id"]))

    @contextmanager
    def reading(self) -> Iterator[tuple[Session, Study]]:
        with self.database.reading() as session:
            yield session, self.study_in(session)

    @contextmanager
    def writing(self) -> Iterator[tuple[Session, Study]]:
        with self.database.writing() as session:
            yield session, self.study_in(session)

    def may(self, permission: str) -> bool:
        return self.user.may(Permission(permission))

    def t(self, text: str, /, **values: object) -> str:
        """A text in the owner's language; `values` replace its names in braces."""
        return translated(self.language, text, **values)

    def n(self, one: str, many: str, count: int, **values: object) -> str:
        """A text for a number, which stands for `{n}`."""
        return self.t(one if count == 1 else many, n=f"{count:,}", **values)

    def text(self, name: str, otherwise: str = "") -> str:
        """A text that the act was sent with; `Refused` if it is something else."""
        value = self.given.get(name, otherwise)
        if not isinstance(value, str) or not is_storable_text(value):
            raise Refused(f"{name} is not a text")
        return value

    def number(self, name: str) -> int:
        """A whole number that the act was sent with; `Refused` if a database could not hold it."""
        try:
            number = int(self.given[name])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Refused(f"{name} is not a number") from error
        if abs(number) >= 2**31:  # databases have no larger ones
            raise Refused(f"{name} is too large a number")
        return number


class Said(NamedTuple):
    """The reply to an act: a message, an act that undoes it, and the next address."""

    text: str = ""
    undo: Mapping[str, Any] | None = None
    go: str = ""


Act = Callable[[Desk], Said | None]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the studio.

    Attributes:
        path: below /owner/, such as `study/{study_id}/watch`.
        template: it extends `studio.html`.
        view: the template's values; `Refused` if the page has no content.
        acts: the page's acts, by name.
        permission: required for viewing the page; None if every role may view it.
        needs: the permission for an act, if it is not `MANAGE`.
    """

    path: str
    template: str
    view: Callable[[Desk], Mapping[str, object]]
    acts: Mapping[str, Act] = field(default_factory=dict)
    permission: Permission | None = Permission.READ
    needs: Mapping[str, Permission] = field(default_factory=dict)


def add_page(app: FastAPI, studio: Studio, page: Page) -> None:
    address = f"{OWNER}/{page.path}"

    @app.get(address)
    def shown(request: Request) -> Response:
        desk = desk_of(studio, request, page.permission)
        response = page_response(desk, page)
        if request.query_params.get("language") in LANGUAGES:
            set_language(response, desk)
        return response

    @app.post(address)
    async def act(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(acted, studio, page, request, body)


def set_language(response: Response, desk: Desk) -> None:
    path = desk.request.scope.get("root_path", "") + OWNER
    response.set_cookie(
        LANGUAGE_COOKIE, desk.language, max_age=YEAR, path=path, samesite="lax", httponly=True
    )


def acted(studio: Studio, page: Page, request: Request, body: bytes) -> Response:
    """Perform an act, and reply with the updated page, or with the reason for a refusal."""
    try:
        given = parse_json(body.decode("utf-8", "replace"), "the request")
    except HsfiqError as error:
        return JSONResponse({"error": str(error)}, 422)
    name = given.get("act") if isinstance(given, dict) else None
    if not isinstance(name, str) or name not in page.acts:
        return JSONResponse({"error": "this page cannot do that"}, 422)
    desk = desk_of(studio, request, page.needs.get(name, Permission.MANAGE), given)
    try:
        said = page.acts[name](desk) or Said()
    except Unavailable:
        raise
    except HsfiqError as error:
        return refusal(desk, error)
    reply: dict[str, Any] = {"say": said.text, "undo": said.undo, "go": said.go}
    if not said.go:
        reply["page"] = bytes(page_response(desk, page).body).decode()
    return JSONResponse(reply, headers={"Cache-Control": "no-store"})


def refusal(desk: Desk, error: HsfiqError) -> Response:
    reply: dict[str, Any] = {"error": str(error) if error.where else desk.t(str(error))}
    if isinstance(error, ChangedElsewhere):
        reply |= {
            "value": error.value,
            "by": error.changed_by,
            "at": error.changed_at.isoformat(),
        }
    return JSONResponse(reply, error.status if isinstance(error, Refused) else 422)


def desk_of(
    studio: Studio,
    request: Request,
    permission: Permission | None,
    given: Mapping[str, Any] | None = None,
) -> Desk:
    user = studio.identities.require(request, permission)
    return Desk(studio, request, user, language_of(request), given or {})


def page_response(desk: Desk, page: Page) -> Response:
    try:
        values, status = page.view(desk), 200
        template = page.template
    except Unavailable:
        raise
    except Refused as error:
        values, status = {"title": desk.t("Not found"), "reason": desk.t(error.what)}, 404
        template = "studio_missing.html"
    content = render(template, **frame(desk), **values)
    return HTMLResponse(content, status, headers={"Cache-Control": "no-store"})


def frame(desk: Desk) -> dict[str, object]:
    """The values of the frame of each page."""
    return {
        "desk": desk,
        "t": desk.t,
        "n": desk.n,
        "root": desk.root,
        "has_login": remote_user(desk.request.scope) is None,
        "language": desk.language,
        "languages": LANGUAGES,
        "now": datetime.now(UTC),
        "version": VERSION,
    }


# The style sheet and the scripts of the pages.

FILES = {
    path.name: path.read_bytes() for path in sorted((FOLDER / "static" / "studio").glob("*.*s"))
}
VERSION = sha256(b"\0".join(FILES.values())).hexdigest()[:16]
MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}


def add_files(app: FastAPI) -> None:
    @app.get(f"{OWNER}/files/{{version}}/{{name}}")
    def file(version: str, name: str) -> Response:
        if version != VERSION or name not in FILES:
            return Response(status_code=404)
        cached = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(
            FILES[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=cached
        )


# Files that jobs have written, such as a report.

SANDBOX = {
    "Content-Security-Policy": (
        "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; "
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
        "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
"""A report may hold texts of participants, so it cannot access the site that serves it."""


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder by their paths in it; links are none."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def file_response(folder: Path, path: str) -> Response:
    """A file of a folder, by its path in it; 404 for everything else."""
    file = files_in(folder).get(path)
    if file is None:
        return Response(status_code=404, headers=SANDBOX)
    return FileResponse(file, headers=SANDBOX)
