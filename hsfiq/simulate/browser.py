"""A browser as far as answering a study needs one: one kept connection, and cookies."""

from __future__ import annotations

import http.client
from http.cookies import SimpleCookie
from urllib.parse import urlencode, urlsplit

from hsfiq.errors import UnreadableInput

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class Refusal(Exception):
    """The server answered with another status than was hoped for.

    `status` is that status, `body` what came with it.
    """

    def __init__(self, asked: str, status: int, body: bytes) -> None:
        super().__init__(f"{asked}: {status} {body[:200]!r}")
        self.status = status
        self.body = body


class Browser:
    """One person's connection to a server."""

    def __init__(self, address: str, timeout: float = 60) -> None:
        """Make ready to connect.

        Args:
            address: of the server, http or https; a path in it goes before every path asked for.
            timeout: seconds after which the server counts as silent.

        Raises:
            UnreadableInput: it is no such address.
        """
        host, port, is_secure, self._prefix = parts_of(address)
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        self._connection = kind(host, port, timeout=timeout)
        self.cookies: dict[str, str] = {}

    def get(self, path: str) -> bytes:
        """The body of a page."""
        return self.send("GET", path)

    def post_form(self, path: str, **fields: str) -> bytes:
        """Send a form as browsers do."""
        return self.send("POST", path, urlencode(fields).encode(), FORM)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str | None = None,
        **headers: str,
    ) -> bytes:
        """One request; cookies are kept, redirects are not followed.

        Raises:
            Refusal: the answer is neither a success nor a redirect.
            OSError: the server cannot be reached, or is silent.
            HTTPException: what it says is no HTTP.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type:
            sent["Content-Type"] = content_type
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        asked = self._prefix + path
        try:
            self._connection.request(method, asked, body, sent)
            response = self._connection.getresponse()
        except ConnectionError:
            # The server had let the idle connection go: like a browser, connect anew, once.
            self._connection.close()
            self._connection.request(method, asked, body, sent)
            response = self._connection.getresponse()
        received = response.read()
        for header in response.headers.get_all("Set-Cookie") or ():
            for name, morsel in SimpleCookie(header).items():
                self.cookies[name] = morsel.value
        if response.status >= 400:
            raise Refusal(f"{method} {path}", response.status, received)
        return received

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        self._connection.close()


def parts_of(address: str) -> tuple[str, int | None, bool, str]:
    """Host, port, whether the connection is secure, and the path before every other.

    Raises:
        UnreadableInput: the address is none of http or https.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise UnreadableInput(address, "is no http(s) address", "give one as http://127.0.0.1:7860")
    return host, port, parts.scheme == "https", parts.path.rstrip("/")
