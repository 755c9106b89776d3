"""Requests as the browser sent them, whatever a proxy has made of them; and telling a wrong proxy.

With a public URL, each request has that URL's scheme, host and path: redirects, cookies, the check
of origins and Gradio go by them. Without one, they are what the proxy says.
"""

from __future__ import annotations

from logging import getLogger
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.public_url import OPTION, PublicUrl

FORWARDED = (b"forwarded", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix")
"""What a proxy says about the address; Gradio would believe it."""

GRADIO_HOST = b"x-gradio-server"

LONGEST_SHOWN = 200

logger = getLogger(__name__)


class PublicAddress:
    """ASGI middleware around all others.

    `public` is None if nobody has said what it is; then a proxy that misleads the server is told
    in one line of the log, once, with the setting that makes it right.
    """

    def __init__(self, app: ASGIApp, public: PublicUrl | None) -> None:
        self._app, self._public = app, public
        self._has_told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if not self._has_told:
                self._tell(scope)
            if self._public is not None:
                scope = as_sent(scope, self._public)
        await self._app(scope, receive, send)

    def _tell(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._public is None:
            problem = misled(scope, headers)
        else:
            problem = uncut(scope, self._public) or other(headers, self._public)
        if problem is not None:
            self._has_told = True
            logger.warning("%s", problem)


def as_sent(scope: Scope, public: PublicUrl) -> Scope:
    """The request with the public scheme, host and path, which the proxy has cut off.

    A path that begins with the public one all the same is not taken for the whole path: behind a
    proxy that cuts it off, a doubled one would pass what the proxy guards.
    """
    left_out = (b"host", GRADIO_HOST, *FORWARDED)
    headers = [(name, value) for name, value in scope["headers"] if name not in left_out]
    return {
        **scope,
        "scheme": public.scheme,
        "root_path": public.path,
        "path": public.path + scope["path"],
        "raw_path": public.path.encode() + scope.get("raw_path", b""),
        "headers": [(b"host", public.host.encode()), *headers],
    }


def is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def misled(scope: Scope, headers: Headers) -> str | None:
    """What a proxy hides from a server that has no public URL, if a browser's request shows it."""
    seen = own_page(headers)
    if seen is None:
        return None
    scheme, host, path = seen
    told = f"{scope['scheme']}://{headers.get('x-forwarded-host') or headers.get('host', '')}"
    if f"{scheme}://{host}" != told:
        return f"browsers use {scheme}://{host}, but the proxy tells {told}; " + advice(seen)
    below = path.rpartition("/study/")[0] or path.rpartition("/owner/")[0]
    if below and not is_below(scope["path"], below):
        return f"browsers use the path {below}/, which the proxy cuts off; " + advice(seen)
    return None


def other(headers: Headers, public: PublicUrl) -> str | None:
    """That browsers use another address than the public URL, if a request shows it."""
    seen = own_page(headers)
    if seen is None:
        return None
    scheme, host, path = seen
    if f"{scheme}://{host}" != public.origin:
        return f"browsers use {scheme}://{host}, but {OPTION} is {public}; correct it"
    if path and not is_below(path, public.path):
        return f"browsers use the path {path}, but {OPTION} is {public}; correct it"
    return None


def uncut(scope: Scope, public: PublicUrl) -> str | None:
    """That a request arrived with the public path; also what a doubled path looks like."""
    if not public.path or not is_below(scope["path"], public.path):
        return None
    return (
        f"a request arrived with the path {public.path}/, which the server answers with 404; "
        "if all do, let the proxy cut that path off (docs/proxy.md)"
    )


def own_page(headers: Headers) -> tuple[str, str, str] | None:
    """Scheme, host and path of our page that a browser says it sends this request from."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return None
    source = headers.get("referer") or headers.get("origin") or ""
    try:
        parts = urlsplit(source[:LONGEST_SHOWN])
    except ValueError:
        return None
    is_plain = source.isascii() and source.isprintable()
    if "sec-fetch-site" not in headers and not same_name(parts.netloc, headers.get("host", "")):
        return None  # perhaps another site's page
    if parts.scheme not in ("http", "https") or not parts.netloc or not is_plain:
        return None
    return parts.scheme, parts.netloc, parts.path


def same_name(first: str, second: str) -> bool:
    """Whether two hosts differ at most in their ports."""
    return first.partition(":")[0] == second.partition(":")[0]


def advice(seen: tuple[str, str, str]) -> str:
    scheme, host, path = seen
    below = path.rpartition("/study/")[0] or path.rpartition("/owner/")[0]
    return f"start the server with {OPTION} {scheme}://{host}{below}/"
