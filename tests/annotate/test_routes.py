"""Every route, every role and every method: who is let in is listed here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.actors import Role
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.preview import new_preview, preview_path
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from tests.annotate.owner.studies_in_progress import add_account, log_in, set_owner
from tests.annotate.served_studies import browser_of, enrol

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

ANYBODY, PARTICIPANT, PREVIEWER = "anybody", "participant", "previewer"
OWNER, ANALYST, HELPER = Role
ROLES = (ANYBODY, PARTICIPANT, PREVIEWER, *Role)

STUDIO: dict[str, set[Role]] = {
    "/owner": {OWNER, ANALYST, HELPER},
    "/owner/": {OWNER, ANALYST, HELPER},
    "/owner/board": {OWNER, ANALYST, HELPER},
    "/owner/board/": {OWNER, ANALYST, HELPER},
    "/owner/files/{version}/{name}": {OWNER, ANALYST, HELPER},
    "/owner/logout": {OWNER, ANALYST, HELPER},
    "/owner/upload": {OWNER, ANALYST},
    "/owner/image/{token}": {OWNER, ANALYST},
    "/owner/image/{token}/full": {OWNER, ANALYST},
    "/owner/preview/{study_id}": {OWNER, ANALYST},
    "/owner/leaderboard/{study_id}": {OWNER, ANALYST},
    "/owner/study/{study_id}/watch": {OWNER, ANALYST},
    "/owner/study/{study_id}/results": {OWNER, ANALYST},
    "/owner/study/{study_id}/texts": {OWNER, ANALYST},
    "/owner/study/{study_id}/{table}.csv": {OWNER, ANALYST},
    "/owner/study/{study_id}/report/{job_id}/{path:path}": {OWNER, ANALYST},
    "/owner/study/{study_id}/release/{file}": {OWNER, ANALYST},
    "/owner/study/{study_id}/pay.csv": {OWNER},
    "/owner/study/{study_id}/recruiting": {OWNER, HELPER},
    "/owner/study/{study_id}/history": {OWNER},
    "/owner/study/{study_id}/setup": {OWNER},
    **{
        f"/owner/draft/{{token}}/{page}": {OWNER}
        for page in (
            *("images", "systems", "question", "design", "people", "launch", "study.toml"),
            *("upload", "image/{name:path}", "rows.csv", "links.csv", "rehearsal/{path:path}"),
            *("preview", "texts/{tag}.json"),
        )
    },
    "/owner/accounts": {OWNER},
    "/owner/audit/{study_id}/{file_format}": {OWNER},
}
"""The paths of the studio, with the roles that may request them."""

ACCESS: dict[str, set[str]] = {
    ANYBODY: {
        "/", "/enrol", "/start", "/start/{token}", "/healthz", "/healthz/client", "/readyz",
        "/leaderboard/{name}", "/owner/login",
        "/shared/{token}", "/shared/{token}/{path:path}",
        # What the address itself proves is in its token or its signature.
        "/owner/link/{token}",
        "/preview/open/{signed}", "/framed/{address:path}",
        # The page's own scripts are in the repository.
        "/page/{version}/{name}", "/preview/page/{version}/{name}",
    },
    PARTICIPANT: {
        "/continue", "/opening", "/question", "/question/{number}", "/consent", "/practice",
        "/submit", "/check", "/language", "/messages-seen", "/questionnaire", "/withdrawal",
        "/reconsider", "/search/upload",
        "/search/turn", "/search/list", "/search/stop", "/image/{token}", "/image/{token}/full",
        "/image/upload/{token}", "/study/",
    },
    PREVIEWER: {
        "/preview/opening", "/preview/question", "/preview/question/{number}",
        "/preview/language", "/preview/next-step", "/preview/restart", "/preview/consent",
        "/preview/practice", "/preview/submit", "/preview/questionnaire", "/preview/check",
        "/preview/image/{token}", "/preview/image/{token}/full", "/preview/study/",
    },
    **{role: {path for path, roles in STUDIO.items() if role in roles} for role in Role},
}  # fmt: skip
"""The paths that a role may request, beside those of anybody."""

PARAMETERS = {"token": "0" * 32, "kind": "hp", "file_format": "csv", "name": "absent"}
"""What a path's parameters are; the others are 1."""


