"""The name of a logged-in user in a header that a proxy sets, such as X-Remote-User.

Anybody can send that header, so it counts only if the connection comes from the proxy, and only if
`hsfiq serve` was told its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq.errors import UnreadableInput

OPTION = "--auth-header"
PROXIES = "FORWARDED_ALLOW_IPS"

KEY = "hsfiq.remote_user"
"""In the scope of a request; no client can set it."""

HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
RESERVED = frozenset({"authorization", "cookie", "host", "origin", "referer", "user-agent"})

Networks = Sequence[IPv4Network | IPv6Network]


class RemoteUser:
    """ASGI middleware outside the one that believes X-Forwarded-For: it sees who has connected."""

    def __init__(self, app: ASGIApp, header: str) -> None:
        self._app, self._header = app, checked_header(header)
        self._networks = trusted_proxies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            names = Headers(scope=scope).getlist(self._header)
            client = scope.get("client")
            if names and client is not None and is_within(client[0], self._networks):
                # Two headers: one of them may be the client's own. Together they name nobody.
                scope = {**scope, KEY: ",".join(names)}
        await self._app(scope, receive, send)


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
