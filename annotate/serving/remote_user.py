"""The name of a logged-in user in a header that a proxy sets, such as X-Remote-User.

Anybody can send that header, and a proxy may pass on a name that it has not checked. So it counts
only from the proxy's address, only below the one path at which the proxy checks passwords, and only
together with a secret that the proxy sends there alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from logging import getLogger

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.errors import UnreadableInput

OPTION = "--auth-header"
SECRET_OPTION = "--auth-secret-file"  # noqa: S105 (an option's name)
PROXIES = "FORWARDED_ALLOW_IPS"
SECRET_HEADER = "X-Auth-Secret"  # noqa: S105 (a header's name)

KEY = "hsfiq.remote_user"
"""In the scope of a request; no client can set it."""

HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
RESERVED = frozenset(
    {"authorization", "cookie", "host", "origin", "referer", "user-agent", SECRET_HEADER.lower()}
)

UNAMBIGUOUS = re.compile(rb"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~=@:,+-]+)+/?")
"""A path that every proxy and server reads in the same way: nothing encoded, no `//`, no `..`."""

Networks = Sequence[IPv4Network | IPv6Network]

logger = getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrustedHeader:
    """The header in which the proxy names users, and the secret that it sends as X-Auth-Secret."""

    name: str
    secret: str = field(repr=False)


class RemoteUser:
    """ASGI middleware outside the one that believes X-Forwarded-For: it sees who has connected.

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
                "a request names a user in %s without the secret in %s, so nobody is logged in "
                "by it; if your proxy sent it, see docs/proxy.md",
                self._header,
                SECRET_HEADER,
            )
        return False


def remote_user(scope: Scope) -> str | None:
    """The name that the proxy gives, None if it gives none or is not asked."""
    name: str | None = scope.get(KEY)
    return name


def checked_header(name: str) -> str:
    if not HEADER.fullmatch(name) or name.lower() in RESERVED:
        raise UnreadableInput(
            OPTION, f"{name!r} is no header for a user's name", "name one such as X-Remote-User"
        )
    return name


def trusted_proxies() -> Networks:
    """The addresses from which uvicorn believes X-Forwarded-For; `UnreadableInput` if it is all."""
    given = os.environ.get(PROXIES, "127.0.0.1")
    try:
        return [ip_network(name.strip(), strict=False) for name in given.split(",")]
    except ValueError as error:
        raise UnreadableInput(
            PROXIES,
            f"{given!r} does not name the addresses of proxies",
            f"with {OPTION}, whoever is there can enter as anybody: name the proxy's address",
        ) from error


def is_within(address: str, networks: Networks) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return any(ip in network for network in networks)