@pytest.fixture
def browsers(app: FastAPI, database: Database) -> Iterator[dict[str, TestClient]]:
    """A browser of each role."""
    set_owner(database)
    with database.reading() as session:
        place = new_preview(session, list_studies(session)[0])
    with browser_of(app) as client:
        enrolled = enrol(browser_of(app), database)
        previewer = browser_of(app)
        assert previewer.get(preview_path(Services.of(database).signer, place)).status_code == 303
        users = [user_in(browser_of(app), database, role) for role in Role]
        yield dict(zip(ROLES, (client, enrolled, previewer, *users), strict=True))


def user_in(browser: TestClient, database: Database, role: Role) -> TestClient:
    """A browser in which somebody with this role has logged in."""
    if role != OWNER:
        add_account(database, role, role)
    assert log_in(browser, name=role).status_code == 303
    return browser


def paths_of(app: FastAPI) -> dict[str, set[str]]:
    """Each path of the app's own routes, with the methods that it answers."""
    paths: dict[str, set[str]] = {}
    for route in app.routes:
        paths.setdefault(vars(route)["path"], set()).update(vars(route)["methods"])
    return paths


def address_of(path: str) -> str:
    return re.sub(r"\{(\w+)(:path)?\}", lambda match: PARAMETERS.get(match[1], "1"), path)


def test_every_route_is_listed(app: FastAPI) -> None:
    listed = [*STUDIO, *(path for role in ROLES[:3] for path in ACCESS[role])]
    assert sorted(paths_of(app)) == sorted(listed)


def test_nobody_else_is_let_in(browsers: dict[str, TestClient]) -> None:
    for role, client in browsers.items():
        others = set().union(*ACCESS.values()) - ACCESS[ANYBODY] - ACCESS[role]
        for path in sorted(others):
            for method in METHODS:
                body = {} if method == "POST" else None
                status = client.request(method, address_of(path), json=body).status_code
                refused = {401, 403, 404, 405, 422}  # 422: what was sent is examined first
                assert status in refused, f"{role}: {method} {path}: {status}"


def test_a_role_is_refused_what_others_of_the_studio_may(
    browsers: dict[str, TestClient],
) -> None:
    for role in Role:
        for path in sorted(STUDIO.keys() - ACCESS[role]):
            for method in METHODS:
                body = {} if method == "POST" else None
                status = browsers[role].request(method, address_of(path), json=body).status_code
                if method == "GET" or not path.startswith("/owner/study/"):
                    assert status == 403, f"{role}: {method} {path}: {status}"
                else:  # a page looks at what it is asked to do before it looks at the role
                    assert status in (403, 405, 422), f"{role}: {method} {path}: {status}"


def test_a_role_is_let_in(app: FastAPI, browsers: dict[str, TestClient]) -> None:
    for role, client in browsers.items():
        for path in sorted(ACCESS[role] - {"/owner/logout"}):
            for method in sorted(paths_of(app)[path] & {"GET"}):
                status = client.request(method, address_of(path)).status_code
                assert status != 401, f"{role}: {method} {path}: {status}"
                assert status != 403 or path not in STUDIO, f"{role}: {method} {path}"
                assert status < 500, f"{role}: {method} {path}: {status}"


def test_unlisted_methods_are_refused_to_everybody(
    app: FastAPI, browsers: dict[str, TestClient]
) -> None:
    for role in (ANYBODY, OWNER):
        for path, methods in paths_of(app).items():
            for method in set(METHODS) - methods - {"HEAD"}:
                status = browsers[role].request(method, address_of(path)).status_code
                assert status in (401, 403, 404, 405), f"{role}: {method} {path}: {status}"
