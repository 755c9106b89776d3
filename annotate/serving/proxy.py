"""Behind a proxy: the public address, the client's address, and the user whom a header names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from logging import getLogger
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.errors import UnreadableInput
from hsfiq.public_url import OPTION, PublicUrl

# Which client sends a request: its address, and the network that counts as one client.


def client_address(request: Request) -> str:
    """The client's address; uvicorn takes it from a header only if a trusted proxy sends it."""
    return request.client.host if request.client else ""


def network_of(address: str) -> str:
    """The network of one client: an IPv4 address, the /48 of an IPv6 address, or the name."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or IPv6Network((int(ip), 48), strict=False))
    return str(ip)


# Requests as the browser sent them, whatever a proxy has made of them; and telling a wrong proxy.
#
# With a public URL, each request has that URL's scheme, host and path: redirects, cookies, the
# check of origins and Gradio go by them. Without one, they are what the proxy says.

FORWARDED = (b"forwarded", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix")
"""The proxy's headers about the address, which Gradio would trust."""

GRADIO_HOST = b"x-gradio-server"

LONGEST_SHOWN = 200

logger = getLogger(__name__)


class PublicAddress:
    """ASGI middleware around all others.

    `public` is None if it is not set; if a proxy misleads the server, the log then reports it once,
    with the correct setting.
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
    """The request with the public scheme, host and path, which the proxy has stripped.

    A path that still begins with the public path is not treated as the whole path: behind a proxy
    that strips it, a doubled path would bypass the proxy's access control.
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
    """A message if a request shows what a proxy hides from a server without a public URL."""
    seen = own_page(headers)
    if seen is None:
        return None
    scheme, host, path = seen
    told = f"{scope['scheme']}://{headers.get('x-forwarded-host') or headers.get('host', '')}"
    if f"{scheme}://{host}" != told:
        return f"browsers use {scheme}://{host}, but the proxy reports {told}; " + advice(seen)
    below = path.rpartition("/study/")[0] or path.rpartition("/owner/")[0]
    if below and not is_below(scope["path"], below):
        return f"browsers use the path {below}/, which the proxy strips; " + advice(seen)
    return None


def other(headers: Headers, public: PublicUrl) -> str | None:
    """A message if a request shows that browsers use an address other than the public URL."""
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
    """A message if a request arrived with the public path, which may also be a doubled path."""
    if not public.path or not is_below(scope["path"], public.path):
        return None
    return (
        f"a request arrived with the path {public.path}/, which the server answers with 404; "
        "if this holds for all requests, configure the proxy to strip that path "
        "(docs/hosting/proxy.md)"
    )


def own_page(headers: Headers) -> tuple[str, str, str] | None:
    """Scheme, host and path of the app's page that sent this request, according to the browser."""
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


# The name of a logged-in user in a header that a proxy sets, such as X-Remote-User.
#
# Anybody can send that header, and a proxy may pass on a name that it has not checked. So it counts
# only from the proxy's address, only below the one path at which the proxy checks passwords, and
# only together with a secret that the proxy sends there alone.

HEADER_OPTION = "--auth-header"
SECRET_OPTION = "--auth-secret-file"  # noqa: S105 (an option's name)
PROXIES = "FORWARDED_ALLOW_IPS"
SECRET_HEADER = "X-Auth-Secret"  # noqa: S105 (a header's name)

KEY = "hsfiq.remote_user"
"""The key in the scope of a request; no client can set it."""

HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
RESERVED = frozenset(
    {"authorization", "cookie", "host", "origin", "referer", "user-agent", SECRET_HEADER.lower()}
)

UNAMBIGUOUS = re.compile(rb"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~=@:,+-]+)+/?")
"""A path that every proxy and server reads in the same way: nothing encoded, no `//`, no `..`."""

Networks = Sequence[IPv4Network | IPv6Network]


@dataclass(frozen=True, slots=True)
class TrustedHeader:
    """The header in which the proxy names users, and the secret that it sends as X-Auth-Secret."""

    name: str
    secret: str = field(repr=False)


class RemoteUser:
    """ASGI middleware outside the one that trusts X-Forwarded-For: it sees the actual client.

    `below` is the path, with a final slash, at which the header counts.
    """

    def __init__(self, app: ASGIApp, header: TrustedHeader, below: str) -> None:
        self._app, self._header = app, checked_header(header.name)
        self._secret, self._below = header.secret.encode(), below.encode()
        self._networks = trusted_proxies()
        self._has_told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._may_name(scope):
            names = Headers(scope=scope).getlist(self._header)
            if names and self._has_secret(scope):
                # Two headers: one of them may be the client's own. Together they name nobody.
                scope = {**scope, KEY: ",".join(names)}
        await self._app(scope, receive, send)

    def _may_name(self, scope: Scope) -> bool:
        client, path = scope.get("client"), scope.get("raw_path", b"")
        is_below = path.startswith(self._below) and UNAMBIGUOUS.fullmatch(path) is not None
        return is_below and client is not None and is_within(client[0], self._networks)

    def _has_secret(self, scope: Scope) -> bool:
        wanted = SECRET_HEADER.lower().encode()
        sent = [value for name, value in scope["headers"] if name == wanted]
        if len(sent) == 1 and compare_digest(sent[0], self._secret):
            return True
        if not self._has_told:
            self._has_told = True
            logger.warning(
                "a request names a user in %s without the secret in %s, so it logs nobody in; if "
                "your proxy sent it, see docs/hosting/proxy.md",
                self._header,
                SECRET_HEADER,
            )
        return False


def remote_user(scope: Scope) -> str | None:
    """The name that the proxy gives; None if it gives none or is not used."""
    name: str | None = scope.get(KEY)
    return name


def checked_header(name: str) -> str:
    if not HEADER.fullmatch(name) or name.lower() in RESERVED:
        raise UnreadableInput(
            HEADER_OPTION,
            f"{name!r} cannot be the header for a user's name",
            "use a header such as X-Remote-User",
        )
    return name


def trusted_proxies() -> Networks:
    """The addresses from which uvicorn trusts X-Forwarded-For; `UnreadableInput` if all are."""
    given = os.environ.get(PROXIES, "127.0.0.1")
    try:
        return [ip_network(name.strip(), strict=False) for name in given.split(",")]
    except ValueError as error:
        raise UnreadableInput(
            PROXIES,
            f"{given!r} does not name the addresses of proxies",
            f"with {HEADER_OPTION}, anybody at these addresses can log in as any user: name the "
            "proxy's address",
        ) from error


def is_within(address: str, networks: Networks) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return any(ip in network for network in networks)
